"""What everything that is neither a pod nor a workload means where it says nothing."""

from mooring.apiserver.documents import Document
from mooring.apiserver.pod_defaults import set_template_defaults


def config_map(document: Document) -> None:
    """Kubernetes writes no empty data, so there is nothing to fill in; the immutable flag stays absent."""
    if not document.get("data", True):
        del document["data"]


def csi_driver(document: Document) -> None:
    """Complete a CSIDriver."""
    spec = document["spec"]
    for key, value in (
        ("attachRequired", True),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("podInfoOnMount", False),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
        ("storageCapacity", False),
    ):
        spec.setdefault(key, value)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def custom_resource_definition(document: Document) -> None:
    """Complete a CustomResourceDefinition."""
    spec = document["spec"]
    names = spec["names"]
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def endpoints(document: Document) -> None:
    """Complete an Endpoints object."""
    for subset in document.get("subsets", ()):
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def endpoint_slice(document: Document) -> None:
    """Complete an EndpointSlice."""
    for port in document.get("ports", ()):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def event(document: Document) -> None:
    """Complete an Event, in the form of the core group."""
    document.setdefault("metadata", {})
    document.setdefault("source", {})
    document.setdefault("reportingComponent", "")
    document.setdefault("reportingInstance", "")
    for key in ("firstTimestamp", "lastTimestamp", "eventTime"):
        document.setdefault(key, None)


def ingress(document: Document) -> None:
    """Complete an Ingress."""
    document["status"].setdefault("loadBalancer", {})


def limit_range(document: Document) -> None:
    """Complete a LimitRange."""
    for each in document["spec"].get("limits", ()):
        if each.get("type") != "Container":
            continue
        default = {**each.get("max", {}), **each.get("default", {})}
        request = {**each.get("min", {}), **default, **each.get("defaultRequest", {})}
        each.update({key: value for key, value in (("default", default), ("defaultRequest", request)) if value})


def namespace(document: Document) -> None:
    """Complete a Namespace."""
    name = document["metadata"].get("name")
    if name:
        document["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    document["status"].setdefault("phase", "Active")


def network_policy(document: Document) -> None:
    """Complete a NetworkPolicy."""
    spec = document["spec"]
    spec.setdefault("podSelector", {})
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if "egress" in spec else ["Ingress"])
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def node(document: Document) -> None:
    """Complete a Node."""
    status = document["status"]
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    for each in status.get("conditions", ()):
        each.setdefault("lastHeartbeatTime", None)
        each.setdefault("lastTransitionTime", None)
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for key in _NODE_INFO:
        info.setdefault(key, "")


#: What Kubernetes writes of a node's system, known or not.
_NODE_INFO = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def persistent_volume(document: Document) -> None:
    """Complete a PersistentVolume."""
    document["status"].setdefault("phase", "Pending")
    document["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
    document["spec"].setdefault("volumeMode", "Filesystem")
    if "hostPath" in document["spec"]:
        document["spec"]["hostPath"].setdefault("type", "")


def persistent_volume_claim(document: Document) -> None:
    """Complete a PersistentVolumeClaim."""
    document["status"].setdefault("phase", "Pending")
    document["spec"].setdefault("volumeMode", "Filesystem")


def pod_template(document: Document) -> None:
    """Complete a PodTemplate object."""
    set_template_defaults(document["template"])


def priority_class(document: Document) -> None:
    """Complete a PriorityClass."""
    document.setdefault("value", 0)
    document.setdefault("preemptionPolicy", "PreemptLowerPriority")


def resource_claim(document: Document) -> None:
    """Complete a ResourceClaim."""
    _device_requests(document["spec"])


def resource_claim_template(document: Document) -> None:
    """Complete a ResourceClaimTemplate."""
    _device_requests(document["spec"].setdefault("spec", {}))


def _device_requests(spec: Document) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        for each in (request.get("exactly"), *request.get("firstAvailable", ())):
            if each is not None and each.setdefault("allocationMode", "ExactCount") == "ExactCount":
                each.setdefault("count", 1)


def role_binding(document: Document) -> None:
    """Complete a RoleBinding or ClusterRoleBinding."""
    if document["roleRef"]:
        document["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in document.get("subjects", ()):
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def secret(document: Document) -> None:
    """Complete a Secret."""
    document.setdefault("type", "Opaque")
    plain = document.pop("stringData", None)
    if plain:
        import base64

        coded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        document["data"] = {**document.get("data", {}), **coded}


def storage_class(document: Document) -> None:
    """Complete a StorageClass."""
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")
