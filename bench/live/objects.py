"""The nodes and pods of the decision benchmark as manifests for an API server.

The benchmark's API server runs without the admission plugin ServiceAccount, because that needs a controller for tokens.
So the pods are created with the volume that this plugin adds to every pod, whose name is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
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
_NAMESPACE: Final = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
_TOKEN: Final = {
    "defaultMode": 420,
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [_NAMESPACE]}},
    ],
}


def nodes(count: int) -> Iterator[bytes]:
    """Yield ready nodes."""
    for number in range(count):
        yield encode_json(node(number))


def pods(workload: str, count: int) -> Iterator[bytes]:
    """Yield pending pods."""
    for number in range(count):
        yield with_token(encode_json(WORKLOADS[workload](number)), number)


def single_pod(number: int) -> bytes:
    """Return a pod of the workload basic."""
    return with_token(encode_json(pod(number, prefix="single")), number)


def running_pods(count: int, node_count: int) -> Iterator[bytes]:
    """Yield bound pods of the workload basic, evenly distributed over the nodes."""
    names = [node(number).name for number in range(node_count)]
    for number in range(count):
        yield with_token(
            encode_json(pod(number, prefix="running", labels={"app": f"app-{number % 500}"})),
            number,
            nodeName=names[number % node_count],
        )


def with_token(encoded: bytes, number: int, **spec: Any) -> bytes:
    """Return a manifest with the volume of the service account's token, and with additional fields of the spec."""
    document: dict[str, Any] = msgspec.json.decode(manifest(encoded, serviceAccountName="default", **spec))
    name = f"kube-api-access-{blake2b(str(number).encode(), digest_size=3).hexdigest()[:5]}"
    document["spec"]["volumes"] = [*document["spec"].get("volumes", ()), {"name": name, "projected": _TOKEN}]
    mount = {"name": name, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for container in document["spec"]["containers"]:
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
    return msgspec.json.encode(document)


def manifest(encoded: bytes, **spec: Any) -> bytes:
    """Return a manifest without the fields that the server sets, with additional fields of the spec."""
    document: dict[str, Any] = msgspec.json.decode(encoded)
    document.pop("status", None)
    document["metadata"].pop("uid", None)
    document["spec"] |= spec
    return msgspec.json.encode(document)
