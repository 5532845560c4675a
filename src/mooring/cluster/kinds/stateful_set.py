"""StatefulSets: rules, and the controller that runs pods with ordinals and claims."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.label_selectors import parse_int
from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError, forbidden_field, not_negative
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.workloads import (
    REVISION_HASH,
    stateful_claims,
    stateful_ordinals,
    stateful_pod,
)
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.controller_revision import at_revision, current_revision, trim_history
from mooring.cluster.kinds.volume_controller import CLAIMS
from mooring.cluster.kinds.workload import (
    adopt_and_release,
    affected_owners,
    container_names,
    is_available,
    is_ready,
    other_conditions,
    selected_template_errors,
    template_warnings,
    workload_selector,
)
from mooring.cluster.store import Change
from mooring.cluster.table_printer import age, columns

STATEFUL_SETS: Final = "statefulsets.apps"
_COMPONENT: Final = "statefulset-controller"


def _set_stateful_set_defaults(document: Document) -> None:
    spec = document["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("serviceName", "")
    set_template_defaults(spec["template"])
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"].setdefault("phase", "Pending")
    document["status"].setdefault("replicas", 0)
    document["status"].setdefault("availableReplicas", 0)


def _stateful_set_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    return not_negative(spec.get("replicas"), "spec.replicas") + selected_template_errors(spec)


def _stateful_set_update_errors(new: Document, old: Document) -> list[FieldError]:
    free = ("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy", "minReadySeconds")  # fmt: skip

    def fixed(document: Document) -> Document:
        return {key: value for key, value in document["spec"].items() if key not in free}

    if fixed(new) == fixed(old):
        return []
    shown = (
        "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit',"
        " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
    )
    return [forbidden_field("spec", f"updates to statefulset spec for fields other than {shown} are forbidden")]


def _stateful_set_row(document: Document, now: float) -> list[Any]:
    ready = f"{nested_field(document, 'status', 'readyReplicas') or 0}/{document['spec'].get('replicas', 0)}"
    return [document["metadata"]["name"], ready, age(document, now), *container_names(document)]


class StatefulSetController(Controller):
    """A controller that maintains the pods of StatefulSets."""

    name = "statefulset-controller"
    watched = frozenset({STATEFUL_SETS, "pods"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the StatefulSet, or the owner of a pod."""
        return affected_owners(self.tools, storage, change, STATEFUL_SETS, workload_selector)

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take the next step, and update the status."""
        sets = self.tools.find(STATEFUL_SETS, namespace, name)
        if sets is None:
            return None
        if sets["metadata"].get("deletionTimestamp"):
            return None
        adopt_and_release(
            self.tools, sets, "pods", workload_selector(sets), may_adopt=lambda pod: self._is_own(sets, pod)
        )
        revision = str(current_revision(self.tools, sets)["metadata"]["name"])
        self._step(sets, revision)
        again = self._report(sets, revision)
        live = {_revision(pod) for pod in self._pods(sets).values()}
        status = (self.tools.find(STATEFUL_SETS, namespace, name) or sets).get("status") or {}
        trim_history(self.tools, sets, {*live, revision, status.get("currentRevision", "")})
        return again

    def _is_own(self, sets: Document, pod: Document) -> bool:
        """Return whether a pod has the name of a pod of the StatefulSet."""
        prefix, _, ordinal = pod["metadata"]["name"].rpartition("-")
        return bool(prefix == sets["metadata"]["name"] and parse_int(ordinal) is not None)

    def _pods(self, sets: Document) -> dict[int, Document]:
        found: dict[int, Document] = {}
        for pod in self.tools.index.controlled(sets["metadata"]["uid"], "pods"):
            ordinal = parse_int(pod["metadata"]["name"].rpartition("-")[2])
            if ordinal is not None:
                found[ordinal] = pod
        return found

    def _step(self, sets: Document, revision: str) -> None:
        """Create missing pods in order, and delete finished, surplus and outdated ones."""
        spec, pods = sets["spec"], self._pods(sets)
        wanted = stateful_ordinals(sets)
        together = spec.get("podManagementPolicy") == "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                self._create(sets, revision, ordinal)
            elif nested_field(pod, "status", "phase") in {"Succeeded", "Failed"}:
                self._delete(sets, pod)
            if not together and not (pod is not None and _is_healthy(pod)):
                return
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        for ordinal in surplus if together else surplus[:1]:
            self._delete(sets, pods[ordinal])
        if not surplus and all(each in pods for each in wanted):
            self._update(sets, revision, [pods[each] for each in wanted])

    def _update(self, sets: Document, revision: str, pods: list[Document]) -> None:
        """Delete the last pod of an older template when all pods are healthy."""
        strategy = sets["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete" or not all(map(_is_healthy, pods)):
            return
        partition = nested_field(strategy, "rollingUpdate", "partition") or 0
        for pod in reversed(pods[partition:]):
            if _revision(pod) != revision:
                self._delete(sets, pod)
                return

    def _create(self, sets: Document, revision: str, ordinal: int) -> None:
        namespace, name = sets["metadata"]["namespace"], f"{sets['metadata']['name']}-{ordinal}"
        for claim in stateful_claims(sets, ordinal):
            if self.tools.find(CLAIMS, namespace, claim["metadata"]["name"]) is None:
                self.tools.create(CLAIMS, namespace, claim)
        wanted, template = self._wanted_revision(sets, revision, ordinal)
        pod = stateful_pod(template, ordinal, wanted)
        if self.tools.create("pods", namespace, pod) is not None:
            message = f"create Pod {name} in StatefulSet {sets['metadata']['name']} successful"
            self.tools.recorder.record(_COMPONENT, sets, "Normal", "SuccessfulCreate", message)

    def _wanted_revision(self, sets: Document, revision: str, ordinal: int) -> tuple[str, Document]:
        """Return the revision of a new pod, and the StatefulSet with its template.

        Pods below the partition of a rolling update stay at the revision that the StatefulSet had before.
        """
        partition = nested_field(sets, "spec", "updateStrategy", "rollingUpdate", "partition") or 0
        before = nested_field(sets, "status", "currentRevision") or revision
        if before == revision or ordinal >= stateful_ordinals(sets).start + partition:
            return revision, sets
        return before, at_revision(self.tools, sets, before)

    def _delete(self, sets: Document, pod: Document) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return
        name = pod["metadata"]["name"]
        self.tools.delete("pods", pod["metadata"]["namespace"], name)
        message = f"delete Pod {name} in StatefulSet {sets['metadata']['name']} successful"
        self.tools.recorder.record(_COMPONENT, sets, "Normal", "SuccessfulDelete", message)

    def _report(self, sets: Document, revision: str) -> float | None:
        metadata, now = sets["metadata"], self.tools.now()
        pods = list(self._pods(sets).values())
        updated = sum(_revision(each) == revision for each in pods)
        before = nested_field(sets, "status", "currentRevision") or revision
        done = updated == len(pods) and all(map(_is_healthy, pods))
        ready = sum(map(_is_healthy, pods))
        available = sum(is_available(each, sets["spec"].get("minReadySeconds", 0), now) for each in pods)
        status: Document = {
            "observedGeneration": metadata.get("generation", 1),
            "replicas": len(pods),
            "availableReplicas": available,
            "currentRevision": revision if done else before,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        current = sum(_revision(each) == status["currentRevision"] for each in pods)
        for key, value in (("readyReplicas", ready), ("currentReplicas", current), ("updatedReplicas", updated)):
            if value:
                status[key] = value
        fresh = self.tools.find(STATEFUL_SETS, metadata["namespace"], metadata["name"])
        if fresh is not None:
            if conditions := other_conditions(fresh):
                status["conditions"] = conditions
            self.tools.set_status(STATEFUL_SETS, fresh, status)
        return 1.0 if available < ready else None


def _is_healthy(pod: Document) -> bool:
    return is_ready(pod) and not pod["metadata"].get("deletionTimestamp")


def _revision(pod: Document) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_HASH, ""))


STATEFUL_SET: Final = Kind(
    Resource(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        short_names=("sts",),
        categories=("all",),
        subresources=("scale", "status"),
    ),
    set_defaults=_set_stateful_set_defaults,
    initial_status={"replicas": 0, "availableReplicas": 0},
    validate=_stateful_set_errors,
    validate_update=_stateful_set_update_errors,
    warnings=template_warnings,
    columns=columns("Name Ready Age +Containers +Images", _stateful_set_row),
    counts_generation=True,
    controllers=(StatefulSetController,),
)
