"""The rows of nodes, services, volumes, events and the other kinds of the core group."""

from typing import Any

from mooring.apiserver.documents import Document, look
from mooring.cluster.tables.texts import (
    NONE,
    UNKNOWN,
    UNSET,
    access_modes_text,
    age,
    container_cells,
    labels_text,
    since,
)

_ROLE_PREFIX = "node-role.kubernetes.io/"


def node(document: Document, now: float) -> list[Any]:
    """A node."""
    status = document.get("status", {})
    info = status.get("nodeInfo", {})
    ready = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if document["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    addresses = {each["type"]: each["address"] for each in reversed(status.get("addresses", ()))}
    return [
        document["metadata"]["name"],
        ",".join(words),
        ",".join(_roles(document)) or NONE,
        age(document, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(document: Document) -> list[str]:
    found = set()
    for key, value in document["metadata"].get("labels", {}).items():
        if key.startswith(_ROLE_PREFIX) and key != _ROLE_PREFIX:
            found.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return sorted(found)


def namespace(document: Document, now: float) -> list[Any]:
    """A namespace."""
    return [document["metadata"]["name"], look(document, "status", "phase") or "", age(document, now)]


def service(document: Document, now: float) -> list[Any]:
    """A service."""
    spec = document["spec"]
    ports = [
        f"{each['port']}:{each['nodePort']}/{each['protocol']}"
        if each.get("nodePort")
        else f"{each['port']}/{each['protocol']}"
        for each in spec.get("ports", ())
    ]
    return [
        document["metadata"]["name"],
        spec.get("type", ""),
        (spec.get("clusterIPs") or [NONE])[0],
        _external(document),
        ",".join(ports) or NONE,
        age(document, now),
        labels_text(spec.get("selector")),
    ]


def _external(document: Document) -> str:
    spec = document["spec"]
    given = list(spec.get("externalIPs", ()))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            ingress = look(document, "status", "loadBalancer", "ingress") or ()
            found = sorted({each.get("ip") or each.get("hostname", "") for each in ingress} - {""})
            return ",".join([*found, *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def volume(document: Document, now: float) -> list[Any]:
    """A PersistentVolume."""
    spec, status, metadata = document["spec"], document.get("status", {}), document["metadata"]
    claim = spec.get("claimRef")
    return [
        metadata["name"],
        look(spec, "capacity", "storage") or "0",
        access_modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        age(document, now),
        spec.get("volumeMode", UNSET),
    ]


def claim(document: Document, now: float) -> list[Any]:
    """A PersistentVolumeClaim."""
    spec, status, metadata = document["spec"], document.get("status", {}), document["metadata"]
    bound = spec.get("volumeName", "")
    return [
        metadata["name"],
        "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        bound,
        (look(status, "capacity", "storage") or "0") if bound else "",
        access_modes_text(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        age(document, now),
        spec.get("volumeMode", UNSET),
    ]


def event(document: Document, now: float) -> list[Any]:
    """An event, in the form of the core group."""
    first = since(document.get("firstTimestamp") or document.get("eventTime"), now)
    last = since(document["lastTimestamp"], now) if document.get("lastTimestamp") else first
    series, count = document.get("series"), document.get("count") or 1
    if series:
        last, count = since(series.get("lastObservedTime"), now), series.get("count", 0)
    target = document.get("involvedObject", {})
    source = document.get("source", {})
    component = source.get("component") or document.get("reportingComponent", "")
    host = source.get("host") or document.get("reportingInstance", "")
    name = target.get("name")
    return [
        last,
        document.get("type", ""),
        document.get("reason", ""),
        target.get("kind", "").lower() + (f"/{name}" if name else ""),
        target.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        document.get("message", "").strip(),
        first,
        count,
        document["metadata"]["name"],
    ]


def config_map(document: Document, now: float) -> list[Any]:
    """A ConfigMap."""
    size = len(document.get("data", {})) + len(document.get("binaryData", {}))
    return [document["metadata"]["name"], size, age(document, now)]


def secret(document: Document, now: float) -> list[Any]:
    """A Secret."""
    size = len(document.get("data", {}))
    return [document["metadata"]["name"], document.get("type", ""), size, age(document, now)]


def endpoints(document: Document, now: float) -> list[Any]:
    """An Endpoints object."""
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in document.get("subsets", ())
        for port in subset.get("ports", ())
        for address in subset.get("addresses", ())
    ]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [document["metadata"]["name"], shown or NONE, age(document, now)]


def replication_controller(document: Document, now: float) -> list[Any]:
    """A ReplicationController."""
    spec, status = document["spec"], document.get("status", {})
    names, images = container_cells(look(spec, "template", "spec", "containers") or ())
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


def pod_template(document: Document, _now: float) -> list[Any]:
    """A PodTemplate."""
    template = document["template"]
    names, images = container_cells(template["spec"].get("containers", ()))
    return [document["metadata"]["name"], names, images, labels_text(look(template, "metadata", "labels"))]


def resource_quota(document: Document, now: float) -> list[Any]:
    """A ResourceQuota."""
    status = document.get("status", {})
    hard, used = status.get("hard", {}), status.get("used", {})
    requests = [f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard) if not key.startswith("limits.")]
    limits = [f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard) if key.startswith("limits.")]
    return [document["metadata"]["name"], ", ".join(requests), ", ".join(limits), age(document, now)]
