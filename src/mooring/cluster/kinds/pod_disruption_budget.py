"""PodDisruptionBudgets: rules, the controller that counts allowed disruptions, and evictions."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import Document, condition, controller_of, nested_field, rfc3339, seconds_of
from mooring.apiserver.field_errors import FieldError, invalid
from mooring.apiserver.field_rules import at_most_all, choice, int_or_percent, label_selector, scaled
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.deletion import DeleteOptions, delete
from mooring.cluster.errors import ApiError, too_many_requests
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.workload import is_ready, mark_disrupted
from mooring.cluster.registry import Registry
from mooring.cluster.request_context import RequestContext
from mooring.cluster.selectors import selector_of
from mooring.cluster.store import Change
from mooring.cluster.table_printer import age, columns

BUDGETS: Final = "poddisruptionbudgets.policy"
#: Seconds after which an eviction no longer counts if the pod was not deleted.
_FORGET_AFTER: Final = 120.0


def _budget_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            errors += int_or_percent(spec[key], f"spec.{key}") + at_most_all(spec[key], f"spec.{key}")
    errors += label_selector(spec.get("selector"), "spec.selector")
    policies = ("IfHealthyBudget", "AlwaysAllow")
    return errors + choice(spec.get("unhealthyPodEvictionPolicy"), "spec.unhealthyPodEvictionPolicy", policies)


def _disruption_budget_row(document: Document, now: float) -> list[Any]:
    spec = document["spec"]
    return [
        document["metadata"]["name"],
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        nested_field(document, "status", "disruptionsAllowed") or 0,
        age(document, now),
    ]


class DisruptionController(Controller):
    """A controller that updates the status of disruption budgets."""

    name = "disruption-controller"
    watched = frozenset({BUDGETS, "pods"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the budget, or the budgets that select a pod."""
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
        """Count healthy pods, and write the number of allowed disruptions."""
        budget = self.tools.find(BUDGETS, namespace, name)
        if budget is None:
            return None
        selector = selector_of(budget["spec"].get("selector"))
        pods = [
            each.document
            for each in self.tools.store.objects("pods", namespace)
            if selector.matches(each.document["metadata"].get("labels") or {})
            and nested_field(each.document, "status", "phase") not in {"Succeeded", "Failed"}
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
        """Return the pods that are being evicted and are not terminating yet."""
        present = {each["metadata"]["name"]: each for each in pods}
        now = self.tools.now()
        return {
            name: since
            for name, since in (nested_field(budget, "status", "disruptedPods") or {}).items()
            if name in present
            and not present[name]["metadata"].get("deletionTimestamp")
            and now - seconds_of(since) < _FORGET_AFTER
        }

    def _desired(self, budget: Document, pods: list[Document]) -> tuple[int, int]:
        """Return the number of expected pods, and the number that must stay healthy."""
        spec = budget["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is None and not isinstance(least, str):
            return len(pods), int(least if least is not None else 1)
        expected = self._expected(pods)
        if most is not None:
            return expected, max(expected - scaled(most, expected, round_up=True), 0)
        return expected, scaled(least, expected, round_up=True)

    def _expected(self, pods: list[Document]) -> int:
        """Return the total number of desired replicas of the pods' controllers."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                continue
            top = self._top(pod, owner)
            if top is not None:
                wanted[top["metadata"]["uid"]] = (
                    nested_field(top, "spec", "replicas") or nested_field(top, "spec", "parallelism") or 0
                )
        return sum(wanted.values())

    def _top(self, pod: Document, owner: Document) -> Document | None:
        """Return the object with the number of replicas: a Deployment rather than its ReplicaSet."""
        namespace = pod["metadata"]["namespace"]
        resource = self.tools.registry.mapper.of_kind(owner["apiVersion"], owner["kind"])
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


def evict(
    registry: Registry, resource: Resource, namespace: str, name: str, eviction: Document, context: RequestContext
) -> None:
    """Delete a pod if its disruption budget allows it."""
    stored = registry.get(resource, namespace, name)
    document = stored.document
    options = DeleteOptions.read(eviction.get("deleteOptions") or {}, {})
    phase = nested_field(document, "status", "phase")
    if phase not in {"Succeeded", "Failed", "Pending"} and not document["metadata"].get("deletionTimestamp"):
        _spend_budget(registry, document, context)
    if not context.dry_run:
        mark_disrupted(registry, document, "EvictionByEvictionAPI", "Eviction API: evicting")
    delete(registry, resource, namespace, name, options, context)


def _spend_budget(registry: Registry, pod: Document, context: RequestContext) -> None:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    budgets = [
        each
        for each in registry.store.objects(BUDGETS, metadata["namespace"])
        if labels and selector_of(each.document["spec"].get("selector")).matches(labels)
    ]
    if len(budgets) > 1:
        raise ApiError(500, "InternalError", "This pod has more than one PodDisruptionBudget, which the eviction"
                       " subresource does not support.")  # fmt: skip
    if not budgets:
        return
    budget = budgets[0].document
    status = budget.get("status", {})
    ready = condition(pod, "Ready")
    unhealthy = not (ready and ready["status"] == "True")
    if unhealthy and (
        nested_field(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow"
        or status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
    ):
        return
    _require_budget(budget, status)
    if context.dry_run:
        return
    disrupted = {**status.get("disruptedPods", {}), metadata["name"]: rfc3339(registry.clock())}
    fresh = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
    registry.modify(BUDGETS, metadata["namespace"], budget["metadata"]["name"], lambda each: {**each, "status": fresh})


def _require_budget(budget: Document, status: Document) -> None:
    name = budget["metadata"]["name"]
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} is still being processed by the server.",
        }
        raise too_many_requests(message, causes=[cause], retry_after=10)
    if status.get("disruptionsAllowed", 0) <= 0:
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has"
            f" {status.get('currentHealthy', 0)} currently",
        }
        raise too_many_requests(message, causes=[cause])


POD_DISRUPTION_BUDGET: Final = Kind(
    Resource(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",), subresources=("status",)
    ),
    initial_status={"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
    validate=_budget_errors,
    columns=columns("Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age", _disruption_budget_row),
    counts_generation=True,
    unconditional_update=False,
    controllers=(DisruptionController,),
)
