"""Validation of common field types."""

import re
from collections.abc import Sequence
from typing import Any, Final

from mooring.api.label_selectors import SelectorError, requirement
from mooring.api.label_validation import label_key_errors, label_value_errors
from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, forbidden_field, invalid, not_negative, not_supported, required

IMMUTABLE: Final = "field is immutable"
_PERCENT: Final = re.compile(r"[0-9]+%")
_OPERATORS: Final = {"In", "NotIn", "Exists", "DoesNotExist"}


def immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    """Return an error if a field changes."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def choice(value: Any, path: str, allowed: Sequence[str], *, needed: bool = False) -> list[FieldError]:
    """Return an error for a value that is not one of the allowed ones."""
    if not value:
        return [required(path)] if needed else []
    return [] if value in allowed else [not_supported(path, value, allowed)]


def label_name(value: str, path: str) -> list[FieldError]:
    """Return the errors of a label key."""
    return [invalid(path, value, fault) for fault in label_key_errors(value)]


def label_selector(selector: Document | None, path: str) -> list[FieldError]:
    """Return the errors of a label selector."""
    errors: list[FieldError] = []
    for key, value in ((selector or {}).get("matchLabels") or {}).items():
        errors += [invalid(f"{path}.matchLabels", key, fault) for fault in label_key_errors(key)]
        errors += [invalid(f"{path}.matchLabels", value, fault) for fault in label_value_errors(value)]
    for index, each in enumerate((selector or {}).get("matchExpressions") or ()):
        errors += _expression(each, f"{path}.matchExpressions[{index}]")
    return errors


def _expression(expression: Document, path: str) -> list[FieldError]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    errors: list[FieldError] = []
    if operator in {"In", "NotIn"} and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"} and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden_field(f"{path}.values", detail))
    elif operator not in _OPERATORS:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += label_name(expression.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        errors += [invalid(f"{path}.values[{index}]", value, fault) for fault in label_value_errors(value)]
    return errors


def is_usable(selector: Document | None) -> bool:
    """Return whether a selector can be compiled."""
    try:
        for each in (selector or {}).get("matchExpressions") or ():
            requirement(each.get("key", ""), each.get("operator", ""), each.get("values") or ())
    except SelectorError:
        return False
    return True


def int_or_percent(value: Any, path: str) -> list[FieldError]:
    """Return an error unless the value is a number that is not negative, or a percentage."""
    if isinstance(value, str):
        if _PERCENT.fullmatch(value) is None:
            detail = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex"
                " used for validation is '[0-9]+%')"
            )
            return [invalid(path, value, detail)]
        return []
    return not_negative(value, path)


def at_most_all(value: Any, path: str) -> list[FieldError]:
    """Return an error for more than 100 %."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def scaled(value: Any, total: int, *, round_up: bool) -> int:
    """Return a number, or a percentage of a total."""
    if isinstance(value, str):
        part = int(value.rstrip("%")) * total
        return -(-part // 100) if round_up else part // 100
    return int(value or 0)


def port_number(value: Any, path: str) -> list[FieldError]:
    """Return an error for a number that is not a port."""
    return [] if 1 <= value <= 65535 else [invalid(path, value, "must be between 1 and 65535, inclusive")]
