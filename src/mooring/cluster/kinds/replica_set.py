"""ReplicaSets and ReplicationControllers: rules, and the controller that maintains the desired number of pods."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.label_selectors import Selector
from mooring.apiserver.documents import Document, condition, nested_field, rfc3339
from mooring.apiserver.field_errors import FieldError, invalid, not_negative, required
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.pod_validation import template_errors
from mooring.apiserver.workloads import pod_from_template
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.errors import ApiError
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.workload import (
    SELECTOR_MISMATCH,
    TEMPLATE,
    WORKLOAD_COLUMNS,
    adopt_and_release,
    affected_owners,
    container_names,
    deletion_order,
    is_active,
    is_available,
    is_ready,
    other_conditions,
    selected_template_errors,
    selector_update_errors,
    template_warnings,
    workload_selector,
)
from mooring.cluster.selectors import field_reader, selector_of
from mooring.cluster.store import Change
from mooring.cluster.table_printer import age, columns, container_cells, labels_text, selector_text

#: The maximum number of pods that one reconciliation creates, so that other controllers can run in between.
_BURST: Final = 500
#: Seconds until the next attempt to create a pod that was rejected.
_RETRY: Final = 5.0
#: The condition of a workload whose pods are rejected, for example by a quota.
REPLICA_FAILURE: Final = "ReplicaFailure"


def _set_replica_set_defaults(document: Document) -> None:
    document["spec"].setdefault("replicas", 1)
    set_template_defaults(document["spec"].setdefault("template", {}))
    document["status"].setdefault("replicas", 0)


def _replica_set_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors = not_negative(spec.get("replicas"), "spec.replicas")
    errors += not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    return errors + selected_template_errors(spec)


def _replica_set_row(document: Document, now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    return [
        document["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(document, now),
        *container_names(document),
        selector_text(spec.get("selector")),
    ]


class ReplicaSetController(Controller):
    """A controller that maintains the desired number of pods of ReplicaSets."""

    name = "replicaset-controller"
    watched = frozenset({"replicasets.apps", "pods"})

    storage = "replicasets.apps"
    kind = "ReplicaSet"
    component = "replicaset-controller"

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the ReplicaSet, the owner of a pod, or the ReplicaSets that could adopt the pod."""
        return affected_owners(self.tools, storage, change, self.storage, self._selector)

    def _selector(self, document: Document) -> Selector:
        return workload_selector(document)

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Adopt, release, create or delete pods, and update the status."""
        document = self.tools.find(self.storage, namespace, name)
        if document is None:
            return None
        again, failure = None, ""
        if not document["metadata"].get("deletionTimestamp"):
            adopt_and_release(self.tools, document, "pods", self._selector(document), may_adopt=is_active)
            again, failure = self._scale(document)
        waiting = self._report(document, failure)
        return again if again is not None else waiting

    def _pods(self, document: Document) -> list[Document]:
        return [each for each in self.tools.index.controlled(document["metadata"]["uid"], "pods") if is_active(each)]

    def _scale(self, document: Document) -> tuple[float | None, str]:
        """Create or delete pods. Return the seconds until the next reconciliation, and why a pod was rejected."""
        pods = self._pods(document)
        missing = document["spec"].get("replicas", 1) - len(pods)
        namespace = document["metadata"]["namespace"]
        if missing < 0:
            for pod in sorted(pods, key=deletion_order)[:-missing]:
                self.tools.delete("pods", namespace, pod["metadata"]["name"])
                message = f"Deleted pod: {pod['metadata']['name']}"
                self.tools.recorder.record(self.component, document, "Normal", "SuccessfulDelete", message)
            return None, ""
        for _ in range(min(missing, _BURST)):
            try:
                stored = self.tools.try_create(
                    "pods", namespace, pod_from_template(document["spec"]["template"], document)
                )
            except ApiError as error:
                message = f"Error creating: {error.message}"
                self.tools.recorder.record(self.component, document, "Warning", "FailedCreate", message)
                return _RETRY, error.message
            message = f"Created pod: {stored.document['metadata']['name']}"
            self.tools.recorder.record(self.component, document, "Normal", "SuccessfulCreate", message)
        return (0.0 if missing > _BURST else None), ""

    def _report(self, document: Document, failure: str) -> float | None:
        """Update the status. Return the seconds until the next reconciliation if ready pods are not available yet."""
        pods, after, now = self._pods(document), document["spec"].get("minReadySeconds", 0), self.tools.now()
        template = nested_field(document, "spec", "template", "metadata", "labels") or {}
        ready = sum(is_ready(each) for each in pods)
        available = sum(is_available(each, after, now) for each in pods)
        labelled = sum(template.items() <= (each["metadata"].get("labels") or {}).items() for each in pods)
        status: Document = {"replicas": len(pods)}
        for key, value in (
            ("fullyLabeledReplicas", labelled),
            ("readyReplicas", ready),
            ("availableReplicas", available),
            ("observedGeneration", document["metadata"].get("generation", 0)),
        ):
            if value:
                status[key] = value
        current = self.tools.find(self.storage, document["metadata"]["namespace"], document["metadata"]["name"])
        if current is not None:
            if conditions := self._conditions(current, failure):
                status["conditions"] = conditions
            self.tools.set_status(self.storage, current, status)
        return 1.0 if available < ready else None

    def _conditions(self, document: Document, failure: str) -> list[Document]:
        """Return the conditions: the ones of other writers, and ReplicaFailure if a pod was rejected."""
        kept = other_conditions(document, REPLICA_FAILURE)
        if not failure:
            return kept
        now = rfc3339(self.tools.now())
        failed = {"type": REPLICA_FAILURE, "status": "True", "reason": "FailedCreate", "message": failure}
        # The message contains the name of the pod, so it is not updated: each update would be a reason to try again.
        return [*kept, condition(document, REPLICA_FAILURE) or {**failed, "lastTransitionTime": now}]


def _set_replication_controller_defaults(document: Document) -> None:
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    set_template_defaults(spec.setdefault("template", {}))
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        document["metadata"].setdefault("labels", dict(labels))
    document["status"].setdefault("replicas", 0)


def _replication_controller_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors = not_negative(spec.get("replicas"), "spec.replicas")
    selector, labels = spec.get("selector") or {}, nested_field(spec, "template", "metadata", "labels") or {}
    if not selector:
        errors.append(required("spec.selector"))
    elif any(labels.get(key) != value for key, value in selector.items()):
        errors.append(invalid(f"{TEMPLATE}.metadata.labels", dict(sorted(labels.items())), SELECTOR_MISMATCH))
    return errors + template_errors(spec.get("template") or {}, TEMPLATE)


def _replication_controller_row(document: Document, now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    names, images = container_cells(nested_field(spec, "template", "spec", "containers") or ())
    return [
        document["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(document, now),
        names,
        images,
        labels_text(spec.get("selector")),
    ]


class ReplicationControllerController(ReplicaSetController):
    """The controller of ReplicationControllers, whose selector is a map of labels."""

    name = "replicationcontroller-controller"
    watched = frozenset({"replicationcontrollers", "pods"})

    storage = "replicationcontrollers"
    kind = "ReplicationController"
    component = "replication-controller"

    def _selector(self, document: Document) -> Selector:
        return selector_of({"matchLabels": document["spec"].get("selector") or {}})


_STATUS_FIELDS: Final = {"status.replicas": field_reader("status", "replicas", default="0")}
_COLUMNS: Final = f"Name Desired:integer Current:integer Ready:integer Age {WORKLOAD_COLUMNS}"

REPLICA_SET: Final = Kind(
    Resource(
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        short_names=("rs",),
        categories=("all",),
        subresources=("scale", "status"),
    ),
    set_defaults=_set_replica_set_defaults,
    initial_status={"replicas": 0},
    validate=_replica_set_errors,
    validate_update=selector_update_errors,
    warnings=template_warnings,
    columns=columns(_COLUMNS, _replica_set_row),
    fields=_STATUS_FIELDS,
    counts_generation=True,
    controllers=(ReplicaSetController,),
)
REPLICATION_CONTROLLER: Final = Kind(
    Resource(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        subresources=("scale", "status"),
    ),
    set_defaults=_set_replication_controller_defaults,
    initial_status={"replicas": 0},
    validate=_replication_controller_errors,
    warnings=template_warnings,
    columns=columns(_COLUMNS, _replication_controller_row),
    fields=_STATUS_FIELDS,
    counts_generation=True,
    controllers=(ReplicationControllerController,),
)
