"""DaemonSets: rules, and the controller that runs a pod on every eligible node.

Each pod has a node affinity for its node, and a scheduler must bind it there, as in Kubernetes.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.api.node import Node
from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError
from mooring.apiserver.field_rules import scaled
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.workloads import REVISION_HASH, daemon_affinity, daemon_nodes, daemon_pod, daemon_target
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.controller_revision import current_revision, revision_hash, trim_history
from mooring.cluster.kinds.workload import (
    WORKLOAD_COLUMNS,
    adopt_and_release,
    affected_owners,
    container_names,
    is_active,
    is_available,
    is_ready,
    other_conditions,
    selected_template_errors,
    selector_update_errors,
    template_warnings,
    workload_selector,
)
from mooring.cluster.store import DELETED, Change, Store
from mooring.cluster.table_printer import age, columns, labels_text, selector_text

DAEMON_SETS: Final = "daemonsets.apps"
_COMPONENT: Final = "daemonset-controller"


_INITIAL_STATUS: Final = {
    "currentNumberScheduled": 0,
    "desiredNumberScheduled": 0,
    "numberMisscheduled": 0,
    "numberReady": 0,
}


def _set_daemon_set_defaults(document: Document) -> None:
    spec = document["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    set_template_defaults(spec["template"])
    for key in ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"):
        document["status"].setdefault(key, 0)


def _prepare(document: Document, _store: Store, _now: float) -> None:
    document["status"] = dict(_INITIAL_STATUS)
    document["metadata"].setdefault("annotations", {}).setdefault("deprecated.daemonset.template.generation", "1")


def _daemon_set_errors(document: Document) -> list[FieldError]:
    return selected_template_errors(document["spec"])


def _daemon_set_row(document: Document, now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    keys = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        document["metadata"]["name"],
        *(status.get(key, 0) for key in keys),
        labels_text(nested_field(spec, "template", "spec", "nodeSelector")),
        age(document, now),
        *container_names(document),
        selector_text(spec.get("selector")),
    ]


class DaemonSetController(Controller):
    """A controller that runs a pod of each DaemonSet on every eligible node."""

    name = "daemonset-controller"
    watched = frozenset({DAEMON_SETS, "pods", "nodes"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the DaemonSet, the owner of a pod, or all DaemonSets when a node changes."""
        document = change.stored.document
        if storage != "nodes":
            return affected_owners(self.tools, storage, change, DAEMON_SETS, workload_selector)
        if change.previous is not None and change.kind != DELETED and _same(change.previous.document, document):
            return []
        found = [each.document["metadata"] for each in self.tools.store.objects(DAEMON_SETS)]
        return [(each["namespace"], each["name"]) for each in found]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Create, replace and delete pods, and update the status."""
        daemons = self.tools.find(DAEMON_SETS, namespace, name)
        if daemons is None or daemons["metadata"].get("deletionTimestamp"):
            return None
        adopt_and_release(self.tools, daemons, "pods", workload_selector(daemons), may_adopt=is_active)
        current = current_revision(self.tools, daemons)
        revision = revision_hash(current)
        nodes = (msgspec.convert(each.document, Node) for each in self.tools.store.objects("nodes"))
        fitting = {each.name for each in daemon_nodes(daemons, nodes)}
        self._place(daemons, revision, fitting)
        self._update(daemons, revision, len(fitting))
        hashes = {_revision(pod) for pods in self._pods(daemons).values() for pod in pods}
        live = {current["metadata"]["name"], *(f"{name}-{each}" for each in hashes)}
        trim_history(self.tools, daemons, live)
        return self._report(daemons, revision, fitting)

    def _pods(self, daemons: Document) -> dict[str, list[Document]]:
        """Return the pods of a DaemonSet by the node that they are bound to or created for, oldest first."""
        found: dict[str, list[Document]] = {}
        pods = self.tools.index.controlled(daemons["metadata"]["uid"], "pods")
        for pod in sorted(pods, key=lambda each: str(each["metadata"]["creationTimestamp"])):
            found.setdefault(daemon_target(pod), []).append(pod)
        return found

    def _place(self, daemons: Document, revision: str, fitting: set[str]) -> None:
        pods = self._pods(daemons)
        for node, there in pods.items():
            ended = [each for each in there if nested_field(each, "status", "phase") in {"Succeeded", "Failed"}]
            active = [each for each in there if is_active(each)]
            for pod in ended + (active[1:] if node in fitting else active):
                self._delete(daemons, pod)
        for node in sorted(fitting):
            # A terminating pod still uses the ports of the node, so its replacement must wait.
            if not any(
                nested_field(each, "status", "phase") not in {"Succeeded", "Failed"} for each in pods.get(node, ())
            ):
                self._create(daemons, revision, node)

    def _create(self, daemons: Document, revision: str, node: str) -> None:
        pod = daemon_pod(daemons, revision)
        pod["spec"]["affinity"] = daemon_affinity(pod["spec"].get("affinity"), node)
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
        """Replace pods of older templates, at most `maxUnavailable` at a time."""
        strategy = daemons["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        allowed = max(scaled(nested_field(strategy, "rollingUpdate", "maxUnavailable") or 1, wanted, round_up=True), 1)
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
        current = self.tools.find(DAEMON_SETS, metadata["namespace"], metadata["name"])
        if current is not None:
            if conditions := other_conditions(current):
                status["conditions"] = conditions
            self.tools.set_status(DAEMON_SETS, current, status)
        return 1.0 if available < ready else None


def _revision(pod: Document) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_HASH, ""))


def _same(before: Document, after: Document) -> bool:
    """Return whether the labels and the spec of a node are unchanged."""
    return bool(
        before["metadata"].get("labels") == after["metadata"].get("labels") and before.get("spec") == after.get("spec")
    )


DAEMON_SET: Final = Kind(
    Resource(
        "apps", "v1", "daemonsets", "DaemonSet", short_names=("ds",), categories=("all",), subresources=("status",)
    ),
    set_defaults=_set_daemon_set_defaults,
    prepare=_prepare,
    validate=_daemon_set_errors,
    validate_update=selector_update_errors,
    warnings=template_warnings,
    columns=columns(
        "Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer Node_Selector Age"
        f" {WORKLOAD_COLUMNS}",
        _daemon_set_row,
    ),
    counts_generation=True,
    controllers=(DaemonSetController,),
)
