"""What is wrong with nodes, volumes, classes, budgets and services."""

from typing import Final

from mooring.apiserver.documents import Document, look
from mooring.cluster.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from mooring.cluster.validation.common import (
    NEGATIVE,
    at_most_all,
    choice,
    immutable,
    int_or_percent,
    label_name,
    label_selector,
    port_number,
)
from mooring.cluster.validation.names import dns_label
from mooring.cluster.validation.placement import node_selector_errors, taints_errors
from mooring.cluster.validation.resources import amount_errors

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_HIGHEST: Final = 1_000_000_000
_SYSTEM: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def node_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a node."""
    errors = taints_errors(document["spec"].get("taints") or [], "metadata.taints")
    for kind in ("capacity", "allocatable"):
        for name, amount in (look(document, "status", kind) or {}).items():
            errors += amount_errors(name, amount, f"status.{kind}.{name}")
    return errors


def node_update_errors(new: Document, old: Document) -> list[FieldError]:
    """What of a node may not change once it is set."""
    errors: list[FieldError] = []
    for key, field in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        before = old["spec"].get(key)
        if before and new["spec"].get(key) != before:
            detail = f'node updates may not change {field} except from "" to valid'
            errors.append(forbidden_field(f"spec.{key}", detail))
    return errors


def priority_class_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a PriorityClass."""
    name, value = document["metadata"].get("name", ""), document.get("value", 0)
    errors = choice(document.get("preemptionPolicy"), "preemptionPolicy", _PREEMPTION)
    if name.startswith("system-"):
        if _SYSTEM.get(name) != value:
            why = (
                f"{name} is not a known system priority class"
                if name not in _SYSTEM
                else (f"value of {name} PriorityClass must be {_SYSTEM[name]}")
            )
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            errors.append(forbidden_field("metadata.name", detail))
    elif value > _HIGHEST:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        errors.append(forbidden_field("value", detail))
    return errors


