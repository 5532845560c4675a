"""The rows of workloads, storage, policy and the other kinds outside the core group."""

from typing import Any

from mooring.apiserver.documents import Document, look, seconds_of
from mooring.cluster.tables.texts import (
    NONE,
    UNSET,
    age,
    container_cells,
    human_duration,
    labels_text,
    selector_text,
    since,
)


def _containers(document: Document) -> list[str]:
    names, images = container_cells(look(document, "spec", "template", "spec", "containers") or ())
    return [names, images]


def deployment(document: Document, now: float) -> list[Any]:
    """A Deployment."""
    spec, status = document["spec"], document.get("status", {})
    return [
        document["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(document, now),
        *_containers(document),
        selector_text(spec.get("selector")),
    ]


def replica_set(document: Document, now: float) -> list[Any]:
    """A ReplicaSet."""
    spec, status = document["spec"], document.get("status", {})
    return [
        document["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(document, now),
        *_containers(document),
        selector_text(spec.get("selector")),
    ]


def stateful_set(document: Document, now: float) -> list[Any]:
    """A StatefulSet."""
    ready = f"{look(document, 'status', 'readyReplicas') or 0}/{document['spec'].get('replicas', 0)}"
    return [document["metadata"]["name"], ready, age(document, now), *_containers(document)]


def daemon_set(document: Document, now: float) -> list[Any]:
    """A DaemonSet."""
    spec, status = document["spec"], document.get("status", {})
    keys = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        document["metadata"]["name"],
        *(status.get(key, 0) for key in keys),
        labels_text(look(spec, "template", "spec", "nodeSelector")),
        age(document, now),
        *_containers(document),
        selector_text(spec.get("selector")),
    ]


_JOB_STATES = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def job(document: Document, now: float) -> list[Any]:
    """A Job."""
    spec, status, metadata = document["spec"], document.get("status", {}), document["metadata"]
    done, parallel = status.get("succeeded", 0), spec.get("parallelism", 0)
    if "completions" in spec:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    duration = ""
    if status.get("startTime"):
        end = seconds_of(status["completionTime"]) if status.get("completionTime") else now
        duration = human_duration(end - seconds_of(status["startTime"]))
    true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    deleted = "Terminating" if metadata.get("deletionTimestamp") else None
    state = next((each or deleted for each in _JOB_STATES if each in true or (not each and deleted)), "Running")
    return [
        metadata["name"], state, completions, duration, age(document, now), *_containers(document),
        selector_text(spec.get("selector")),
    ]  # fmt: skip


def cron_job(document: Document, now: float) -> list[Any]:
    """A CronJob."""
    spec, status = document["spec"], document.get("status", {})
    last = status.get("lastScheduleTime")
    inner = look(spec, "jobTemplate", "spec") or {}
    names, images = container_cells(look(inner, "template", "spec", "containers") or ())
    return [
        document["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone", NONE),
        "True" if spec.get("suspend") else "False",
        len(status.get("active", ())),
        since(last, now) if last else NONE,
        age(document, now),
        names,
        images,
        selector_text(inner.get("selector")),
    ]


def disruption_budget(document: Document, now: float) -> list[Any]:
    """A PodDisruptionBudget."""
    spec = document["spec"]
    return [
        document["metadata"]["name"],
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        look(document, "status", "disruptionsAllowed") or 0,
        age(document, now),
    ]


def priority_class(document: Document, now: float) -> list[Any]:
    """A PriorityClass."""
    return [
        document["metadata"]["name"],
        document.get("value", 0),
        document.get("globalDefault", False),
        age(document, now),
        document.get("preemptionPolicy", ""),
    ]


def lease(document: Document, now: float) -> list[Any]:
    """A Lease."""
    return [document["metadata"]["name"], look(document, "spec", "holderIdentity") or "", age(document, now)]


def storage_class(document: Document, now: float) -> list[Any]:
    """A StorageClass."""
    metadata = document["metadata"]
    default = metadata.get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        metadata["name"] + (" (default)" if default else ""),
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        document.get("allowVolumeExpansion", False),
        age(document, now),
    ]


def csi_node(document: Document, now: float) -> list[Any]:
    """A CSINode."""
    return [document["metadata"]["name"], len(document["spec"].get("drivers", ())), age(document, now)]


def csi_driver(document: Document, now: float) -> list[Any]:
    """A CSIDriver."""
    spec = document["spec"]
    tokens = ",".join(each.get("audience", "") for each in spec["tokenRequests"]) if "tokenRequests" in spec else UNSET
    return [
        document["metadata"]["name"],
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        tokens,
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes", ())) or NONE,
        age(document, now),
    ]


