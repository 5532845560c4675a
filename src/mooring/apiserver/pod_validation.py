"""Validation of pods and pod templates, and of changes to pods."""

from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError, duplicate, forbidden_field, invalid, missing_reference, required
from mooring.apiserver.field_rules import choice, immutable, port_number
from mooring.apiserver.object_meta import labels_errors
from mooring.apiserver.object_names import dns_label, dns_subdomain
from mooring.apiserver.resource_amounts import amount_errors, requirements_errors
from mooring.apiserver.scheduling_fields import placement_errors

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_MESSAGES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_UPDATABLE: Final = (
    "`spec.containers[*].image`", "`spec.initContainers[*].image`", "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)  # fmt: skip
_NO_POD: Final = "a null labelSelector results in matching no pod"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_errors(document: Document) -> list[FieldError]:
    """Return the errors of a pod."""
    spec = document["spec"]
    errors = _pod_spec_errors(spec, "spec")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden_field("spec.nodeName", detail))
    return errors


def template_errors(template: Document, path: str) -> list[FieldError]:
    """Return the errors of a pod template."""
    metadata = template.get("metadata") or {}
    errors = labels_errors(metadata.get("labels") or {}, f"{path}.metadata.labels")
    return errors + _pod_spec_errors(template.get("spec") or {}, f"{path}.spec")


