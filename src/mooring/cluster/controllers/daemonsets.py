"""DaemonSets: a pod on every node that its selectors and tolerations allow. Each is tied to its node by an affinity,
and a scheduler has to bind it there, as in Kubernetes."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.node_selectors import required_node_affinity
from mooring.api.pod import Pod, PodSpec
from mooring.api.tolerations import untolerated
from mooring.cluster.controllers.base import Controller, Name
from mooring.cluster.controllers.deployments import template_hash
from mooring.cluster.controllers.pods import is_active, is_available, is_ready, pod_from_template
from mooring.cluster.documents import Document, controller_of, look
from mooring.cluster.store import DELETED, Change
from mooring.cluster.validation.common import scaled

STORAGE: Final = "daemonsets.apps"
REVISION: Final = "controller-revision-hash"
_COMPONENT: Final = "daemonset-controller"
_ALWAYS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


class DaemonSets(Controller):
    """Keeps the pods of DaemonSets."""

    watched = frozenset({STORAGE, "pods", "nodes"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The set itself, the one that a pod belongs to, or all where a node came, went or changed its mind."""
        document = change.stored.document
        metadata = document["metadata"]
        if storage == STORAGE:
            return [(metadata["namespace"], metadata["name"])]
        if storage == "pods":
            owner = controller_of(document)
            return [(metadata["namespace"], owner["name"])] if owner and owner["kind"] == "DaemonSet" else []
        if change.previous is not None and change.kind != DELETED and _same(change.previous.document, document):
            return []
        found = [each.document["metadata"] for each in self.tools.store.objects(STORAGE)]
        return [(each["namespace"], each["name"]) for each in found]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Make and delete pods, and say in the status how many there are."""
        daemons = self.tools.find(STORAGE, namespace, name)
        if daemons is None or daemons["metadata"].get("deletionTimestamp"):
            return None
        revision = template_hash(daemons["spec"]["template"])
        fitting = set(self._fitting(daemons))
        self._place(daemons, revision, fitting)
        self._update(daemons, revision, len(fitting))
        return self._report(daemons, revision, fitting)

    def _fitting(self, daemons: Document) -> Iterator[str]:
        spec = msgspec.convert(_daemon_spec(daemons["spec"]["template"]["spec"]), PodSpec)
        required = required_node_affinity(Pod(spec=spec))
        for stored in self.tools.store.objects("nodes"):
            node = msgspec.convert(stored.document, Node)
            taints = [*node.taints]
            if node.unschedulable:
                taints.append(Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"))
            if (
                spec.node_name in ("", node.name)
                and required.matches(node.labels, node.name)
                and untolerated(tuple(taints), spec.tolerations, ("NoSchedule", "NoExecute")) is None
            ):
                yield node.name

    def _pods(self, daemons: Document) -> dict[str, list[Document]]:
        """The set's pods by the node that each is on or meant for; the oldest first."""
        found: dict[str, list[Document]] = {}
        pods = self.tools.index.controlled(daemons["metadata"]["uid"], "pods")
        for pod in sorted(pods, key=lambda each: str(each["metadata"]["creationTimestamp"])):
            found.setdefault(_target(pod), []).append(pod)
        return found

    def _place(self, daemons: Document, revision: str, fitting: set[str]) -> None:
        pods = self._pods(daemons)
        for node, there in pods.items():
            ended = [each for each in there if look(each, "status", "phase") in {"Succeeded", "Failed"}]
            active = [each for each in there if is_active(each)]
            for pod in ended + (active[1:] if node in fitting else active):
                self._delete(daemons, pod)
        for node in sorted(fitting):
            # One that is on its way out still has the node's ports: its successor waits for it.
            if not any(look(each, "status", "phase") not in {"Succeeded", "Failed"} for each in pods.get(node, ())):
                self._create(daemons, revision, node)

    def _create(self, daemons: Document, revision: str, node: str) -> None:
        pod = pod_from_template(daemons["spec"]["template"], daemons)
        metadata = pod["metadata"]
        generation = str(daemons["metadata"].get("generation", 1))
        metadata["labels"] = {**metadata.get("labels", {}), REVISION: revision, "pod-template-generation": generation}
        pod["spec"] = _tied(_daemon_spec(pod["spec"]), node)
        stored = self.tools.create("pods", daemons["metadata"]["namespace"], pod)
        if stored is not None:
            message = f"Created pod: {stored.document['metadata']['name']}"
            self.tools.recorder.record(_COMPONENT, daemons, "Normal", "SuccessfulCreate", message)

    def _delete(self, daemons: Document, pod: Document) -> None:
        name = pod["metadata"]["name"]
        if not pod["metadata"].get("deletionTimestamp"):
            self.tools.delete("pods", pod["metadata"]["namespace"], name)
            self.tools.recorder.record(_COMPONENT, daemons, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")

    def _update(self, daemons: Document, revision: str, wanted: int) -> None:
        """Replace pods of an older template, so many at a time."""
        strategy = daemons["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        allowed = max(scaled(look(strategy, "rollingUpdate", "maxUnavailable") or 1, wanted, round_up=True), 1)
        pods = [each for there in self._pods(daemons).values() for each in there if is_active(each)]
        old = [each for each in pods if _revision(each) != revision]
        unavailable = wanted - sum(is_ready(each) for each in pods)
        for pod in sorted(old, key=is_ready):
            if is_ready(pod):
                if unavailable >= allowed:
                    return
                unavailable += 1
            self._delete(daemons, pod)

    def _report(self, daemons: Document, revision: str, fitting: set[str]) -> float | None:
        metadata, spec, now = daemons["metadata"], daemons["spec"], self.tools.now()
        there = {node: [each for each in pods if is_active(each)] for node, pods in self._pods(daemons).items()}
        right = [pods[0] for node, pods in there.items() if node in fitting and pods]
        ready = sum(map(is_ready, right))
        available = sum(is_available(each, spec.get("minReadySeconds", 0), now) for each in right)
        status: Document = {
            "currentNumberScheduled": len(right),
            "desiredNumberScheduled": len(fitting),
            "numberMisscheduled": sum(bool(pods) for node, pods in there.items() if node not in fitting),
            "numberReady": ready,
            "observedGeneration": metadata.get("generation", 1),
        }
        for key, value in (
            ("updatedNumberScheduled", sum(_revision(each) == revision for each in right)),
            ("numberAvailable", available),
            ("numberUnavailable", len(fitting) - available),
        ):
            if value:
                status[key] = value
        current = self.tools.find(STORAGE, metadata["namespace"], metadata["name"])
        if current is not None:
            self.tools.set_status(STORAGE, current, status)
        return 1.0 if available < ready else None


def _revision(pod: Document) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION, ""))


def _same(before: Document, after: Document) -> bool:
    """Whether nothing changed by which a node is chosen."""
    return bool(
        before["metadata"].get("labels") == after["metadata"].get("labels") and before.get("spec") == after.get("spec")
    )


def _daemon_spec(spec: Document) -> Document:
    """The pod's spec with the tolerations that all daemons get: they stay where others must leave."""
    tolerations = list(spec.get("tolerations") or ())
    for key, effect in (*_ALWAYS, *(_HOST_NETWORK if spec.get("hostNetwork") else ())):
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        if wanted not in tolerations:
            tolerations.append(wanted)
    return {**spec, "tolerations": tolerations}


def _tied(spec: Document, node: str) -> Document:
    """The spec with the one required node affinity that a daemon's pod has: its node's name."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    near = dict(affinity.get("nodeAffinity") or {})
    near["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return {**spec, "affinity": {**affinity, "nodeAffinity": near}}


def _target(pod: Document) -> str:
    """The node that a daemon's pod is on or meant for."""
    if node := pod["spec"].get("nodeName"):
        return str(node)
    required = look(
        pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    for term in required or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""