def csi_storage_capacity(document: Document, _now: float) -> list[Any]:
    """A CSIStorageCapacity."""
    return [document["metadata"]["name"], document.get("storageClassName", ""), document.get("capacity", UNSET)]


def volume_attachment(document: Document, now: float) -> list[Any]:
    """A VolumeAttachment."""
    spec = document["spec"]
    return [
        document["metadata"]["name"],
        spec.get("attacher", ""),
        look(spec, "source", "persistentVolumeName") or "",
        spec.get("nodeName", ""),
        look(document, "status", "attached") or False,
        age(document, now),
    ]


def role_binding(document: Document, now: float) -> list[Any]:
    """A RoleBinding or ClusterRoleBinding."""
    subjects = document.get("subjects", ())

    def named(kind: str) -> str:
        return ", ".join(each["name"] for each in subjects if each.get("kind") == kind)

    accounts = ", ".join(
        f"{each.get('namespace', '')}/{each['name']}" for each in subjects if each.get("kind") == "ServiceAccount"
    )
    role = f"{document['roleRef'].get('kind')}/{document['roleRef'].get('name')}"
    return [document["metadata"]["name"], role, age(document, now), named("User"), named("Group"), accounts]


def resource_claim(document: Document, now: float) -> list[Any]:
    """A ResourceClaim."""
    status = document.get("status", {})
    words = ["deleted"] if document["metadata"].get("deletionTimestamp") else []
    if not status.get("allocation"):
        words = words or ["pending"]
    else:
        words += ["allocated"] + (["reserved"] if status.get("reservedFor") else [])
    return [document["metadata"]["name"], ",".join(words), age(document, now)]


def resource_slice(document: Document, now: float) -> list[Any]:
    """A ResourceSlice."""
    spec = document["spec"]
    pool = look(spec, "pool", "name") or ""
    return [
        document["metadata"]["name"], spec.get("nodeName", ""), spec.get("driver", ""), pool, age(document, now)
    ]  # fmt: skip


def runtime_class(document: Document, now: float) -> list[Any]:
    """A RuntimeClass."""
    return [document["metadata"]["name"], document.get("handler", ""), age(document, now)]


def ingress(document: Document, now: float) -> list[Any]:
    """An Ingress."""
    spec = document["spec"]
    hosts = [each["host"] for each in spec.get("rules", ()) if each.get("host")]
    shown = ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")
    addresses = look(document, "status", "loadBalancer", "ingress") or ()
    return [
        document["metadata"]["name"],
        spec.get("ingressClassName", NONE),
        shown or "*",
        ",".join(each.get("ip") or each.get("hostname", "") for each in addresses),
        "80, 443" if spec.get("tls") else "80",
        age(document, now),
    ]


def ingress_class(document: Document, now: float) -> list[Any]:
    """An IngressClass."""
    parameters = look(document, "spec", "parameters")
    shown = (
        f"{parameters.get('kind', '')}.{parameters.get('apiGroup', '')}/{parameters.get('name', '')}"
        if parameters
        else NONE
    )
    return [document["metadata"]["name"], look(document, "spec", "controller") or "", shown, age(document, now)]


def network_policy(document: Document, now: float) -> list[Any]:
    """A NetworkPolicy."""
    return [document["metadata"]["name"], selector_text(document["spec"].get("podSelector")), age(document, now)]


def endpoint_slice(document: Document, now: float) -> list[Any]:
    """An EndpointSlice."""
    ports = ",".join(str(each.get("port", "*")) for each in document.get("ports", ()))
    found = ",".join(address for each in document.get("endpoints", ()) for address in each.get("addresses", ()))
    name = document["metadata"]["name"]
    return [name, document.get("addressType", ""), ports or UNSET, found or UNSET, age(document, now)]


def volume_attributes_class(document: Document, now: float) -> list[Any]:
    """A VolumeAttributesClass."""
    return [document["metadata"]["name"], document.get("driverName", ""), age(document, now)]


def controller_revision(document: Document, now: float) -> list[Any]:
    """A ControllerRevision."""
    owner = next(iter(document["metadata"].get("ownerReferences", ())), None)
    shown = f"{owner['kind'].lower()}.{owner['apiVersion'].partition('/')[0]}/{owner['name']}" if owner else NONE
    return [document["metadata"]["name"], shown, document.get("revision", 0), age(document, now)]
