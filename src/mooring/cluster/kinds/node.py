"""Nodes: rules, and the controllers that taint nodes and delete pods from them."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import Document, condition, nested_field, rfc3339, seconds_of
from mooring.apiserver.field_errors import FieldError, forbidden_field
from mooring.apiserver.resource_amounts import amount_errors
from mooring.apiserver.scheduling_fields import taints_errors
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key, Tools
from mooring.cluster.deletion import DeleteOptions
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.workload import mark_disrupted
from mooring.cluster.selectors import field_reader
from mooring.cluster.store import DELETED, Change
from mooring.cluster.table_printer import NONE, UNKNOWN, age, columns

#: The fields of `nodeInfo`, which are always written, even if they are empty.
_NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)
_ROLE_PREFIX = "node-role.kubernetes.io/"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
#: The taint for each condition that indicates a problem when it is true.
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_MANAGED_TAINTS: Final = frozenset({_UNSCHEDULABLE, _NOT_READY, _UNREACHABLE, *_PRESSURES.values()})
#: Seconds between the deletion of a node and the deletion of its pods.
_ORPHANED_FOR: Final = 1.0


def _set_node_defaults(document: Document) -> None:
    status = document["status"]
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    for each in status.get("conditions", ()):
        each.setdefault("lastHeartbeatTime", None)
        each.setdefault("lastTransitionTime", None)
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for key in _NODE_INFO:
        info.setdefault(key, "")


def _node_errors(document: Document) -> list[FieldError]:
    errors = taints_errors(document["spec"].get("taints") or [], "metadata.taints")
    for kind in ("capacity", "allocatable"):
        for name, amount in (nested_field(document, "status", kind) or {}).items():
            errors += amount_errors(name, amount, f"status.{kind}.{name}")
    return errors


def _node_update_errors(new: Document, old: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, field in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        before = old["spec"].get(key)
        if before and new["spec"].get(key) != before:
            detail = f'node updates may not change {field} except from "" to valid'
            errors.append(forbidden_field(f"spec.{key}", detail))
    return errors


def _node_row(document: Document, now: float) -> list[Any]:
    status = document.get("status", {})
    info = status.get("nodeInfo", {})
    ready = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if document["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    addresses = {each["type"]: each["address"] for each in reversed(status.get("addresses", ()))}
    return [
        document["metadata"]["name"],
        ",".join(words),
        ",".join(_roles(document)) or NONE,
        age(document, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(document: Document) -> list[str]:
    found = set()
    for key, value in document["metadata"].get("labels", {}).items():
        if key.startswith(_ROLE_PREFIX) and key != _ROLE_PREFIX:
            found.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return sorted(found)


class NodeTaintController(Controller):
    """A controller that sets the taints that follow from the spec and the conditions of a node."""

    name = "node-lifecycle-controller"
    watched = frozenset({"nodes"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the node."""
        return (
            [("", change.stored.document["metadata"]["name"])] if storage == "nodes" and change.kind != DELETED else []
        )

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Update the taints if they differ."""
        node = self.tools.find("nodes", "", name)
        if node is None:
            return None
        before = node["spec"].get("taints") or []
        wanted = _wanted(node)
        present = {(each["key"], each["effect"]) for each in before if each["key"] in _MANAGED_TAINTS}
        if present == set(wanted):
            return None
        now = rfc3339(self.tools.now())
        kept = [
            each for each in before if each["key"] not in _MANAGED_TAINTS or (each["key"], each["effect"]) in wanted
        ]
        added = [
            {"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted if (key, effect) not in present
        ]
        spec = {**node["spec"], "taints": [*kept, *added]}
        if not spec["taints"]:
            del spec["taints"]
        self.tools.registry.modify("nodes", "", name, lambda each: {**each, "spec": spec})
        return None


def _wanted(node: Document) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if node["spec"].get("unschedulable"):
        found.append((_UNSCHEDULABLE, "NoSchedule"))
    ready = condition(node, "Ready")
    if ready is not None and ready["status"] != "True":
        key = _NOT_READY if ready["status"] == "False" else _UNREACHABLE
        found += [(key, "NoSchedule"), (key, "NoExecute")]
    for kind, key in _PRESSURES.items():
        if (condition(node, kind) or {}).get("status") == "True":
            found.append((key, "NoSchedule"))
    return found


class TaintEvictionController(Controller):
    """A controller that deletes pods that do not tolerate a NoExecute taint, now or after `tolerationSeconds`."""

    name = "taint-eviction-controller"
    watched = frozenset({"nodes", "pods"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return a tainted node, or the node of a newly bound pod."""
        document = change.stored.document
        if storage == "nodes":
            return [("", document["metadata"]["name"])] if document["spec"].get("taints") else []
        if storage != "pods" or change.kind == DELETED or not document["spec"].get("nodeName"):
            return []
        before = change.previous.document["spec"].get("nodeName") if change.previous else None
        return [] if before else [("", document["spec"]["nodeName"])]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Delete pods that do not tolerate the taints, and return the seconds until the next toleration ends."""
        node = self.tools.find("nodes", "", name)
        taints = [each for each in (node or {}).get("spec", {}).get("taints", ()) if each["effect"] == "NoExecute"]
        if not taints:
            return None
        again: float | None = None
        for pod in self.tools.index.on_node(name):
            left = self._left(pod, taints)
            if left is None or pod["metadata"].get("deletionTimestamp"):
                continue
            if left <= 0:
                message = "Taint manager: deleting due to NoExecute taint"
                mark_disrupted(self.tools.registry, pod, "DeletionByTaintManager", message)
                self.tools.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            else:
                again = left if again is None else min(again, left)
        return again

    def _left(self, pod: Document, taints: list[Document]) -> float | None:
        """Return the seconds that a pod may stay, or None if there is no limit."""
        tolerations, now = pod["spec"].get("tolerations") or (), self.tools.now()
        shortest: float | None = None
        for taint in taints:
            matching = [each for each in tolerations if _tolerates(each, taint)]
            if not matching:
                return 0.0
            limits = [each["tolerationSeconds"] for each in matching if "tolerationSeconds" in each]
            if limits and len(limits) == len(matching):
                since = seconds_of(taint["timeAdded"]) if taint.get("timeAdded") else now
                left = since + min(limits) - now
                shortest = left if shortest is None else min(shortest, left)
        return shortest


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


class OrphanedPodController(Controller):
    """A controller that deletes pods that are bound to a node that does not exist."""

    name = "pod-garbage-collector-controller"
    watched = frozenset({"nodes", "pods"})

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._missing_since: dict[str, float] = {}

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return a deleted node, or the missing node of a pod."""
        document = change.stored.document
        if storage == "nodes":
            return [("", document["metadata"]["name"])] if change.kind == DELETED else []
        if storage != "pods" or change.kind == DELETED:
            return []
        name = document["spec"].get("nodeName")
        return [("", name)] if name and self.tools.find("nodes", "", name) is None else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Delete the pods if the node is still missing after the grace period."""
        if self.tools.find("nodes", "", name) is not None:
            self._missing_since.pop(name, None)
            return None
        now = self.tools.now()
        since = self._missing_since.setdefault(name, now)
        if now - since < _ORPHANED_FOR:
            return _ORPHANED_FOR - (now - since)
        del self._missing_since[name]
        for pod in self.tools.index.on_node(name):
            mark_disrupted(self.tools.registry, pod, "DeletionByPodGC", "PodGC: node no longer exists")
            self.tools.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], DeleteOptions(grace=0))
        return None


NODE: Final = Kind(
    Resource("", "v1", "nodes", "Node", namespaced=False, short_names=("no",), subresources=("status",)),
    set_defaults=_set_node_defaults,
    keeps_status=True,
    validate=_node_errors,
    validate_update=_node_update_errors,
    columns=columns(
        "Name Status Roles Age Version +Internal-IP +External-IP +OS-Image +Kernel-Version +Container-Runtime",
        _node_row,
    ),
    fields={"spec.unschedulable": field_reader("spec", "unschedulable", default="false")},
    controllers=(NodeTaintController, TaintEvictionController, OrphanedPodController),
)
