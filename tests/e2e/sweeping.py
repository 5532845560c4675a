"""Emptying a control plane after a test, so that the next one finds nothing of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.e2e.controlplane import Api, ApiFailure, ControlPlane, Object

#: Owners come before what they own, or controllers would make it anew.
_NAMESPACED: Final = (
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/apps/v1/namespaces/{}/statefulsets",
    "/apis/apps/v1/namespaces/{}/daemonsets",
    "/apis/apps/v1/namespaces/{}/replicasets",
    "/apis/batch/v1/namespaces/{}/cronjobs",
    "/apis/batch/v1/namespaces/{}/jobs",
    "/api/v1/namespaces/{}/replicationcontrollers",
    "/api/v1/namespaces/{}/pods",
    "/api/v1/namespaces/{}/persistentvolumeclaims",
    "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities",
    "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "/apis/events.k8s.io/v1/namespaces/{}/events",
    "/api/v1/namespaces/{}/services",
    "/api/v1/namespaces/{}/configmaps",
)
_CLUSTER_WIDE: Final = (
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    # What a test may have left in namespaces of Kubernetes' own.
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/events.k8s.io/v1/namespaces/kube-system/events",
)
#: How objects that Kubernetes itself made are known.
_BUILT_IN_LABEL: Final = "kubernetes.io/bootstrapping"
_BUILT_IN_NAMES: Final = ("system-", "system:", "apiserver-")


def sweep(plane: ControlPlane, namespaces: Iterable[str]) -> None:
    """Remove these namespaces, and everything cluster-wide that is not Kubernetes' own."""
    api = plane.api
    namespaces = list(namespaces)
    for namespace in namespaces:
        # From now on nothing can be made in it.
        api.delete(f"/api/v1/namespaces/{namespace}")
    for namespace in namespaces:
        for collection in _NAMESPACED:
            _empty(api, collection.format(namespace))
        if plane.controller_manager is None:
            _finalize(api, namespace)
    for collection in _CLUSTER_WIDE:
        _empty(api, collection)
    api.wait_for("end of the last pod", lambda: not api.items("/api/v1/pods?limit=1"))


def _empty(api: Api, collection: str) -> None:
    for each in _items(api, collection):
        if _built_in(each):
            continue
        path = f"{collection}/{each['metadata']['name']}"
        if each["metadata"].get("finalizers"):
            # The controllers that would remove them need not be running.
            _unless_gone(api, path, {"metadata": {"finalizers": None}})
        api.delete(path)


def _items(api: Api, collection: str) -> list[Object]:
    """The objects; none where the server does not have the kind, as older ones."""
    try:
        return api.items(collection)
    except ApiFailure as failure:
        if failure.status != 404:
            raise
        return []


def _unless_gone(api: Api, path: str, patch: Object) -> None:
    try:
        api.patch(path, patch)
    except ApiFailure as failure:
        if failure.status != 404:
            raise


def _finalize(api: Api, namespace: str) -> None:
    """Let go of a namespace, which is a controller's task where there is one."""
    try:
        found = api.get(f"/api/v1/namespaces/{namespace}")
        api.request("PUT", f"/api/v1/namespaces/{namespace}/finalize", {**found, "spec": {"finalizers": []}})
    except ApiFailure as failure:
        if failure.status != 404:
            raise


def _built_in(each: Object) -> bool:
    metadata = each["metadata"]
    return _BUILT_IN_LABEL in metadata.get("labels", {}) or metadata["name"].startswith(_BUILT_IN_NAMES)
