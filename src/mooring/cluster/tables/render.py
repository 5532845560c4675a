"""Makes a Table of objects: the columns of each kind, and a row for each object."""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from mooring.apiserver.documents import Document
from mooring.cluster.resources import Resource
from mooring.cluster.tables import core, groups, pods
from mooring.cluster.tables.texts import age

Row = Callable[[Document, float], list[Any]]


class Columns(NamedTuple):
    """What a table of one kind shows."""

    definitions: tuple[Document, ...]
    row: Row


def _columns(text: str, row: Row) -> Columns:
    """Read `Name Ready:integer +Node`: a type after a colon, a plus for what only `-o wide` shows, `_` for a blank."""
    found: list[Document] = []
    for word in text.split():
        wide = word.startswith("+")
        name, _, kind = word.lstrip("+").partition(":")
        name = name.replace("_", " ")
        found.append(
            {
                "name": name,
                "type": kind or "string",
                "format": "name" if name == "Name" and not wide else "",
                "description": "",
                "priority": int(wide),
            }
        )
    return Columns(tuple(found), row)


def _name_and_age(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], age(document, now)]


def _name_and_created(document: Document, _now: float) -> list[Any]:
    return [document["metadata"]["name"], document["metadata"].get("creationTimestamp", "")]


_WORKLOAD: Final = "+Containers +Images +Selector"
_COUNTS: Final = "Name Desired:integer Current:integer Ready:integer"
_DEFAULT: Final = _columns("Name Age", _name_and_age)
#: What is shown of kinds for which nobody made columns: kubectl makes an age of the date.
_PLAIN: Final = Columns((*_DEFAULT.definitions[:1], {**_DEFAULT.definitions[1], "name": "Created At", "type": "date"}),
                        _name_and_created)  # fmt: skip

_STORAGE: Final = "storage.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_BINDING: Final = "Name Role Age +Users +Groups +ServiceAccounts"

COLUMNS: Final[dict[str, Columns]] = {
    "pods": _columns("Name Ready Status Restarts Age +IP +Node +Nominated_Node +Readiness_Gates", pods.pod),
    "nodes": _columns(
        "Name Status Roles Age Version +Internal-IP +External-IP +OS-Image +Kernel-Version +Container-Runtime",
        core.node,
    ),
    "namespaces": _columns("Name Status Age", core.namespace),
    "services": _columns("Name Type Cluster-IP External-IP Port(s) Age +Selector", core.service),
    "persistentvolumes": _columns(
        "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age"
        " +VolumeMode",
        core.volume,
    ),
    "persistentvolumeclaims": _columns(
        "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age +VolumeMode", core.claim
    ),
    "events": _columns("Last_Seen Type Reason Object +Subobject +Source Message +First_Seen +Count +Name", core.event),
    "configmaps": _columns("Name Data Age", core.config_map),
    "secrets": _columns("Name Type Data Age", core.secret),
    "serviceaccounts": _DEFAULT,
    "endpoints": _columns("Name Endpoints Age", core.endpoints),
    "replicationcontrollers": _columns(f"{_COUNTS} Age {_WORKLOAD}", core.replication_controller),
    "podtemplates": _columns("Name Containers Images Pod_Labels", core.pod_template),
    "resourcequotas": _columns("Name Request Limit Age", core.resource_quota),
    "limitranges": _PLAIN,
    "deployments.apps": _columns(f"Name Ready Up-to-date Available Age {_WORKLOAD}", groups.deployment),
    "replicasets.apps": _columns(f"{_COUNTS} Age {_WORKLOAD}", groups.replica_set),
    "statefulsets.apps": _columns("Name Ready Age +Containers +Images", groups.stateful_set),
    "daemonsets.apps": _columns(
        f"{_COUNTS} Up-to-date:integer Available:integer Node_Selector Age {_WORKLOAD}", groups.daemon_set
    ),
    "controllerrevisions.apps": _columns("Name Controller Revision:integer Age", groups.controller_revision),
    "jobs.batch": _columns(f"Name Status Completions Duration Age {_WORKLOAD}", groups.job),
    "cronjobs.batch": _columns(
        f"Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age {_WORKLOAD}", groups.cron_job
    ),
    "poddisruptionbudgets.policy": _columns(
        "Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age", groups.disruption_budget
    ),
    "priorityclasses.scheduling.k8s.io": _columns(
        "Name Value:integer Global-Default:boolean Age PreemptionPolicy", groups.priority_class
    ),
    "leases.coordination.k8s.io": _columns("Name Holder Age", groups.lease),
    f"storageclasses.{_STORAGE}": _columns(
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age", groups.storage_class
    ),
    f"csinodes.{_STORAGE}": _columns("Name Drivers:integer Age", groups.csi_node),
    f"csidrivers.{_STORAGE}": _columns(
        "Name AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean TokenRequests"
        " RequiresRepublish:boolean Modes Age",
        groups.csi_driver,
    ),
    f"csistoragecapacities.{_STORAGE}": _columns("Name StorageClassName Capacity", groups.csi_storage_capacity),
    f"volumeattachments.{_STORAGE}": _columns("Name Attacher PV Node Attached:boolean Age", groups.volume_attachment),
    f"volumeattributesclasses.{_STORAGE}": _columns("Name DriverName Age", groups.volume_attributes_class),
    f"roles.{_RBAC}": _PLAIN,
    f"clusterroles.{_RBAC}": _PLAIN,
    f"rolebindings.{_RBAC}": _columns(_BINDING, groups.role_binding),
    f"clusterrolebindings.{_RBAC}": _columns(_BINDING, groups.role_binding),
    "resourceclaims.resource.k8s.io": _columns("Name State Age", groups.resource_claim),
    "resourceslices.resource.k8s.io": _columns("Name Node Driver Pool Age", groups.resource_slice),
    "runtimeclasses.node.k8s.io": _columns("Name Handler Age", groups.runtime_class),
    "ingresses.networking.k8s.io": _columns("Name Class Hosts Address Ports Age", groups.ingress),
    "ingressclasses.networking.k8s.io": _columns("Name Controller Parameters Age", groups.ingress_class),
    "networkpolicies.networking.k8s.io": _columns("Name Pod-Selector Age", groups.network_policy),
    "endpointslices.discovery.k8s.io": _columns("Name AddressType Ports Endpoints Age", groups.endpoint_slice),
    "customresourcedefinitions.apiextensions.k8s.io": _PLAIN,
}


def columns_for(resource: Resource) -> Columns:
    """The columns of a resource of Kubernetes' own."""
    return COLUMNS.get(resource.stored_as, _DEFAULT)


def table_rows(documents: Iterable[Document], columns: Columns, now: float, include: str) -> list[Document]:
    """A row for each object, with as much of the object as the client asks for."""
    rows: list[Document] = []
    for document in documents:
        row: Document = {"cells": columns.row(document, now)}
        phase = document.get("status", {}).get("phase") if document.get("kind") == "Pod" else None
        if phase in {"Succeeded", "Failed"}:
            row["conditions"] = [{
                "type": "Completed", "status": "True", "reason": phase,
                "message": "The pod has completed successfully." if phase == "Succeeded" else "The pod failed.",
            }]  # fmt: skip
        if include == "Object":
            row["object"] = document
        elif include == "Metadata":
            row["object"] = partial_metadata(document)
        rows.append(row)
    return rows


def partial_metadata(document: Document) -> Document:
    """Only the metadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": document["metadata"],
    }


def table_document(columns: Columns, rows: list[Document], metadata: Document, *, headers: bool = True) -> Document:
    """The Table object."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": list(columns.definitions) if headers else [],
        "rows": rows,
    }