def priority_class_update_errors(new: Document, old: Document) -> list[FieldError]:
    """A class keeps its value and its policy."""
    errors: list[FieldError] = []
    if new.get("value") != old.get("value"):
        errors.append(forbidden_field("value", "may not be changed in an update."))
    return errors + immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def budget_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a PodDisruptionBudget."""
    spec = document["spec"]
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            errors += int_or_percent(spec[key], f"spec.{key}") + at_most_all(spec[key], f"spec.{key}")
    errors += label_selector(spec.get("selector"), "spec.selector")
    policies = ("IfHealthyBudget", "AlwaysAllow")
    return errors + choice(spec.get("unhealthyPodEvictionPolicy"), "spec.unhealthyPodEvictionPolicy", policies)


def storage_class_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a StorageClass."""
    errors: list[FieldError] = [] if document.get("provisioner") else [required("provisioner")]
    errors += choice(document.get("reclaimPolicy"), "reclaimPolicy", ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    return errors + choice(document.get("volumeBindingMode"), "volumeBindingMode", modes)


def storage_class_update_errors(new: Document, old: Document) -> list[FieldError]:
    """What of a StorageClass may not change."""
    errors: list[FieldError] = []
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors += immutable(new.get(key), old.get(key), key)
    return errors


def claim_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a PersistentVolumeClaim."""
    spec = document["spec"]
    errors: list[FieldError] = []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    errors += [
        not_supported("spec.accessModes", each, _MODES) for each in spec.get("accessModes", ()) if each not in _MODES
    ]
    wanted = look(spec, "resources", "requests", "storage")
    if wanted is None:
        errors.append(required("spec.resources[storage]"))
    else:
        errors += amount_errors("storage", wanted, "spec.resources[storage]")
    errors += label_selector(spec.get("selector"), "spec.selector")
    return errors + choice(spec.get("volumeMode"), "spec.volumeMode", ("Block", "Filesystem"))


def claim_update_errors(new: Document, old: Document) -> list[FieldError]:
    """A claim may be bound and may grow; all else stays."""
    fresh, before = new["spec"], old["spec"]
    free = {"resources", "volumeAttributesClassName"} | ({"volumeName"} if not before.get("volumeName") else set())
    if not before.get("storageClassName"):
        free.add("storageClassName")
    if {k: v for k, v in fresh.items() if k not in free} != {k: v for k, v in before.items() if k not in free}:
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        return [forbidden_field("spec", detail)]
    from mooring.api.quantity import parse_quantity

    new_size, old_size = (look(each, "resources", "requests", "storage") or "0" for each in (fresh, before))
    if parse_quantity(old_size).exceeds(parse_quantity(new_size)):
        return [forbidden_field("spec.resources.requests.storage", "field can not be less than previous value")]
    if new_size != old_size and look(old, "status", "phase") != "Bound":
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        return [forbidden_field("spec", detail)]
    return []


_SOURCELESS: Final = frozenset(
    {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
)


def volume_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a PersistentVolume."""
    spec = document["spec"]
    errors: list[FieldError] = []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes"))
    errors += [
        not_supported("spec.accessModes", each, _MODES) for each in spec.get("accessModes", ()) if each not in _MODES
    ]
    capacity = spec.get("capacity") or {}
    if not capacity:
        errors += [required("spec.capacity"), not_supported("spec.capacity", {}, ["storage"])]
    elif set(capacity) != {"storage"}:
        errors.append(not_supported("spec.capacity", sorted(capacity), ["storage"]))
    else:
        errors += amount_errors("storage", capacity["storage"], "spec.capacity[storage]")
        if capacity["storage"] == "0":
            errors.append(invalid("spec.capacity[storage]", "0", "must be greater than zero"))
    sources = [key for key in spec if key not in _SOURCELESS]
    if not sources:
        errors.append(required("spec", "must specify a volume type"))
    for extra in sources[1:]:
        errors.append(forbidden_field(f"spec.{extra}", "may not specify more than 1 volume type"))
    policies = ("Delete", "Recycle", "Retain")
    errors += choice(spec.get("persistentVolumeReclaimPolicy"), "spec.persistentVolumeReclaimPolicy", policies)
    affinity = look(spec, "nodeAffinity", "required")
    if affinity is not None:
        errors += node_selector_errors(affinity, "spec.nodeAffinity.required")
    elif "local" in spec:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors


def volume_update_errors(new: Document, old: Document) -> list[FieldError]:
    """A volume's source may not change after it was created."""

    def source(document: Document) -> Document:
        return {key: value for key, value in document["spec"].items() if key not in _SOURCELESS}

    errors: list[FieldError] = []
    if source(new) != source(old):
        detail = "spec.persistentvolumesource is immutable after creation"
        errors.append(forbidden_field("spec.persistentvolumesource", detail))
    errors += immutable(new["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")
    if old["spec"].get("nodeAffinity"):
        errors += immutable(new["spec"].get("nodeAffinity"), old["spec"].get("nodeAffinity"), "spec.nodeAffinity")
    return errors


def service_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a Service."""
    spec = document["spec"]
    errors: list[FieldError] = []
    ports = spec.get("ports") or ()
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required("spec.ports"))
    names: set[str] = set()
    for index, each in enumerate(ports):
        place = f"spec.ports[{index}]"
        if len(ports) > 1 and not each.get("name"):
            errors.append(required(f"{place}.name"))
        elif each.get("name") and each["name"] in names:
            errors.append(duplicate(f"{place}.name", each["name"]))
        names.add(each.get("name", ""))
        errors += port_number(each.get("port", 0), f"{place}.port")
        if isinstance(each.get("targetPort"), int):
            errors += port_number(each["targetPort"], f"{place}.targetPort")
        errors += choice(each.get("protocol"), f"{place}.protocol", ("SCTP", "TCP", "UDP"), needed=True)
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    return errors + choice(spec.get("type"), "spec.type", kinds, needed=True)


def service_update_errors(new: Document, old: Document) -> list[FieldError]:
    """A service keeps its address."""
    before, after = old["spec"], new["spec"]
    if before.get("type") == "ExternalName" or after.get("type") == "ExternalName":
        return []
    if after.get("clusterIP") == before.get("clusterIP"):
        return []
    detail = "field is immutable" if after.get("clusterIP") else "primary clusterIP can not be unset"
    return [invalid("spec.clusterIPs[0]", after.get("clusterIP", ""), detail)]


def config_update_errors(new: Document, old: Document) -> list[FieldError]:
    """An immutable ConfigMap or Secret stays what it is."""
    errors: list[FieldError] = []
    if old.get("immutable"):
        if not new.get("immutable"):
            errors.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
        errors.extend(
            forbidden_field(key, "field is immutable when `immutable` is set")
            for key in ("data", "binaryData")
            if new.get(key) != old.get(key)
        )
    if new.get("kind") == "Secret":
        errors += immutable(new.get("type"), old.get("type"), "type")
    return errors


def lease_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a Lease."""
    spec = document.get("spec") or {}
    errors: list[FieldError] = []
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if spec.get("leaseTransitions", 0) < 0:
        errors.append(invalid("spec.leaseTransitions", spec["leaseTransitions"], NEGATIVE))
    return errors


def binding_update_errors(new: Document, old: Document) -> list[FieldError]:
    """A role binding keeps its role."""
    if new.get("roleRef") == old.get("roleRef"):
        return []
    role = new.get("roleRef") or {}
    shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
    return [invalid("roleRef", shown, "cannot change roleRef")]


def binding_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a RoleBinding or ClusterRoleBinding."""
    role = document.get("roleRef") or {}
    kinds = ("ClusterRole",) if document.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    errors = choice(role.get("kind"), "roleRef.kind", kinds, needed=True)
    return errors if role.get("name") else [*errors, required("roleRef.name")]


def runtime_class_errors(document: Document) -> list[FieldError]:
    """All that is wrong with a RuntimeClass."""
    handler = document.get("handler", "")
    return [invalid("handler", handler, fault) for fault in dns_label(handler)]


def event_errors(document: Document) -> list[FieldError]:
    """All that is wrong with an event: it must be in the namespace of what it is about."""
    target = (document.get("involvedObject") or {}).get("namespace", "")
    namespace = document["metadata"].get("namespace", "")
    if target and target != namespace:
        return [invalid("involvedObject.namespace", target, "does not match event.namespace")]
    if not target and namespace not in {"", "default", "kube-system"}:
        return [invalid("involvedObject.namespace", target, "does not match event.namespace")]
    return []


def new_event_errors(document: Document) -> list[FieldError]:
    """All that is wrong with an event of events.k8s.io, which must say more than one of the core group."""
    errors: list[FieldError] = [] if document.get("eventTime") else [required("eventTime")]
    controller = document.get("reportingController", "")
    if not controller:
        errors.append(required("reportingController"))
    errors += label_name(controller, "reportingController")
    errors += [required(key) for key in ("reportingInstance", "action", "reason") if not document.get(key)]
    kind = document.get("type", "")
    return errors if kind in {"Normal", "Warning"} else [*errors, invalid("type", "", f"has invalid value: {kind}")]
