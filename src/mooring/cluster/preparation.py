"""What the server itself writes into a new object: status, identity, addresses."""

from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.admission import merge_label_keys
from mooring.apiserver.documents import Document, rfc3339
from mooring.apiserver.pod_defaults import qos_class
from mooring.apiserver.workloads import label_job
from mooring.cluster.store import Store

_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"


def prepare(storage: str, document: Document, store: Store, now: float) -> None:
    """Complete a new object in place; its name, namespace and uid are known."""
    special = _SPECIAL.get(storage)
    if special is not None:
        special(document, store, now)
    elif "status" in document and storage not in _KEPT_STATUS:
        document["status"] = dict(_EMPTY_STATUS.get(storage, {}))


#: Kinds that may bring their status along, because whoever registers them knows it.
_KEPT_STATUS: Final = frozenset({"nodes"})

_EMPTY_STATUS: Final[dict[str, Document]] = {
    "replicasets.apps": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
    "daemonsets.apps": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "poddisruptionbudgets.policy": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    "persistentvolumeclaims": {"phase": "Pending"},
}


def _pod(document: Document, _store: Store, now: float) -> None:
    status: Document = {"phase": "Pending", "qosClass": qos_class(document["spec"])}
    if document["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": rfc3339(now),
                "reason": "SchedulingGated",
                "message": _GATED,
            }
        ]
    document["status"] = status
    merge_label_keys(document)


def _namespace(document: Document, _store: Store, _now: float) -> None:
    document["status"] = {"phase": "Active"}
    finalizers = document["spec"].get("finalizers", [])
    if "kubernetes" not in finalizers:
        document["spec"]["finalizers"] = ["kubernetes", *finalizers]


def _persistent_volume(document: Document, _store: Store, now: float) -> None:
    document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(now)}


def _job(document: Document, _store: Store, _now: float) -> None:
    document["status"] = {}
    label_job(document)


def _daemon_set(document: Document, _store: Store, _now: float) -> None:
    document["status"] = dict(_EMPTY_STATUS["daemonsets.apps"])
    document["metadata"].setdefault("annotations", {}).setdefault("deprecated.daemonset.template.generation", "1")


def _service(document: Document, store: Store, _now: float) -> None:
    document["status"] = {"loadBalancer": {}}
    spec = document["spec"]
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = free_cluster_ip(store)
    spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("type") in {"NodePort", "LoadBalancer"}:
        give_node_ports(spec, store)


def free_cluster_ip(store: Store) -> str:
    """An address from 10.96.0.0/16 that no service has."""
    taken = {look for each in store.objects("services") for look in each.document["spec"].get("clusterIPs", ())}
    number = 10
    while (address := f"10.96.{number >> 8}.{number & 255}") in taken:
        number += 1
    return address


def give_node_ports(spec: Document, store: Store) -> None:
    """Give each port of a service that is reached through the nodes a port there."""
    taken: set[Any] = {
        port.get("nodePort") for each in store.objects("services") for port in each.document["spec"].get("ports", ())
    }
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            port["nodePort"] = next(number for number in range(30000, 32768) if number not in taken)
            taken.add(port["nodePort"])


def _custom_resource_definition(document: Document, _store: Store, _now: float) -> None:
    document["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "conditions": None, "storedVersions": [
        each["name"] for each in document["spec"].get("versions", ()) if each.get("storage")
    ]}  # fmt: skip


_SPECIAL: Final[dict[str, Callable[[Document, Store, float], None]]] = {
    "customresourcedefinitions.apiextensions.k8s.io": _custom_resource_definition,
    "daemonsets.apps": _daemon_set,
    "jobs.batch": _job,
    "namespaces": _namespace,
    "persistentvolumes": _persistent_volume,
    "pods": _pod,
    "services": _service,
}