def _pod_spec_errors(spec: Document, path: str) -> list[FieldError]:
    volumes, errors = _volumes(spec.get("volumes") or (), f"{path}.volumes")
    claims = frozenset(each.get("name", "") for each in spec.get("resourceClaims") or ())
    containers = spec.get("containers") or ()
    if not containers:
        errors.append(required(f"{path}.containers"))
    names: set[str] = set()
    for kind in ("containers", "initContainers"):
        for index, each in enumerate(spec.get(kind) or ()):
            errors += _container(each, f"{path}.{kind}[{index}]", volumes, claims, names)
    if spec.get("resources"):
        errors += requirements_errors(spec["resources"], f"{path}.resources", claims)
    errors += choice(spec.get("restartPolicy"), f"{path}.restartPolicy", _RESTARTS, needed=True)
    errors += choice(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS, needed=True)
    errors += labels_errors(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    errors += placement_errors(spec, path)
    return errors + _small_fields(spec, path)


def _small_fields(spec: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    rules: tuple[tuple[str, Callable[[str], tuple[str, ...]]], ...] = (
        ("serviceAccountName", dns_subdomain),
        ("nodeName", dns_subdomain),
        ("hostname", dns_label),
        ("subdomain", dns_label),
        ("priorityClassName", dns_subdomain),
        ("runtimeClassName", dns_subdomain),
    )
    for key, rule in rules:
        if spec.get(key):
            errors += [invalid(f"{path}.{key}", spec[key], fault) for fault in rule(spec[key])]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    errors += choice(spec.get("preemptionPolicy"), f"{path}.preemptionPolicy", _PREEMPTION)
    for name, amount in (spec.get("overhead") or {}).items():
        errors += amount_errors(name, amount, f"{path}.overhead[{name}]")
    return errors


def _volumes(volumes: Any, path: str) -> tuple[set[str], list[FieldError]]:
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, each in enumerate(volumes):
        place = f"{path}[{index}]"
        name = each.get("name", "")
        sources = [key for key in each if key != "name"]
        if not name:
            errors.append(required(f"{place}.name"))
        elif faults := dns_label(name):
            errors += [invalid(f"{place}.name", name, fault) for fault in faults]
        elif name in names:
            errors.append(duplicate(f"{place}.name", name))
        for extra in sources[1:]:
            errors.append(forbidden_field(f"{place}.{extra}", "may not specify more than 1 volume type"))
        if "persistentVolumeClaim" in each and not each["persistentVolumeClaim"].get("claimName"):
            errors.append(required(f"{place}.persistentVolumeClaim.claimName"))
        if "hostPath" in each and not each["hostPath"].get("path"):
            errors.append(required(f"{place}.hostPath.path"))
        names.add(name)
    return names, errors


def _container(
    container: Document, path: str, volumes: set[str], claims: frozenset[str], names: set[str]
) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += [invalid(f"{path}.name", name, fault) for fault in dns_label(name)]
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    image = container.get("image", "")
    if not image:
        errors.append(required(f"{path}.image"))
    elif image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    errors += choice(container.get("terminationMessagePolicy"), f"{path}.terminationMessagePolicy", _MESSAGES)
    errors += _ports(container.get("ports") or (), f"{path}.ports")
    for index, each in enumerate(container.get("env") or ()):
        if not each.get("name"):
            errors.append(required(f"{path}.env[{index}].name"))
        if each.get("value") and each.get("valueFrom"):
            detail = "may not be specified when `value` is not empty"
            errors.append(invalid(f"{path}.env[{index}].valueFrom", "", detail))
    errors += _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    errors += choice(container.get("imagePullPolicy"), f"{path}.imagePullPolicy", _PULLS)
    return errors + requirements_errors(container.get("resources") or {}, f"{path}.resources", claims)


def _ports(ports: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, each in enumerate(ports):
        place = f"{path}[{index}]"
        name = each.get("name")
        if name and name in names:
            errors.append(duplicate(f"{place}.name", name))
        elif name and len(name) > 15:
            errors.append(invalid(f"{place}.name", name, "must be no more than 15 characters"))
        names.add(name or "")
        if not each.get("containerPort"):
            errors.append(required(f"{place}.containerPort"))
        else:
            errors += port_number(each["containerPort"], f"{place}.containerPort")
        if each.get("hostPort"):
            errors += port_number(each["hostPort"], f"{place}.hostPort")
        errors += choice(each.get("protocol"), f"{place}.protocol", _PROTOCOLS, needed=True)
    return errors


def _mounts(mounts: Any, path: str, volumes: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, each in enumerate(mounts):
        place = f"{path}[{index}]"
        if not each.get("name"):
            errors.append(required(f"{place}.name"))
        if each.get("name", "") not in volumes:
            errors.append(missing_reference(f"{place}.name", each.get("name", "")))
        if not each.get("mountPath"):
            errors.append(required(f"{place}.mountPath"))
        elif each["mountPath"] in seen:
            errors.append(invalid(f"{place}.mountPath", each["mountPath"], "must be unique"))
        seen.add(each.get("mountPath", ""))
    return errors


def pod_update_errors(new: Document, old: Document) -> list[FieldError]:
    """Return errors for changes of immutable fields, which are most of the spec."""
    fresh, before = new["spec"], old["spec"]
    for kind in ("containers", "initContainers"):
        if len(fresh.get(kind) or ()) != len(before.get(kind) or ()):
            return [forbidden_field(f"spec.{kind}", "pod updates may not add or remove containers")]
    errors = _deadline(fresh, before)
    errors += _only_added_tolerations(fresh.get("tolerations") or [], before.get("tolerations") or [])
    gates = [each.get("name") for each in before.get("schedulingGates") or ()]
    for index, each in enumerate(fresh.get("schedulingGates") or ()):
        if each.get("name") not in gates:
            detail = "only deletion is allowed, but found new scheduling gate '" + each.get("name", "") + "'"
            errors.append(forbidden_field(f"spec.schedulingGates[{index}].name", detail))
    if gates:
        errors += _gated(fresh, before)
    if _comparable(fresh, before, gated=bool(gates)) != _comparable(before, before, gated=bool(gates)):
        changed = sorted(key for key in {*fresh, *before} if fresh.get(key) != before.get(key))
        shown = ", ".join(f"spec.{key}" for key in changed)
        detail = f"pod updates may not change fields other than {','.join(_UPDATABLE)}\nchanged: {shown}"
        errors.append(forbidden_field("spec", detail))
    return errors


def _comparable(spec: Document, old: Document, *, gated: bool) -> Document:
    """Return the immutable part of a spec."""
    part = {
        key: value
        for key, value in spec.items()
        if key not in {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    }
    for kind in ("containers", "initContainers"):
        if kind in part:
            part[kind] = [{key: value for key, value in each.items() if key != "image"} for each in part[kind]]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        part["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if gated:
        part.pop("nodeSelector", None)
        affinity = {key: value for key, value in (part.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
        if affinity:
            part["affinity"] = affinity
    return part


def _deadline(fresh: Document, before: Document) -> list[FieldError]:
    path, new, old = (
        "spec.activeDeadlineSeconds",
        fresh.get("activeDeadlineSeconds"),
        before.get("activeDeadlineSeconds"),
    )
    if old is None:
        return []
    if new is None:
        return [invalid(path, None, "must not update from a positive integer to nil value")]
    return [invalid(path, new, "must be less than or equal to previous value")] if new > old else []


def _only_added_tolerations(fresh: list[Document], before: list[Document]) -> list[FieldError]:
    def kept(each: Document) -> Document:
        return {key: value for key, value in each.items() if key != "tolerationSeconds"}

    present = [kept(each) for each in fresh]
    if all(kept(each) in present for each in before):
        return []
    return [forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _gated(fresh: Document, before: Document) -> list[FieldError]:
    """Return errors for changes of a gated pod other than additional node selectors."""
    new, old = fresh.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(new.get(key) != value for key, value in old.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [invalid("spec.nodeSelector", new, detail)]
    return []


def pod_status_errors(new: Document, old: Document) -> list[FieldError]:
    """Return errors for changes of the status that are not allowed."""
    fresh, before = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    nominated = fresh.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        path = "status.nominatedNodeName"
        errors += [invalid(path, nominated, fault) for fault in dns_subdomain(nominated)]
        if old["spec"].get("nodeName"):
            errors.append(forbidden_field(path, "may not be set on pods that are already bound to a node"))
    return errors + immutable(fresh.get("qosClass"), before.get("qosClass"), "status.qosClass")


def pod_warnings(spec: Document, path: str) -> list[str]:
    """Return the warnings about the spec of a pod or a template."""
    found = [
        f"{path}.topologySpreadConstraints[{index}].labelSelector: {_NO_POD}"
        for index, each in enumerate(spec.get("topologySpreadConstraints") or ())
        if "labelSelector" not in each
    ]
    for kind in ("podAffinity", "podAntiAffinity"):
        given = nested_field(spec, "affinity", kind) or {}
        found += [
            f"{path}.affinity.{kind}.{_REQUIRED}[{index}].labelSelector: {_NO_POD}"
            for index, each in enumerate(given.get(_REQUIRED) or ())
            if "labelSelector" not in each
        ]
        found += [
            f"{path}.affinity.{kind}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_POD}"
            for index, each in enumerate(given.get(_PREFERRED) or ())
            if "labelSelector" not in (each.get("podAffinityTerm") or {})
        ]
    return found


def pod_subresource_errors(subresource: str, new: Document, old: Document) -> list[FieldError]:
    """Return errors for changes that a subresource does not allow."""
    if subresource == "resize":
        if _without_resources(new) == _without_resources(old):
            return []
        return [forbidden_field("spec", "only cpu and memory resources for containers are mutable")]
    fresh, before = new.get("ephemeralContainers") or [], old.get("ephemeralContainers") or []
    errors: list[FieldError] = []
    if {**new, "ephemeralContainers": None} != {**old, "ephemeralContainers": None}:
        errors.append(forbidden_field("spec", "only ephemeral containers may be added here"))
    if fresh[: len(before)] != before:
        detail = "existing ephemeral containers may not be changed or removed"
        errors.append(forbidden_field("spec.ephemeralContainers", detail))
    return errors


def _without_resources(spec: Document) -> Document:
    kinds = [kind for kind in ("containers", "initContainers") if spec.get(kind)]
    return {**spec, **{kind: [{**each, "resources": None} for each in spec[kind]] for kind in kinds}}
