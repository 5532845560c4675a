"""Nodes: taints for what is wrong with them, and what becomes of the pods on them."""

from collections.abc import Iterable
from typing import Final

from mooring.apiserver.documents import Document, condition, rfc3339, seconds_of
from mooring.cluster.controllers.base import Controller, Name, Tools
from mooring.cluster.deletion import DeleteOptions
from mooring.cluster.store import DELETED, Change

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
#: Taints that say which condition of the node is true.
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS: Final = frozenset({UNSCHEDULABLE, NOT_READY, UNREACHABLE, *_PRESSURES.values()})
#: How long pods of a node that is gone are left alone, in seconds.
_ORPHANED_FOR: Final = 1.0


class NodeTaints(Controller):
    """Keeps the taints that follow from a node's spec and conditions."""

    watched = frozenset({"nodes"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The node itself."""
        return (
            [("", change.stored.document["metadata"]["name"])] if storage == "nodes" and change.kind != DELETED else []
        )

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Write the taints, if they differ."""
        node = self.tools.find("nodes", "", name)
        if node is None:
            return None
        before = node["spec"].get("taints") or []
        wanted = _wanted(node)
        present = {(each["key"], each["effect"]) for each in before if each["key"] in _OURS}
        if present == set(wanted):
            return None
        now = rfc3339(self.tools.now())
        kept = [each for each in before if each["key"] not in _OURS or (each["key"], each["effect"]) in wanted]
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
        found.append((UNSCHEDULABLE, "NoSchedule"))
    ready = condition(node, "Ready")
    if ready is not None and ready["status"] != "True":
        key = NOT_READY if ready["status"] == "False" else UNREACHABLE
        found += [(key, "NoSchedule"), (key, "NoExecute")]
    for kind, key in _PRESSURES.items():
        if (condition(node, kind) or {}).get("status") == "True":
            found.append((key, "NoSchedule"))
    return found


class TaintEviction(Controller):
    """Deletes pods from nodes whose NoExecute taints they do not put up with, at once or when their time is up."""

    watched = frozenset({"nodes", "pods"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The node, or the one that a pod was put on."""
        document = change.stored.document
        if storage == "nodes":
            return [("", document["metadata"]["name"])] if document["spec"].get("taints") else []
        if storage != "pods" or change.kind == DELETED or not document["spec"].get("nodeName"):
            return []
        before = change.previous.document["spec"].get("nodeName") if change.previous else None
        return [] if before else [("", document["spec"]["nodeName"])]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Evict whom the taints of a node drive away."""
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
                disrupt(self.tools.registry.clock(), self, pod, "DeletionByTaintManager", message)
                self.tools.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            else:
                again = left if again is None else min(again, left)
        return again

    def _left(self, pod: Document, taints: list[Document]) -> float | None:
        """How long the pod may stay: None for ever, nothing if it must go."""
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


class OrphanedPods(Controller):
    """Deletes pods that are bound to a node that does not exist."""

    watched = frozenset({"nodes", "pods"})

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._missing_since: dict[str, float] = {}

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The node that went, or the one that a pod was put on."""
        document = change.stored.document
        if storage == "nodes":
            return [("", document["metadata"]["name"])] if change.kind == DELETED else []
        if storage != "pods" or change.kind == DELETED:
            return []
        name = document["spec"].get("nodeName")
        return [("", name)] if name and self.tools.find("nodes", "", name) is None else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Delete the pods, unless the node came back; first wait whether it does."""
        if self.tools.find("nodes", "", name) is not None:
            self._missing_since.pop(name, None)
            return None
        now = self.tools.now()
        since = self._missing_since.setdefault(name, now)
        if now - since < _ORPHANED_FOR:
            return _ORPHANED_FOR - (now - since)
        del self._missing_since[name]
        for pod in self.tools.index.on_node(name):
            message = "PodGC: node no longer exists"
            disrupt(now, self, pod, "DeletionByPodGC", message)
            self.tools.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], DeleteOptions(grace=0))
        return None


def disrupt(now: float, controller: Controller, pod: Document, reason: str, message: str) -> None:
    """Say in a pod's status why it is about to be deleted."""
    metadata = pod["metadata"]
    fresh = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(now),
        "reason": reason,
        "message": message,
    }

    def change(each: Document) -> Document:
        status = each.get("status", {})
        others = [old for old in status.get("conditions", ()) if old["type"] != "DisruptionTarget"]
        return {**each, "status": {**status, "conditions": [*others, fresh]}}

    controller.tools.registry.modify("pods", metadata["namespace"], metadata["name"], change)
