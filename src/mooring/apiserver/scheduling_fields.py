"""Validation of tolerations, taints, affinity, topology spread constraints and scheduling gates."""

from typing import Final

from mooring.api.label_selectors import to_json
from mooring.api.label_validation import label_value_errors
from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, duplicate, forbidden_field, invalid, not_supported, required
from mooring.apiserver.field_rules import choice, label_name, label_selector
from mooring.apiserver.object_names import dns_label

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES: Final = ("Ignore", "Honor")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def placement_errors(spec: Document, path: str) -> list[FieldError]:
    """Return the errors of the scheduling constraints of a pod."""
    errors: list[FieldError] = []
    if "affinity" in spec:
        errors += _affinity(spec["affinity"], f"{path}.affinity")
    errors += _gates(spec.get("schedulingGates", ()), f"{path}.schedulingGates")
    errors += _spread(spec.get("topologySpreadConstraints", ()), f"{path}.topologySpreadConstraints")
    return errors + tolerations_errors(spec.get("tolerations", ()), f"{path}.tolerations")


def tolerations_errors(tolerations: list[Document], path: str) -> list[FieldError]:
    """Return the errors of tolerations."""
    errors: list[FieldError] = []
    for index, each in enumerate(tolerations):
        place = f"{path}[{index}]"
        key, operator, value = each.get("key", ""), each.get("operator", ""), each.get("value", "")
        effect = each.get("effect", "")
        if key:
            errors += label_name(key, f"{place}.key")
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{place}.operator", operator, detail))
        if "tolerationSeconds" in each and effect != "NoExecute":
            errors.append(
                invalid(f"{place}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
            )
        if operator in {"Equal", ""}:
            if faults := label_value_errors(value):
                errors.append(invalid(f"{place}.operator", value, ";".join(faults)))
        elif operator == "Exists":
            if value:
                errors.append(invalid(f"{place}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            known = ["Equal", "Exists", "Lt", "Gt"] if operator in {"Lt", "Gt"} else ["Equal", "Exists"]
            errors.append(not_supported(f"{place}.operator", operator, known))
        if effect:
            errors += choice(effect, f"{place}.effect", _EFFECTS)
    return errors


def taints_errors(taints: list[Document], path: str) -> list[FieldError]:
    """Return the errors of the taints of a node."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(taints):
        place = f"{path}[{index}]"
        errors += label_name(each.get("key", ""), f"{place}.key")
        if faults := label_value_errors(each.get("value", "")):
            errors.append(invalid(f"{place}.value", each.get("value", ""), ";".join(faults)))
        errors += choice(each.get("effect"), f"{place}.effect", _EFFECTS, needed=True)
        identity = (each.get("key", ""), each.get("effect", ""))
        if identity in seen:
            detail = "taints must be unique by key and effect pair"
            shown = {
                "Key": each.get("key", ""),
                "Value": each.get("value", ""),
                "Effect": each.get("effect", ""),
                "TimeAdded": each.get("timeAdded"),
            }
            errors.append(FieldError("FieldValueDuplicate", place, f"Duplicate value: {to_json(shown)}: {detail}"))
        seen.add(identity)
    return errors


def _gates(gates: list[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, each in enumerate(gates):
        name = each.get("name", "")
        errors += label_name(name, f"{path}[{index}]")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def _spread(constraints: list[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(constraints):
        place = f"{path}[{index}]"
        action, key = each.get("whenUnsatisfiable", ""), each.get("topologyKey", "")
        if each.get("maxSkew", 0) <= 0:
            errors.append(invalid(f"{place}.maxSkew", each.get("maxSkew", 0), "must be greater than zero"))
        errors += (
            label_name(key, f"{place}.topologyKey") if key else [required(f"{place}.topologyKey", "can not be empty")]
        )
        if action not in {"DoNotSchedule", "ScheduleAnyway"}:
            errors.append(not_supported(f"{place}.whenUnsatisfiable", action, ["DoNotSchedule", "ScheduleAnyway"]))
        if (key, action) in seen:
            errors.append(duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        seen.add((key, action))
        if "minDomains" in each:
            errors += _min_domains(each["minDomains"], action, f"{place}.minDomains")
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            errors += choice(each.get(policy), f"{place}.{policy}", _POLICIES)
        errors += _label_keys(each, place)
        errors += label_selector(each.get("labelSelector"), f"{place}.labelSelector")
    return errors


def _min_domains(value: int, action: str, path: str) -> list[FieldError]:
    errors = [invalid(path, value, "must be greater than zero")] if value <= 0 else []
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, value, detail))
    return errors


def _label_keys(term: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for kind in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(kind) or ()
        if keys and term.get("labelSelector") is None:
            errors.append(forbidden_field(f"{path}.{kind}", "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            errors += label_name(key, f"{path}.{kind}[{index}]")
    both = set(term.get("matchLabelKeys") or ()) & set(term.get("mismatchLabelKeys") or ())
    return errors + [
        invalid(f"{path}.matchLabelKeys", key, "exists in both matchLabelKeys and mismatchLabelKeys")
        for key in sorted(both)
    ]


def _affinity(affinity: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity") or {}
    if _REQUIRED in node:
        errors += node_selector_errors(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for index, each in enumerate(node.get(_PREFERRED) or ()):
        place = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        errors += _weight(each, place)
        errors += _node_term(each.get("preference") or {}, f"{place}.preference", strict=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        given = affinity.get(kind) or {}
        for index, each in enumerate(given.get(_REQUIRED) or ()):
            errors += _pod_term(each, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, each in enumerate(given.get(_PREFERRED) or ()):
            place = f"{path}.{kind}.{_PREFERRED}[{index}]"
            errors += _weight(each, place) + _pod_term(each.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")
    return errors


def _weight(term: Document, path: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def node_selector_errors(selector: Document, path: str) -> list[FieldError]:
    """Return the errors of a node selector of a pod or a volume."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        error
        for index, each in enumerate(terms)
        for error in _node_term(each, f"{path}.nodeSelectorTerms[{index}]", strict=True)
    ]


def _node_term(term: Document, path: str, *, strict: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, each in enumerate(term.get("matchExpressions") or ()):
        errors += _node_requirement(each, f"{path}.matchExpressions[{index}]", strict=strict)
    for index, each in enumerate(term.get("matchFields") or ()):
        errors += _field_requirement(each, f"{path}.matchFields[{index}]")
    return errors


def _node_requirement(each: Document, path: str, *, strict: bool) -> list[FieldError]:
    operator, values = each.get("operator", ""), each.get("values") or ()
    errors: list[FieldError] = []
    if operator in {"In", "NotIn"}:
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{path}.values", detail))
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            errors.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += label_name(each.get("key", ""), f"{path}.key")
    if strict:
        for index, value in enumerate(values):
            errors += [invalid(f"{path}.values[{index}]", value, fault) for fault in label_value_errors(value)]
    return errors


def _field_requirement(each: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if each.get("operator") in {"In", "NotIn"}:
        if len(each.get("values") or ()) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", each.get("operator", ""), "not a valid selector operator"))
    if each.get("key") != "metadata.name":
        errors.append(invalid(f"{path}.key", each.get("key", ""), "not a valid field selector key"))
    return errors


def _pod_term(term: Document, path: str) -> list[FieldError]:
    errors = label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errors += [invalid(f"{path}.namespace", name, fault) for fault in dns_label(name)]
    errors += _label_keys(term, path)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + label_name(key, f"{path}.topologyKey")
