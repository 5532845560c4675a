"""The metrics API, as a metrics server provides it: the requests of pods count as their usage.

An annotation on a pod replaces them: `mooring.dev/usage: cpu=250m,memory=1Gi`. On a node it is added to its pods.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from aiohttp import web

from mooring.api.quantity import is_quantity, milli_value, value
from mooring.apiserver.documents import Document, look, rfc3339
from mooring.cluster.errors import method_not_allowed
from mooring.cluster.http.answers import answer_document
from mooring.cluster.http.context import Api
from mooring.cluster.http.paths import Place
from mooring.cluster.http.queries import filter_of

USAGE: Final = "mooring.dev/usage"
_WINDOW: Final = "30s"
_FEWEST: Final = 100


def measured(api: Api, place: Place, request: web.BaseRequest) -> web.Response:
    """Return the usage of one node or pod, or of all that a selector matches."""
    if request.method != "GET" or request.query.get("watch"):
        raise method_not_allowed(request.method.lower(), place.resource.target(place.name))
    original = api.table.of(place.resource.plural)
    if place.name:
        stored = api.registry.get(original, place.namespace or "", place.name)
        return answer_document(_metrics(api, place, stored.document))
    chosen = filter_of(api, original, place.namespace, request.query)
    found = [each.document for each in api.lists.first(original, chosen, 0).items]
    if original.plural == "pods":
        found = [each for each in found if look(each, "status", "phase") == "Running"]
    kind, version = place.resource.lists_as, place.resource.group_version
    items = [_metrics(api, place, each) for each in found]
    return answer_document({"kind": kind, "apiVersion": version, "metadata": {}, "items": items})


def _metrics(api: Api, place: Place, document: Document) -> Document:
    metadata = document["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    now = rfc3339(api.clock())
    head = {
        "kind": place.resource.kind,
        "apiVersion": place.resource.group_version,
        "metadata": {**kept, "creationTimestamp": now},
        "timestamp": now,
        "window": _WINDOW,
    }
    if place.resource.plural == "pods":
        return {**head, "containers": _containers(document)}
    pods = (each.document for each in api.store.objects("pods"))
    there = [each for each in pods if each["spec"].get("nodeName") == metadata["name"]]
    running = [each for each in there if look(each, "status", "phase") == "Running"]
    used = [_amounts(each["usage"]) for pod in running for each in _containers(pod)]
    return {**head, "usage": _written([*used, _amounts(_annotated(document)), (_FEWEST, _FEWEST << 20)])}


def _containers(pod: Document) -> list[Document]:
    said, containers = _annotated(pod), pod["spec"]["containers"]
    if said:
        return [{"name": containers[0]["name"], "usage": _written([_amounts(said)])}]
    return [
        {"name": each["name"], "usage": _written([_amounts(look(each, "resources", "requests") or {})])}
        for each in containers
    ]


def _annotated(document: Document) -> dict[str, str]:
    text = (document["metadata"].get("annotations") or {}).get(USAGE, "")
    parts = (each.partition("=") for each in text.split(","))
    return {key.strip(): amount.strip() for key, _, amount in parts if is_quantity(amount.strip())}


def _amounts(usage: Mapping[str, str]) -> tuple[int, int]:
    """Return millicores and bytes."""
    return milli_value(usage.get("cpu", "0")), value(usage.get("memory", "0"))


def _written(amounts: Iterable[tuple[int, int]]) -> dict[str, str]:
    cpu, memory = (sum(each) for each in zip(*amounts, strict=True))
    return {"cpu": f"{cpu}m", "memory": f"{memory >> 10}Ki"}
