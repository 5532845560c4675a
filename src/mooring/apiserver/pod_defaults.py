"""Defaults of pods and pod templates, and the quality-of-service class of a pod."""

from typing import Any, Final

import msgspec

from mooring.api.pod import Pod, PodSpec
from mooring.api.quantity import format_quantity
from mooring.api.resources import CPU, MEMORY, Bounds, is_hugepages, is_pod_level, pod_requests, qos_of
from mooring.apiserver.documents import Document
from mooring.apiserver.quantities import canonical_quantity

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_DEFAULT_MODES: Final = ("secret", "configMap", "downwardAPI", "projected")
_CONTAINER_KINDS: Final = ("containers", "initContainers", "ephemeralContainers")


def set_pod_defaults(document: Document) -> None:
    """Set the defaults of a pod in place."""
    spec = document["spec"]
    _set_pod_spec_defaults(spec)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    _set_pod_level_defaults(spec)
    spec.setdefault("enableServiceLinks", True)
    for each in (document.get("status") or {}).get("conditions", ()):
        each.setdefault("lastProbeTime", None)
        each.setdefault("lastTransitionTime", None)


def set_template_defaults(template: Document) -> None:
    """Set the defaults of a pod template in place. Unlike those of a pod, its requests are not derived from limits."""
    template.setdefault("metadata", {})
    _set_pod_spec_defaults(template.setdefault("spec", {}))


def _set_pod_spec_defaults(spec: Document) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccount" in spec or "serviceAccountName" in spec:
        account = spec.get("serviceAccountName") or spec.get("serviceAccount")
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for kind in _CONTAINER_KINDS:
        for each in spec.get(kind, ()):
            _set_container_defaults(each)
            if spec.get("hostNetwork"):
                for port in each.get("ports", ()):
                    port.setdefault("hostPort", port.get("containerPort"))
    for each in spec.get("volumes", ()):
        _set_volume_defaults(each)


def _set_container_defaults(container: Document) -> None:
    for amounts in container.setdefault("resources", {}).values():
        if isinstance(amounts, dict):
            _canonicalize(amounts)
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for kind in _PROBES:
        if kind in container:
            _set_probe_defaults(container[kind])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict):
            _set_http_get_defaults(handler)
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


def _set_probe_defaults(probe: Document) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(key):
            probe[key] = value
    _set_http_get_defaults(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _set_http_get_defaults(handler: Document) -> None:
    request = handler.get("httpGet")
    if request is not None:
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _set_volume_defaults(volume: Document) -> None:
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
    _set_disk_defaults(volume)


def _downward(volume: Document) -> list[Any]:
    sources = volume.get("projected", {}).get("sources", ())
    return [each["downwardAPI"].get("items", ()) for each in sources if "downwardAPI" in each]


def _set_disk_defaults(volume: Document) -> None:
    if "rbd" in volume:
        for key, value in (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")):
            volume["rbd"].setdefault(key, value)
    if "iscsi" in volume:
        volume["iscsi"].setdefault("iscsiInterface", "default")
    if "azureDisk" in volume:
        for key, value in (("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")):
            volume["azureDisk"].setdefault(key, value)
        volume["azureDisk"].setdefault("readOnly", False)


def _canonicalize(amounts: Document) -> None:
    """Convert quantities in place to the form in which the API server stores them."""
    for name, amount in amounts.items():
        amounts[name] = canonical_quantity(amount)


def _set_pod_level_defaults(spec: Document) -> None:
    """Derive the requests and limits of the pod as a whole from those of its containers."""
    resources = spec.get("resources") or {}
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    if not requests and not limits:
        return
    for name, amount in _total(spec, "limits").items():
        if is_hugepages(name) and name not in requests:
            limits.setdefault(name, amount)
    if limits:
        for name, amount in _total(spec, "requests").items():
            if name in {CPU, MEMORY}:
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, amount)
    for kind, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            _canonicalize(amounts)
            resources[kind] = amounts


def _total(spec: Document, kind: str) -> dict[str, str]:
    """Return the requests or limits of all containers together, as the scheduler adds up requests."""
    written: dict[str, Any] = {}

    def counted(container: Document) -> Document:
        amounts = container["resources"].get(kind) or {}
        written.update({name: amount for name, amount in amounts.items() if name not in written})
        return {**container, "resources": {"requests": amounts}}

    containers = {key: [counted(each) for each in spec.get(key, ())] for key in _CONTAINER_KINDS[:2]}
    total = pod_requests(Pod(spec=msgspec.convert(containers, PodSpec)))
    return {
        name: format_quantity(amount, milli=name == CPU, binary=str(written[name]).endswith("i"))
        for name, amount in total.items()
    }


def qos_class(spec: Document) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`."""
    resources = spec.get("resources")
    if resources and (resources.get("requests") or resources.get("limits")):
        return qos_of([_bounds(resources)])
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    return qos_of([_bounds(each.get("resources") or {}) for each in containers])


def _bounds(resources: Document) -> Bounds:
    return resources.get("requests"), resources.get("limits")
