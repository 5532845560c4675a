"""The nodes and pods of the decision benchmark as what goes to an API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bench.workloads import WORKLOADS, node, pod
from mooring.api.codec import encode_json

NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/namespaces/default/pods"
#: How many pods are bound in a measurement of each workload.
PODS: Final = {
    "basic": 10_000,
    "mixed": 4_000,
    "nodeaffinity": 4_000,
    "spread": 4_000,
    "affinity": 4_000,
    "antiaffinity": 4_000,
}


def nodes(count: int) -> Iterator[bytes]:
    """Nodes that are ready."""
    for number in range(count):
        yield encode_json(node(number))


def pods(workload: str, count: int) -> Iterator[bytes]:
    """Pods that wait for a node."""
    for number in range(count):
        yield _pod(encode_json(WORKLOADS[workload](number)))


def single_pod(number: int) -> bytes:
    """One more pod of the basic kind."""
    return _pod(encode_json(pod(number, prefix="single")))


def running_pods(count: int, node_count: int) -> Iterator[bytes]:
    """Pods of the basic kind that have a node already, as many on each."""
    names = [node(number).name for number in range(node_count)]
    for number in range(count):
        yield _pod(
            encode_json(pod(number, prefix="running", labels={"app": f"app-{number % 500}"})),
            names[number % node_count],
        )


def _pod(encoded: bytes, node_name: str = "") -> bytes:
    """What the server fills in is left out."""
    document: dict[str, Any] = msgspec.json.decode(encoded)
    document.pop("status", None)
    document["metadata"].pop("uid", None)
    if node_name:
        document["spec"]["nodeName"] = node_name
    return msgspec.json.encode(document)
