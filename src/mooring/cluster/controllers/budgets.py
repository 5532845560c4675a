"""PodDisruptionBudgets: how many pods may be disturbed now."""

from collections.abc import Iterable
from typing import Final

from mooring.apiserver.documents import Document, condition, controller_of, look, rfc3339, seconds_of
from mooring.cluster.controllers.base import Controller, Name
from mooring.cluster.controllers.pods import is_ready
from mooring.cluster.selectors import selector_of
from mooring.cluster.store import Change
from mooring.cluster.subresources import BUDGETS
from mooring.cluster.validation.common import scaled

#: A pod that was to be evicted and still lives after this many seconds was not evicted after all.
_FORGET_AFTER: Final = 120.0


class Budgets(Controller):
    """Keeps the status of budgets."""

    watched = frozenset({BUDGETS, "pods"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The budget itself, or those that a pod counts for."""
        metadata = change.stored.document["metadata"]
        if storage == BUDGETS:
            return [(metadata["namespace"], metadata["name"])]
        if storage != "pods":
            return []
        labels = metadata.get("labels") or {}
        return [
            (metadata["namespace"], each.document["metadata"]["name"])
            for each in self.tools.store.objects(BUDGETS, metadata["namespace"])
            if selector_of(each.document["spec"].get("selector")).matches(labels)
        ]

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Count the pods and write what is allowed."""
        budget = self.tools.find(BUDGETS, namespace, name)
        if budget is None:
            return None
        selector = selector_of(budget["spec"].get("selector"))
        pods = [
            each.document
            for each in self.tools.store.objects("pods", namespace)
            if selector.matches(each.document["metadata"].get("labels") or {})
            and look(each.document, "status", "phase") not in {"Succeeded", "Failed"}
        ]
        disrupted = self._disrupted(budget, pods)
        expected, desired = self._desired(budget, pods)
        healthy = sum(
            is_ready(each)
            and not each["metadata"].get("deletionTimestamp")
            and each["metadata"]["name"] not in disrupted
            for each in pods
        )
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        status: Document = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": [self._condition(budget, allowed)],
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        self.tools.set_status(BUDGETS, budget, status)
        return _FORGET_AFTER if disrupted else None

    def _disrupted(self, budget: Document, pods: list[Document]) -> Document:
        """Pods that are about to be evicted and not yet seen to go."""
        present = {each["metadata"]["name"]: each for each in pods}
        now = self.tools.now()
        return {
            name: since
            for name, since in (look(budget, "status", "disruptedPods") or {}).items()
            if name in present
            and not present[name]["metadata"].get("deletionTimestamp")
            and now - seconds_of(since) < _FORGET_AFTER
        }

    def _desired(self, budget: Document, pods: list[Document]) -> tuple[int, int]:
        """How many pods there should be, and how many of them must stay healthy."""
        spec = budget["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is None and not isinstance(least, str):
            return len(pods), int(least if least is not None else 1)
        expected = self._expected(pods)
        if most is not None:
            return expected, max(expected - scaled(most, expected, round_up=True), 0)
        return expected, scaled(least, expected, round_up=True)

    def _expected(self, pods: list[Document]) -> int:
        """How many replicas the controllers of the pods want in all."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                continue
            top = self._top(pod, owner)
            if top is not None:
                wanted[top["metadata"]["uid"]] = look(top, "spec", "replicas") or look(top, "spec", "parallelism") or 0
        return sum(wanted.values())

    def _top(self, pod: Document, owner: Document) -> Document | None:
        """The object that says how many replicas there are: a Deployment rather than its ReplicaSet."""
        namespace = pod["metadata"]["namespace"]
        resource = self.tools.registry.table.of_kind(owner["apiVersion"], owner["kind"])
        if resource is None:
            return None
        found = self.tools.find(resource.stored_as, namespace, owner["name"])
        above = controller_of(found) if found and owner["kind"] == "ReplicaSet" else None
        if above is not None and above["kind"] == "Deployment":
            return self.tools.find("deployments.apps", namespace, above["name"]) or found
        return found

    def _condition(self, budget: Document, allowed: int) -> Document:
        before = condition(budget, "DisruptionAllowed")
        status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        if before and before["status"] == status and before.get("reason") == reason:
            return {**before, "observedGeneration": budget["metadata"].get("generation", 0)}
        return {
            "type": "DisruptionAllowed",
            "status": status,
            "observedGeneration": budget["metadata"].get("generation", 0),
            "lastTransitionTime": rfc3339(self.tools.now()),
            "reason": reason,
            "message": "",
        }
