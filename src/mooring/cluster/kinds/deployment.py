"""Deployments: rules, and the controller that rolls out a ReplicaSet for each version of the template."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.label_selectors import parse_int
from mooring.apiserver.documents import Document, condition, nested_field, rfc3339, with_metadata
from mooring.apiserver.field_errors import FieldError, forbidden_field, invalid, not_negative, not_supported
from mooring.apiserver.field_rules import at_most_all, int_or_percent, scaled
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.workloads import TEMPLATE_HASH, replica_set_of
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.replica_set import REPLICA_FAILURE
from mooring.cluster.kinds.workload import (
    WORKLOAD_COLUMNS,
    adopt_and_release,
    affected_owners,
    container_names,
    other_conditions,
    selected_template_errors,
    selector_update_errors,
    template_warnings,
    workload_selector,
)
from mooring.cluster.store import Change
from mooring.cluster.table_printer import age, columns, selector_text

DEPLOYMENTS: Final = "deployments.apps"
REPLICA_SETS: Final = "replicasets.apps"
REVISION: Final = "deployment.kubernetes.io/revision"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MAX: Final = "deployment.kubernetes.io/max-replicas"
_HISTORY: Final = "deployment.kubernetes.io/revision-history"
_COMPONENT: Final = "deployment-controller"
#: Annotations that are not copied to ReplicaSets.
_NOT_COPIED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION, _HISTORY, _DESIRED, _MAX})


def _set_deployment_defaults(document: Document) -> None:
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    set_template_defaults(spec["template"])


def _deployment_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors = not_negative(spec.get("replicas"), "spec.replicas") + selected_template_errors(spec)
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in {"Recreate", "RollingUpdate"}:
        shown = {"Type": kind or "", "RollingUpdate": rolling}
        errors.append(not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate")))
    if kind == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        errors.append(forbidden_field("spec.strategy.rollingUpdate", detail))
    elif rolling is not None:
        errors += _rolling(rolling)
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        errors += not_negative(spec.get(key), f"spec.{key}")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def _rolling(rolling: Document) -> list[FieldError]:
    path = "spec.strategy.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    errors = int_or_percent(unavailable, f"{path}.maxUnavailable") + int_or_percent(surge, f"{path}.maxSurge")
    if not errors and not scaled(unavailable, 100, round_up=True) and not scaled(surge, 100, round_up=True):
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(unavailable, f"{path}.maxUnavailable")


def _deployment_row(document: Document, now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    return [
        document["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(document, now),
        *container_names(document),
        selector_text(spec.get("selector")),
    ]


class DeploymentController(Controller):
    """A controller that rolls out Deployments."""

    name = "deployment-controller"
    watched = frozenset({DEPLOYMENTS, REPLICA_SETS})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the Deployment, the owner of a ReplicaSet, or the Deployments that could adopt it."""
        return affected_owners(self.tools, storage, change, DEPLOYMENTS, workload_selector)

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Take one step of a rollout, and update the status."""
        document = self.tools.find(DEPLOYMENTS, namespace, name)
        if document is None or document["metadata"].get("deletionTimestamp"):
            return None
        adopt_and_release(self.tools, document, REPLICA_SETS, workload_selector(document))
        sets = self._sets(document)
        current = self._current(document, sets)
        paused = document["spec"].get("paused", False)
        if current is None and not paused:
            if nested_field(document, "spec", "strategy", "type") == "Recreate" and self._scale_down_all(sets):
                self._report(document, None)
                return None
            current = self._make(document, sets)
        if current is not None:
            current = self._revise(document, current, sets)
            old = [each for each in sets if each["metadata"]["uid"] != current["metadata"]["uid"]]
            if paused:
                self._resize_paused(document, [*old, current])
            elif nested_field(document, "spec", "strategy", "type") == "Recreate":
                if not self._scale_down_all(old):
                    self._resize(document, current, document["spec"]["replicas"])
            else:
                self._roll(document, current, old)
            self._clean(document, old)
        self._report(document, current)
        return None

    def _sets(self, document: Document) -> list[Document]:
        found = self.tools.index.controlled(document["metadata"]["uid"], REPLICA_SETS)
        return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))

    def _current(self, document: Document, sets: list[Document]) -> Document | None:
        wanted = _comparable(document["spec"]["template"])
        return next((each for each in sets if _comparable(each["spec"]["template"]) == wanted), None)

    def _make(self, document: Document, sets: list[Document]) -> Document | None:
        replicas = self._first_size(document, sets)
        made = replica_set_of(document, replicas)
        made["metadata"]["annotations"] = self._annotations(document, str(_highest(sets) + 1))
        namespace = document["metadata"]["namespace"]
        stored = self.tools.create(REPLICA_SETS, namespace, made)
        if stored is None:
            if self.tools.find(REPLICA_SETS, namespace, made["metadata"]["name"]) is not None:
                # The name is in use, so the next attempt uses another one.
                status = document.get("status") or {}
                status = {**status, "collisionCount": (status.get("collisionCount") or 0) + 1}
                self.tools.set_status(DEPLOYMENTS, self._fresh(document), status)
            return None
        if replicas:
            self._record_scaling(document, stored.document, 0, replicas)
        return stored.document

    def _first_size(self, document: Document, sets: list[Document]) -> int:
        wanted = int(document["spec"]["replicas"])
        if nested_field(document, "spec", "strategy", "type") == "Recreate":
            return wanted
        room = wanted + self._surge(document) - sum(each["spec"]["replicas"] for each in sets)
        return int(max(min(wanted, room), 0))

    def _annotations(self, document: Document, revision: str) -> Document:
        given = {
            key: value
            for key, value in (document["metadata"].get("annotations") or {}).items()
            if key not in _NOT_COPIED
        }
        wanted = document["spec"]["replicas"]
        return {**given, REVISION: revision, _DESIRED: str(wanted), _MAX: str(wanted + self._surge(document))}

    def _revise(self, document: Document, current: Document, sets: list[Document]) -> Document:
        """Set the highest revision on the current ReplicaSet and on the Deployment."""
        annotations = dict(current["metadata"].get("annotations") or {})
        others = [each for each in sets if each["metadata"]["uid"] != current["metadata"]["uid"]]
        revision = annotations.get(REVISION, "0")
        wanted = str(max(_highest(others) + 1, int(revision)))
        fresh = {**annotations, **self._annotations(document, wanted)}
        if revision not in (wanted, "0"):
            history = annotations.get(_HISTORY)
            fresh[_HISTORY] = f"{history},{revision}" if history else revision
        if fresh != annotations:
            current = self._put(REPLICA_SETS, with_metadata(current, annotations=fresh))
        own = document["metadata"].get("annotations") or {}
        if own.get(REVISION) != wanted:
            self._put(DEPLOYMENTS, with_metadata(self._fresh(document), annotations={**own, REVISION: wanted}))
        return current

    def _fresh(self, document: Document) -> Document:
        metadata = document["metadata"]
        return self.tools.find(DEPLOYMENTS, metadata["namespace"], metadata["name"]) or document

    def _put(self, storage: str, document: Document) -> Document:
        metadata = document["metadata"]
        return self.tools.store.put(storage, metadata["namespace"], metadata["name"], document).document

    def _surge(self, document: Document) -> int:
        rolling = nested_field(document, "spec", "strategy", "rollingUpdate") or {}
        return scaled(rolling.get("maxSurge", 0), document["spec"]["replicas"], round_up=True)

    def _unavailable(self, document: Document) -> int:
        rolling = nested_field(document, "spec", "strategy", "rollingUpdate") or {}
        wanted = document["spec"]["replicas"]
        most = scaled(rolling.get("maxUnavailable", 0), wanted, round_up=False)
        # A rollout with neither surge nor unavailability would make no progress.
        return 1 if not most and not self._surge(document) else min(most, wanted)

    def _roll(self, document: Document, current: Document, old: list[Document]) -> None:
        """Scale up the new ReplicaSet within `maxSurge`, then scale down the old ones within `maxUnavailable`."""
        wanted, size = document["spec"]["replicas"], current["spec"]["replicas"]
        if size > wanted:
            self._resize(document, current, wanted)
        elif size < wanted:
            total = size + sum(each["spec"]["replicas"] for each in old)
            room = wanted + self._surge(document) - total
            if room > 0:
                self._resize(document, current, min(size + room, wanted))
        current = (
            self.tools.find(REPLICA_SETS, current["metadata"]["namespace"], current["metadata"]["name"]) or current
        )
        self._shrink(document, current, [each for each in old if each["spec"]["replicas"]])

    def _shrink(self, document: Document, current: Document, old: list[Document]) -> None:
        least = document["spec"]["replicas"] - self._unavailable(document)
        total = current["spec"]["replicas"] + sum(each["spec"]["replicas"] for each in old)
        pending = current["spec"]["replicas"] - (nested_field(current, "status", "availableReplicas") or 0)
        most = total - least - pending
        for each in old:
            # Unavailable pods can be removed without reducing availability.
            idle = each["spec"]["replicas"] - (nested_field(each, "status", "availableReplicas") or 0)
            cut = min(max(idle, 0), max(most, 0))
            if cut:
                self._resize(document, each, each["spec"]["replicas"] - cut)
                most -= cut
        serving = (nested_field(current, "status", "availableReplicas") or 0) + sum(
            nested_field(each, "status", "availableReplicas") or 0 for each in old
        )
        spare = serving - least
        for each in old:
            now = self.tools.find(REPLICA_SETS, each["metadata"]["namespace"], each["metadata"]["name"]) or each
            cut = min(now["spec"]["replicas"], max(spare, 0))
            if cut:
                self._resize(document, now, now["spec"]["replicas"] - cut)
                spare -= cut

    def _resize_paused(self, document: Document, sets: list[Document]) -> None:
        """Scale the largest ReplicaSet of a paused Deployment."""
        largest = max(sets, key=lambda each: each["spec"]["replicas"])
        others = sum(each["spec"]["replicas"] for each in sets) - largest["spec"]["replicas"]
        self._resize(document, largest, max(document["spec"]["replicas"] - others, 0))

    def _scale_down_all(self, sets: list[Document]) -> bool:
        """Scale ReplicaSets down to zero, and return whether they still have pods."""
        for each in sets:
            if each["spec"]["replicas"]:
                self._put(REPLICA_SETS, {**each, "spec": {**each["spec"], "replicas": 0}})
        return any(self.tools.index.controlled(each["metadata"]["uid"], "pods") for each in sets)

    def _resize(self, document: Document, each: Document, replicas: int) -> None:
        size = each["spec"]["replicas"]
        if size == replicas:
            return
        generation = each["metadata"].get("generation", 0) + 1
        changed = with_metadata({**each, "spec": {**each["spec"], "replicas": replicas}}, generation=generation)
        self._put(REPLICA_SETS, changed)
        self._record_scaling(document, each, size, replicas)

    def _record_scaling(self, document: Document, each: Document, before: int, after: int) -> None:
        word = "up" if after > before else "down"
        name = each["metadata"]["name"]
        message = f"Scaled {word} replica set {name} from {before} to {after}"
        self.tools.recorder.record(_COMPONENT, document, "Normal", "ScalingReplicaSet", message)

    def _clean(self, document: Document, old: list[Document]) -> None:
        """Delete old ReplicaSets beyond the revision history limit."""
        limit = document["spec"].get("revisionHistoryLimit", 10)
        idle = [each for each in old if not each["spec"]["replicas"] and not nested_field(each, "status", "replicas")]
        idle.sort(key=_revision)
        for each in idle[: max(len(idle) - limit, 0)]:
            self.tools.delete(REPLICA_SETS, each["metadata"]["namespace"], each["metadata"]["name"])

    def _report(self, document: Document, current: Document | None) -> None:
        document = self._fresh(document)
        sets = self._sets(document)
        new = next((each for each in sets if current and each["metadata"]["uid"] == current["metadata"]["uid"]), None)

        def total(key: str, among: list[Document]) -> int:
            return sum(nested_field(each, "status", key) or 0 for each in among)

        wanted = document["spec"]["replicas"]
        replicas, available = total("replicas", sets), total("availableReplicas", sets)
        status: Document = {"observedGeneration": document["metadata"].get("generation", 0)}
        for key, value in (
            ("replicas", replicas),
            ("updatedReplicas", total("replicas", [new] if new else [])),
            ("readyReplicas", total("readyReplicas", sets)),
            ("availableReplicas", available),
            ("unavailableReplicas", max(max(replicas, wanted) - available, 0)),
        ):
            if value:
                status[key] = value
        if collisions := nested_field(document, "status", "collisionCount"):
            status["collisionCount"] = collisions
        conditions = self._conditions(document, status, new, sets)
        conditions += other_conditions(document, "Available", "Progressing", REPLICA_FAILURE)
        self.tools.set_status(DEPLOYMENTS, document, {**status, "conditions": conditions})

    def _conditions(
        self, document: Document, status: Document, new: Document | None, sets: list[Document]
    ) -> list[Document]:
        wanted, now = document["spec"]["replicas"], rfc3339(self.tools.now())
        enough = status.get("availableReplicas", 0) >= wanted - self._unavailable(document)
        found = [
            _condition(
                document, now, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
            )
            if enough
            else _condition(
                document,
                now,
                "Available",
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            )
        ]
        if failure := next(filter(None, (condition(each, REPLICA_FAILURE) for each in sets)), None):
            reason, message = failure["reason"], failure["message"]
            found.append(_condition(document, now, REPLICA_FAILURE, "True", reason, message))
        if new is None:
            before = condition(document, "Progressing")
            return [*found, before] if before else found
        name = new["metadata"]["name"]
        done = (
            status.get("updatedReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
        )
        if done:
            reason, message = "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
        else:
            reason, message = "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
        return [*found, _condition(document, now, "Progressing", "True", reason, message)]


def _comparable(template: Document) -> Any:
    """Return a template without the label that the controller adds."""
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    return {**metadata, "labels": labels}, template.get("spec")


def _revision(each: Document) -> int:
    text = (each["metadata"].get("annotations") or {}).get(REVISION, "0")
    return max(parse_int(text) or 0, 0)


def _highest(sets: list[Document]) -> int:
    return max(map(_revision, sets), default=0)


def _condition(document: Document, now: str, kind: str, status: str, reason: str, message: str) -> Document:
    before = condition(document, kind)
    if before and (before["status"], before.get("reason"), before.get("message")) == (status, reason, message):
        return before
    since = before["lastTransitionTime"] if before and before["status"] == status else now
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


DEPLOYMENT: Final = Kind(
    Resource(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        short_names=("deploy",),
        categories=("all",),
        subresources=("scale", "status"),
    ),
    set_defaults=_set_deployment_defaults,
    validate=_deployment_errors,
    validate_update=selector_update_errors,
    status_protects=("labels",),
    warnings=template_warnings,
    columns=columns(f"Name Ready Up-to-date Available Age {WORKLOAD_COLUMNS}", _deployment_row),
    counts_generation=True,
    counts_annotations=True,
    controllers=(DeploymentController,),
)
