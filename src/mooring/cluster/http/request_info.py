"""The path and the query parameters of a request."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mooring.api.label_selectors import parse_int
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import bad_request, no_such_path
from mooring.cluster.http.api import Api
from mooring.cluster.request_context import RequestContext, User
from mooring.cluster.rest_mapper import RestMapper
from mooring.cluster.selectors import SelectionPredicate, parse_field_selector, parse_label_selector
from mooring.unexpected_errors import shortened

#: The length to which values in messages are truncated.
_MAX_TEXT: Final = 100


class RequestInfo(NamedTuple):
    """The target of a request: an object, a collection or a subresource."""

    resource: Resource
    #: The namespace; None for all namespaces and for cluster-scoped resources.
    namespace: str | None
    name: str
    subresource: str


def parse_path(path: str, mapper: RestMapper) -> RequestInfo:
    """Parse a path such as `/apis/apps/v1/namespaces/default/deployments/web/scale`."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        raise no_such_path()
    if len(rest) < 2:
        raise no_such_path()
    version, *rest = rest
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and not (
        group == "" and len(rest) == 3 and rest[2] in {"status", "finalize"}
    ):  # fmt: skip
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise no_such_path()
    resource = mapper.find(group, version, rest[0])
    if resource is None or (namespace is not None and not resource.namespaced):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if name and resource.namespaced and namespace is None:
        raise no_such_path()
    return RequestInfo(resource, namespace, name, subresource)


_VALIDATIONS = frozenset({"Strict", "Warn", "Ignore"})


def request_context(user: User, query: Mapping[str, str], headers: Mapping[str, str]) -> RequestContext:
    """Return the options of a request."""
    if not query:
        return RequestContext(user, manager=_agent(headers))
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise bad_request(f'Invalid value: "{dry_run}": dryRun: Unsupported value: supported values: "All"')
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        raise bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        )
    return RequestContext(
        user,
        manager=query.get("fieldManager") or _agent(headers),
        dry_run=dry_run == "All",
        validation=validation,
        force=query.get("force") in {"true", "1"},
    )


def _agent(headers: Mapping[str, str]) -> str:
    return headers.get("User-Agent", "unknown").partition("/")[0][:128]


def selection_predicate(
    api: Api, resource: Resource, namespace: str | None, query: Mapping[str, str]
) -> SelectionPredicate:
    """Return the filter of a list, a watch or the deletion of a collection."""
    labels = query.get("labelSelector", "")
    fields = query.get("fieldSelector", "")
    selector = parse_label_selector(labels) if labels else None
    if selector is not None and selector.is_empty:
        selector = None
    predicate = parse_field_selector(fields, api.mapper.kind(resource).fields) if fields else None
    return SelectionPredicate(namespace, selector, predicate)


def number(query: Mapping[str, str], name: str) -> int:
    """Return a number from the query; 0 if it is absent."""
    text = query.get(name) or "0"
    found = parse_int(text)
    if found is None:
        raise bad_request(f'strconv.ParseInt: parsing "{shortened(text, _MAX_TEXT)}": invalid syntax')
    return max(found, 0)


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a Boolean from the query."""
    return query.get(name, "") in {"true", "1", "True"}
