"""ReplicaSets and ReplicationControllers: rules, and the controller that maintains the desired number of pods."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.label_selectors import Selector
from mooring.apiserver.documents import Document, controller_of, nested_field, with_metadata
from mooring.apiserver.field_errors import FieldError, invalid, not_negative, required
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.workloads import owner_reference, pod_from_template
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.pod_validation import template_errors
from mooring.cluster.kinds.workload import (
    SELECTOR_MISMATCH,
    TEMPLATE,
    WORKLOAD_COLUMNS,
    container_names,
    deletion_order,
    is_active,
    is_available,
    is_ready,
    selected_template_errors,
    selector_update_errors,
    template_warnings,
)
from mooring.cluster.selectors import field_reader, selector_of
from mooring.cluster.store import Change
from mooring.cluster.table_printer import age, columns, container_cells, labels_text, selector_text

#: The maximum number of pods that one reconciliation creates, so that other controllers can run in between.
_BURST = 500


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

    watched = frozenset({"replicasets.apps", "pods"})

    storage = "replicasets.apps"
    kind = "ReplicaSet"
    component = "replicaset-controller"

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the ReplicaSet, the owner of a pod, or the ReplicaSets that could adopt the pod."""
        document = change.stored.document
        metadata = document["metadata"]
        if storage == self.storage:
            return [(metadata["namespace"], metadata["name"])]
        if storage != "pods":
            return []
        owner = controller_of(document)
        if owner is not None:
            return [(metadata["namespace"], owner["name"])] if owner["kind"] == self.kind else []
        return [
            (metadata["namespace"], each.document["metadata"]["name"])
            for each in self.tools.store.objects(self.storage, metadata["namespace"])
            if self._selector(each.document).matches(metadata.get("labels") or {})
        ]

    def _selector(self, document: Document) -> Selector:
        return selector_of(document["spec"].get("selector"))

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Adopt, create or delete pods, and update the status."""
        document = self.tools.find(self.storage, namespace, name)
        if document is None:
            return None
        again = None
        if not document["metadata"].get("deletionTimestamp"):
            self._adopt(document)
            again = self._scale(document)
        waiting = self._report(document)
        return again if again is not None else waiting

    def _pods(self, document: Document) -> list[Document]:
        return [each for each in self.tools.index.controlled(document["metadata"]["uid"], "pods") if is_active(each)]

    def _adopt(self, document: Document) -> None:
        """Adopt matching pods that have no controller."""
        namespace, selector = document["metadata"]["namespace"], self._selector(document)
        for pod in self.tools.index.orphans(namespace):
            if is_active(pod) and selector.matches(pod["metadata"].get("labels") or {}):
                owners = [*pod["metadata"].get("ownerReferences", ()), owner_reference(document)]
                adopted = with_metadata(pod, ownerReferences=owners)
                self.tools.store.put("pods", namespace, pod["metadata"]["name"], adopted)

    def _scale(self, document: Document) -> float | None:
        pods = self._pods(document)
        missing = document["spec"].get("replicas", 1) - len(pods)
        namespace = document["metadata"]["namespace"]
        if missing < 0:
            for pod in sorted(pods, key=deletion_order)[:-missing]:
                self.tools.delete("pods", namespace, pod["metadata"]["name"])
                message = f"Deleted pod: {pod['metadata']['name']}"
                self.tools.recorder.record(self.component, document, "Normal", "SuccessfulDelete", message)
            return None
        for _ in range(min(missing, _BURST)):
            stored = self.tools.create("pods", namespace, pod_from_template(document["spec"]["template"], document))
            if stored is None:
                return 5.0
            message = f"Created pod: {stored.document['metadata']['name']}"
            self.tools.recorder.record(self.component, document, "Normal", "SuccessfulCreate", message)
        return 0.0 if missing > _BURST else None

    def _report(self, document: Document) -> float | None:
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
            self.tools.set_status(self.storage, current, status)
        return 1.0 if available < ready else None


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
