"""Query parameters."""

from collections.abc import Mapping

from mooring.cluster.calls import Call, User
from mooring.cluster.errors import bad_request
from mooring.cluster.http.context import Api
from mooring.cluster.listing import Filter
from mooring.cluster.resources import Resource
from mooring.cluster.selectors import parse_field_selector, parse_label_selector

_VALIDATIONS = frozenset({"Strict", "Warn", "Ignore"})


def call_of(user: User, query: Mapping[str, str], headers: Mapping[str, str]) -> Call:
    """Return the options of a request."""
    if not query:
        return Call(user, manager=_agent(headers))
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise bad_request(f'Invalid value: "{dry_run}": dryRun: Unsupported value: supported values: "All"')
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        raise bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        )
    return Call(
        user,
        manager=query.get("fieldManager") or _agent(headers),
        dry_run=dry_run == "All",
        validation=validation,
        force=query.get("force") in {"true", "1"},
    )


def _agent(headers: Mapping[str, str]) -> str:
    return headers.get("User-Agent", "unknown").partition("/")[0][:128]


def filter_of(api: Api, resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Filter:
    """Return the filter of a list, a watch or the deletion of a collection."""
    labels = query.get("labelSelector", "")
    fields = query.get("fieldSelector", "")
    selector = parse_label_selector(labels) if labels else None
    if selector is not None and selector.is_empty:
        selector = None
    chosen = parse_field_selector(fields, api.table.kind(resource).fields) if fields else None
    return Filter(namespace, selector, chosen)


def number(query: Mapping[str, str], name: str) -> int:
    """Return a number of the query; 0 if it is absent."""
    text = query.get(name) or "0"
    try:
        return max(int(text), 0)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a Boolean of the query."""
    return query.get(name, "") in {"true", "1", "True"}
