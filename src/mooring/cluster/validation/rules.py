"""Which rules of validation each resource has."""

from typing import Final

from mooring.apiserver.documents import Document
from mooring.cluster.errors import FieldError
from mooring.cluster.strategy import Validate, ValidateUpdate
from mooring.cluster.validation import definitions, others, pods, workloads


def _anything(_new: Document, _old: Document) -> list[FieldError]:
    return []


def _always(_document: Document) -> list[FieldError]:
    return []


_RBAC: Final = "rbac.authorization.k8s.io"

#: What may not change in the status of some resources.
STATUS_RULES: Final[dict[str, ValidateUpdate]] = {"pods": pods.pod_status_errors}

#: By the name under which the store files the objects: what is wrong with one, and what may not change.
RULES: Final[dict[str, tuple[Validate, ValidateUpdate]]] = {
    "pods": (pods.pod_errors, pods.pod_update_errors),
    "nodes": (others.node_errors, others.node_update_errors),
    "services": (others.service_errors, others.service_update_errors),
    "events": (others.event_errors, _anything),
    "configmaps": (_always, others.config_update_errors),
    "secrets": (_always, others.config_update_errors),
    "persistentvolumes": (others.volume_errors, others.volume_update_errors),
    "persistentvolumeclaims": (others.claim_errors, others.claim_update_errors),
    "replicationcontrollers": (workloads.controller_errors, _anything),
    "deployments.apps": (workloads.deployment_errors, workloads.selector_update_errors),
    "replicasets.apps": (workloads.replica_set_errors, workloads.selector_update_errors),
    "statefulsets.apps": (workloads.stateful_set_errors, workloads.stateful_set_update_errors),
    "daemonsets.apps": (workloads.daemon_set_errors, workloads.selector_update_errors),
    "jobs.batch": (workloads.job_errors, workloads.job_update_errors),
    "cronjobs.batch": (workloads.cron_job_errors, _anything),
    "poddisruptionbudgets.policy": (others.budget_errors, _anything),
    "priorityclasses.scheduling.k8s.io": (others.priority_class_errors, others.priority_class_update_errors),
    "storageclasses.storage.k8s.io": (others.storage_class_errors, others.storage_class_update_errors),
    "leases.coordination.k8s.io": (others.lease_errors, _anything),
    "runtimeclasses.node.k8s.io": (others.runtime_class_errors, _anything),
    f"rolebindings.{_RBAC}": (others.binding_errors, others.binding_update_errors),
    f"clusterrolebindings.{_RBAC}": (others.binding_errors, others.binding_update_errors),
    "customresourcedefinitions.apiextensions.k8s.io": (
        definitions.definition_errors,
        definitions.definition_update_errors,
    ),
}
