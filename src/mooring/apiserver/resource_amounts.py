"""Validation of resource requests, limits and amounts."""

from typing import Final

from mooring.api.label_validation import label_key_errors
from mooring.api.quantity import QuantityLike, parse_quantity
from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import NEGATIVE, FieldError, forbidden_field, invalid, required
from mooring.apiserver.quantities import canonical_quantity

_STANDARD: Final = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_FOR_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE: Final = "hugepages-"
_NATIVE_DOMAIN: Final = "kubernetes.io/"


def requirements_errors(resources: Document, path: str, claims: frozenset[str] = frozenset()) -> list[FieldError]:
    """Return the errors of requests and limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: list[FieldError] = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            errors += _name_errors(name, f"{path}.{kind}[{name}]") + amount_errors(
                name, amount, f"{path}.{kind}[{name}]"
            )
    for name, amount in requests.items():
        errors += _against_limit(name, amount, limits, path)
    names = {*limits, *requests}
    if any(each.startswith(_HUGE) for each in names) and not names & {"cpu", "memory"}:
        errors.append(forbidden_field(path, "HugePages require cpu or memory"))
    for index, each in enumerate(resources.get("claims") or ()):
        if not each.get("name"):
            errors.append(required(f"{path}.claims[{index}].name"))
        elif each["name"] not in claims:
            errors.append(
                FieldError("FieldValueNotFound", f"{path}.claims[{index}].name", f'Not found: "{each["name"]}"')
            )
    return errors


def _against_limit(name: str, amount: QuantityLike, limits: Document, path: str) -> list[FieldError]:
    if name not in limits:
        if is_overcommittable(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    asked, most = parse_quantity(amount), parse_quantity(limits[name])
    if not is_overcommittable(name):
        if asked.exceeds(most) or most.exceeds(asked):
            return [_invalid_amount(f"{path}.requests", amount, f"must be equal to {name} limit of {limits[name]}")]
    elif asked.exceeds(most):
        detail = f"must be less than or equal to {name} limit of {limits[name]}"
        return [_invalid_amount(f"{path}.requests", amount, detail)]
    return []


def is_native(name: str) -> bool:
    """Return whether Kubernetes defines the resource."""
    return "/" not in name or _NATIVE_DOMAIN in name


def is_overcommittable(name: str) -> bool:
    """Return whether limits may exceed requests."""
    return is_native(name) and not name.startswith(_HUGE)


def _name_errors(name: str, path: str) -> list[FieldError]:
    if faults := label_key_errors(name):
        return [invalid(path, name, fault) for fault in faults]
    if "/" not in name:
        errors: list[FieldError] = []
        if name not in _STANDARD and not name.startswith(_HUGE):
            errors.append(invalid(path, name, "must be a standard resource type or fully qualified"))
        if name not in _FOR_CONTAINERS and not name.startswith(_HUGE):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
        return errors
    if not is_native(name) and (name.startswith("requests.") or label_key_errors(f"requests.{name}")):
        return [invalid(path, name, "doesn't follow extended resource name standard")]
    return []


def pod_amount_errors(spec: Document, path: str) -> list[FieldError]:
    """Return the errors of all amounts in the spec of a pod."""
    claims = frozenset(each.get("name", "") for each in spec.get("resourceClaims") or ())
    errors: list[FieldError] = []
    for kind in ("containers", "initContainers"):
        for index, each in enumerate(spec.get(kind) or ()):
            errors += requirements_errors(each.get("resources") or {}, f"{path}.{kind}[{index}].resources", claims)
    errors += requirements_errors(spec.get("resources") or {}, f"{path}.resources", claims)
    for name, amount in (spec.get("overhead") or {}).items():
        errors += amount_errors(name, amount, f"{path}.overhead[{name}]")
    return errors


def amount_errors(name: str, amount: QuantityLike, path: str) -> list[FieldError]:
    """Return the errors of an amount of a resource."""
    value = parse_quantity(amount)
    if value.unscaled < 0:
        return [_invalid_amount(path, amount, NEGATIVE)]
    whole = name in {"pods", "services", "secrets", "configmaps"} or ("/" in name and not is_native(name))
    if whole and value.scaled(-3) % 1000:
        return [_invalid_amount(path, amount, "must be an integer")]
    return []


def _invalid_amount(path: str, amount: QuantityLike, detail: str) -> FieldError:
    return invalid(path, canonical_quantity(amount), detail)
