"""The metrics API of a metrics server. The usage of a pod equals its requests.

The annotation `mooring.dev/usage: cpu=250m,memory=1Gi` on a pod overrides that. On a node, it is added to the usage of
the pods.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.quantity import is_quantity, milli_value, value
from mooring.apiserver.documents import Document, nested_field, rfc3339
from mooring.cluster.errors import method_not_allowed
from mooring.cluster.http.api import Api
from mooring.cluster.http.request_info import RequestInfo, selection_predicate
from mooring.cluster.http.responses import json_response
from mooring.late_certificates import web

USAGE: Final = "mooring.dev/usage"
_WINDOW: Final = "30s"
_FEWEST: Final = 100


def read_metrics(api: Api, info: RequestInfo, request: web.BaseRequest) -> web.Response:
    """Return the usage of one node or pod, or of all nodes or pods that a selector matches."""
    if request.method != "GET" or request.query.get("watch"):
        raise method_not_allowed(request.method.lower(), info.resource.target(info.name))
    original = api.mapper.of(info.resource.plural)
    if info.name:
        stored = api.registry.get(original, info.namespace or "", info.name)
        return json_response(_metrics(api, info, stored.document))
    predicate = selection_predicate(api, original, info.namespace, request.query)
    found = [each.document for each in api.paginator.first(original, predicate, 0).items]
    if original.plural == "pods":
        found = [each for each in found if nested_field(each, "status", "phase") == "Running"]
    kind, version = info.resource.lists_as, info.resource.group_version
    items = [_metrics(api, info, each) for each in found]
    return json_response({"kind": kind, "apiVersion": version, "metadata": {}, "items": items})


def _metrics(api: Api, info: RequestInfo, document: Document) -> Document:
    metadata = document["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    now = rfc3339(api.clock())
    head = {
        "kind": info.resource.kind,
        "apiVersion": info.resource.group_version,
        "metadata": {**kept, "creationTimestamp": now},
        "timestamp": now,
        "window": _WINDOW,
    }
    if info.resource.plural == "pods":
        return {**head, "containers": _containers(document)}
    pods = (each.document for each in api.store.objects("pods"))
    there = [each for each in pods if each["spec"].get("nodeName") == metadata["name"]]
    running = [each for each in there if nested_field(each, "status", "phase") == "Running"]
    used = [_amounts(each["usage"]) for pod in running for each in _containers(pod)]
    return {**head, "usage": _written([*used, _amounts(_annotated(document)), (_FEWEST, _FEWEST << 20)])}


def _containers(pod: Document) -> list[Document]:
    said, containers = _annotated(pod), pod["spec"]["containers"]
    if said:
        return [{"name": containers[0]["name"], "usage": _written([_amounts(said)])}]
    return [
        {"name": each["name"], "usage": _written([_amounts(nested_field(each, "resources", "requests") or {})])}
        for each in containers
    ]


def _annotated(document: Document) -> dict[str, str]:
    text = (document["metadata"].get("annotations") or {}).get(USAGE, "")
    parts = (each.partition("=") for each in text.split(","))
    return {key.strip(): amount.strip() for key, _, amount in parts if is_quantity(amount.strip())}


def _amounts(usage: Mapping[str, str]) -> tuple[int, int]:
    """Return the usage in millicores and bytes."""
    return milli_value(usage.get("cpu", "0")), value(usage.get("memory", "0"))


def _written(amounts: Iterable[tuple[int, int]]) -> dict[str, str]:
    cpu, memory = (sum(each) for each in zip(*amounts, strict=True))
    return {"cpu": f"{cpu}m", "memory": f"{memory >> 10}Ki"}
