"""The nodes and pods of the decision benchmark as manifests for an API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bench.workloads import WORKLOADS, node, pod
from mooring.api.codec import encode_json

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/namespaces/default/pods"
#: Workload -> number of pods.
PODS: Final = {
    "basic": 10_000,
    "mixed": 4_000,
    "nodeaffinity": 4_000,
    "spread": 4_000,
    "affinity": 4_000,
    "antiaffinity": 4_000,
}


def nodes(count: int) -> Iterator[bytes]:
    """Yield ready nodes."""
    for number in range(count):
        yield encode_json(node(number))


def pods(workload: str, count: int) -> Iterator[bytes]:
    """Yield pending pods."""
    for number in range(count):
        yield manifest(encode_json(WORKLOADS[workload](number)))


def single_pod(number: int) -> bytes:
    """Return a pod of the workload basic."""
    return manifest(encode_json(pod(number, prefix="single")))


def running_pods(count: int, node_count: int) -> Iterator[bytes]:
    """Yield bound pods of the workload basic, evenly distributed over the nodes."""
    names = [node(number).name for number in range(node_count)]
    for number in range(count):
        yield manifest(
            encode_json(pod(number, prefix="running", labels={"app": f"app-{number % 500}"})),
            nodeName=names[number % node_count],
        )


def manifest(encoded: bytes, **spec: Any) -> bytes:
    """Return a manifest without the fields that the server sets, with additional fields of the spec."""
    document: dict[str, Any] = msgspec.json.decode(encoded)
    document.pop("status", None)
    document["metadata"].pop("uid", None)
    document["spec"] |= spec
    return msgspec.json.encode(document)
