"""LimitRanges, and their admission of containers."""

from collections.abc import Iterator
from typing import Final

from mooring.api.quantity import parse_quantity
from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import Target, forbidden
from mooring.cluster.kind import Kind
from mooring.cluster.store import Store
from mooring.cluster.table_printer import PLAIN

_NOTE: Final = "kubernetes.io/limit-ranger"


def _set_limit_range_defaults(document: Document) -> None:
    for each in document["spec"].get("limits", ()):
        if each.get("type") != "Container":
            continue
        default = {**each.get("max", {}), **each.get("default", {})}
        request = {**each.get("min", {}), **default, **each.get("defaultRequest", {})}
        each.update({key: value for key, value in (("default", default), ("defaultRequest", request)) if value})


def apply_limits(store: Store, pod: Document) -> None:
    """Set the default requests and limits of a new pod in place. Reject a pod that violates the limits."""
    ranges = [
        each
        for stored in store.objects("limitranges", pod["metadata"]["namespace"])
        for each in stored.document["spec"].get("limits", ())
        if each.get("type") == "Container"
    ]
    if not ranges:
        return
    notes: list[str] = []
    for kind, word in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(kind, ()):
            for each in ranges:
                notes += _complete(container, each, word)
    if notes:
        pod["metadata"].setdefault("annotations", {})[_NOTE] = "LimitRanger plugin set: " + "; ".join(notes)
    faults = [fault for each in ranges for fault in _faults(pod["spec"], each)]
    if faults:
        shown = faults[0] if len(faults) == 1 else "[" + ", ".join(faults) + "]"
        raise forbidden(Target("", "pods", pod["metadata"].get("name", "")), shown)


def _complete(container: Document, limits: Document, word: str) -> list[str]:
    resources = container.setdefault("resources", {})
    notes: list[str] = []
    for kind, given in (("requests", limits.get("defaultRequest", {})), ("limits", limits.get("default", {}))):
        added = [name for name in sorted(given) if name not in resources.get(kind, {})]
        for name in added:
            resources.setdefault(kind, {})[name] = given[name]
        if added:
            singular = kind[:-1]
            notes += [f"{', '.join(added)} {singular} for {word} {container['name']}"]
    return notes


def _faults(spec: Document, limits: Document) -> Iterator[str]:
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.get("resources", {})
        requests, most = resources.get("requests", {}), resources.get("limits", {})
        for name, bound in sorted(limits.get("min", {}).items()):
            if name not in requests:
                yield f"minimum {name} usage per Container is {bound}.  No request is specified"
            elif parse_quantity(bound).exceeds(parse_quantity(requests[name])):
                yield f"minimum {name} usage per Container is {bound}, but request is {requests[name]}"
        for name, bound in sorted(limits.get("max", {}).items()):
            if name not in most:
                yield f"maximum {name} usage per Container is {bound}.  No limit is specified"
            elif parse_quantity(most[name]).exceeds(parse_quantity(bound)):
                yield f"maximum {name} usage per Container is {bound}, but limit is {most[name]}"


LIMIT_RANGE: Final = Kind(
    Resource("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    set_defaults=_set_limit_range_defaults,
    columns=PLAIN,
)
