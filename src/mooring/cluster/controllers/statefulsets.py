"""StatefulSets: pods with numbers and claims of their own, made one after the other and replaced from the last on."""

from collections.abc import Iterable
from typing import Final

from mooring.apiserver.documents import Document, controller_of, look
from mooring.apiserver.workloads import (
    REVISION_HASH,
    stateful_claims,
    stateful_ordinals,
    stateful_pod,
    stateful_revision,
)
from mooring.cluster.controllers.base import Controller, Name
from mooring.cluster.controllers.pods import is_available, is_ready
from mooring.cluster.controllers.volumes import CLAIMS
from mooring.cluster.store import Change

STORAGE: Final = "statefulsets.apps"
_COMPONENT: Final = "statefulset-controller"


class StatefulSets(Controller):
    """Keeps the pods of StatefulSets."""

    watched = frozenset({STORAGE, "pods"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The set itself, or the one that a pod belongs to."""
        metadata = change.stored.document["metadata"]
        if storage == STORAGE:
            return [(metadata["namespace"], metadata["name"])]
        owner = controller_of(change.stored.document)
        return [(metadata["namespace"], owner["name"])] if owner and owner["kind"] == "StatefulSet" else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take the next step, and say in the status how far it is."""
        sets = self.tools.find(STORAGE, namespace, name)
        if sets is None:
            return None
        revision = stateful_revision(sets)
        if not sets["metadata"].get("deletionTimestamp"):
            self._step(sets, revision)
        return self._report(sets, revision)

    def _pods(self, sets: Document) -> dict[int, Document]:
        found: dict[int, Document] = {}
        for pod in self.tools.index.controlled(sets["metadata"]["uid"], "pods"):
            ordinal = pod["metadata"]["name"].rpartition("-")[2]
            if ordinal.isdigit():
                found[int(ordinal)] = pod
        return found

    def _step(self, sets: Document, revision: str) -> None:
        """Whatever may be done now: ended pods anew, missing ones in order, surplus and outdated ones from the last."""
        spec, pods = sets["spec"], self._pods(sets)
        wanted = stateful_ordinals(sets)
        together = spec.get("podManagementPolicy") == "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                self._create(sets, revision, ordinal)
            elif look(pod, "status", "phase") in {"Succeeded", "Failed"}:
                self._delete(sets, pod)
            if not together and not (pod is not None and _is_healthy(pod)):
                return
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        for ordinal in surplus if together else surplus[:1]:
            self._delete(sets, pods[ordinal])
        if not surplus and all(each in pods for each in wanted):
            self._update(sets, revision, [pods[each] for each in wanted])

    def _update(self, sets: Document, revision: str, pods: list[Document]) -> None:
        """Replace the last pod of an older template, once all others are well."""
        strategy = sets["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete" or not all(map(_is_healthy, pods)):
            return
        partition = look(strategy, "rollingUpdate", "partition") or 0
        for pod in reversed(pods[partition:]):
            if _revision(pod) != revision:
                self._delete(sets, pod)
                return

    def _create(self, sets: Document, revision: str, ordinal: int) -> None:
        namespace, name = sets["metadata"]["namespace"], f"{sets['metadata']['name']}-{ordinal}"
        for claim in stateful_claims(sets, ordinal):
            if self.tools.find(CLAIMS, namespace, claim["metadata"]["name"]) is None:
                self.tools.create(CLAIMS, namespace, claim)
        pod = stateful_pod(sets, ordinal, revision)
        if self.tools.create("pods", namespace, pod) is not None:
            message = f"create Pod {name} in StatefulSet {sets['metadata']['name']} successful"
            self.tools.recorder.record(_COMPONENT, sets, "Normal", "SuccessfulCreate", message)

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
        before = look(sets, "status", "currentRevision") or revision
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
        fresh = self.tools.find(STORAGE, metadata["namespace"], metadata["name"])
        if fresh is not None:
            self.tools.set_status(STORAGE, fresh, status)
        return 1.0 if available < ready else None


def _is_healthy(pod: Document) -> bool:
    return is_ready(pod) and not pod["metadata"].get("deletionTimestamp")


def _revision(pod: Document) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_HASH, ""))
