"""What Kubernetes fills in where a manifest is silent, by kind. Each function completes a document in place."""

from collections.abc import Callable
from typing import Final

from mooring.apiserver.documents import Document
from mooring.apiserver.pod_defaults import set_pod_defaults
from mooring.cluster.defaults import others, services, workloads

#: By the name under which the store files the objects.
DEFAULTS: Final[dict[str, Callable[[Document], None]]] = {
    "configmaps": others.config_map,
    "cronjobs.batch": workloads.set_cron_job_defaults,
    "csidrivers.storage.k8s.io": others.csi_driver,
    "customresourcedefinitions.apiextensions.k8s.io": others.custom_resource_definition,
    "daemonsets.apps": workloads.set_daemon_set_defaults,
    "deployments.apps": workloads.set_deployment_defaults,
    "endpoints": others.endpoints,
    "endpointslices.discovery.k8s.io": others.endpoint_slice,
    "events": others.event,
    "ingresses.networking.k8s.io": others.ingress,
    "jobs.batch": workloads.set_job_defaults,
    "limitranges": others.limit_range,
    "namespaces": others.namespace,
    "networkpolicies.networking.k8s.io": others.network_policy,
    "nodes": others.node,
    "persistentvolumeclaims": others.persistent_volume_claim,
    "persistentvolumes": others.persistent_volume,
    "pods": set_pod_defaults,
    "podtemplates": others.pod_template,
    "priorityclasses.scheduling.k8s.io": others.priority_class,
    "replicasets.apps": workloads.set_replica_set_defaults,
    "replicationcontrollers": workloads.set_replication_controller_defaults,
    "clusterrolebindings.rbac.authorization.k8s.io": others.role_binding,
    "resourceclaims.resource.k8s.io": others.resource_claim,
    "resourceclaimtemplates.resource.k8s.io": others.resource_claim_template,
    "rolebindings.rbac.authorization.k8s.io": others.role_binding,
    "secrets": others.secret,
    "services": services.service,
    "statefulsets.apps": workloads.set_stateful_set_defaults,
    "storageclasses.storage.k8s.io": others.storage_class,
}


def set_defaults(storage: str, document: Document) -> None:
    """Complete a document of a resource in place."""
    complete = DEFAULTS.get(storage)
    if complete is not None:
        complete(document)
