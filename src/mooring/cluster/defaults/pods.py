"""What a pod means where it says nothing."""

from typing import Any, Final

from mooring.cluster.documents import Document

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_DEFAULT_MODES: Final = ("secret", "configMap", "downwardAPI", "projected")
_OVERCOMMITTED: Final = ("cpu", "memory")


def pod(document: Document) -> None:
    """Complete a pod."""
    spec = document["spec"]
    pod_spec(spec)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    _pod_level_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    for each in (document.get("status") or {}).get("conditions", ()):
        each.setdefault("lastProbeTime", None)
        each.setdefault("lastTransitionTime", None)


def pod_template(document: Document) -> None:
    """Complete a PodTemplate object."""
    template(document["template"])


def template(document: Document) -> None:
    """Complete the pod template of a workload. Less than for a pod: requests stay as they were written."""
    document.setdefault("metadata", {})
    pod_spec(document.setdefault("spec", {}))


def pod_spec(spec: Document) -> None:
    """Complete what pods and pod templates share."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccount" in spec or "serviceAccountName" in spec:
        account = spec.get("serviceAccountName") or spec.get("serviceAccount")
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for each in spec.get(kind, ()):
            _container(each)
            if spec.get("hostNetwork"):
                for port in each.get("ports", ()):
                    port.setdefault("hostPort", port.get("containerPort"))
    for each in spec.get("volumes", ()):
        _volume(each)


def _container(container: Document) -> None:
    container.setdefault("resources", {})
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for kind in _PROBES:
        if kind in container:
            _probe(container[kind])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict):
            _http_get(handler)
    for each in container.get("env", ()):
        reference = each.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _is_latest(image: str) -> bool:
    name, _, _digest = image.partition("@")
    if _digest:
        return False
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _probe(probe: Document) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):
            probe[key] = value
    _http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _http_get(handler: Document) -> None:
    request = handler.get("httpGet")
    if request is not None:
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _volume(volume: Document) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for kind in _DEFAULT_MODES:
        if kind in volume:
            volume[kind].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    ephemeral = volume.get("ephemeral", {}).get("volumeClaimTemplate", {}).get("spec")
    if ephemeral is not None:
        ephemeral.setdefault("volumeMode", "Filesystem")
    for items in (volume.get("downwardAPI", {}).get("items", ()), *(_downward(volume))):
        for item in items:
            if "fieldRef" in item:
                item["fieldRef"].setdefault("apiVersion", "v1")
    _disks(volume)


def _downward(volume: Document) -> list[Any]:
    sources = volume.get("projected", {}).get("sources", ())
    return [each["downwardAPI"].get("items", ()) for each in sources if "downwardAPI" in each]


def _disks(volume: Document) -> None:
    if "rbd" in volume:
        for key, value in (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")):
            volume["rbd"].setdefault(key, value)
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    if "azureDisk" in volume:
        for key, value in (("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")):
            volume["azureDisk"].setdefault(key, value)
        volume["azureDisk"].setdefault("readOnly", False)


def _pod_level_requests(spec: Document) -> None:
    """A pod-level limit without a request asks for what the containers ask for, or else for the limit."""
    resources = spec.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    from mooring.api.quantity import ZERO, parse_quantity
    from mooring.cluster.schema.quantities import canonical_quantity

    requests = dict(resources.get("requests", {}))
    for name in _OVERCOMMITTED:
        asked = [
            each["resources"]["requests"][name]
            for each in spec.get("containers", ())
            if name in each["resources"].get("requests", {})
        ]
        if name not in requests and asked:
            total = ZERO
            for each in asked:
                total = total.plus(parse_quantity(each))
            requests[name] = canonical_quantity(asked[0]) if len(asked) == 1 else _written(total.scaled(-3), name)
    resources["requests"] = {**{k: v for k, v in limits.items() if k in _OVERCOMMITTED or "hugepages" in k}, **requests}


def _written(milli: int, name: str) -> str:
    from mooring.api.quantity import format_quantity

    if name == "cpu" or milli % 1000:
        return format_quantity(milli, milli=True)
    return format_quantity(milli // 1000, binary=True)
