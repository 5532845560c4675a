"""The Lease by which a node shows that it is alive; `kubectl describe node` tells of it."""

from typing import Final

from mooring.apiserver.documents import Document, rfc3339_micro
from mooring.cluster.controllers.base import Tools

LEASES: Final = "leases.coordination.k8s.io"
NAMESPACE: Final = "kube-node-lease"
_SECONDS: Final = 120


def renew_lease(tools: Tools, node: Document) -> None:
    """Write the time into a node's lease; make the lease if there is none."""
    metadata, now = node["metadata"], rfc3339_micro(tools.now())
    name = metadata["name"]
    spec = {"holderIdentity": name, "leaseDurationSeconds": _SECONDS, "renewTime": now}
    if tools.registry.modify(LEASES, NAMESPACE, name, lambda each: {**each, "spec": spec}) is not None:
        return
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata["uid"]}
    tools.create(LEASES, NAMESPACE, {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec})
