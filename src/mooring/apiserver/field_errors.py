"""Errors of single fields, with the reason and text that Kubernetes uses."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from mooring.api.label_selectors import quote, to_json

NEGATIVE: Final = "must be greater than or equal to 0"


class FieldError(NamedTuple):
    """An error of one field of an object."""

    reason: str
    field: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def required(field: str, detail: str = "") -> FieldError:
    """Return the error for a missing field."""
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error for an invalid value."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {go_value(value)}: {detail}")


def not_negative(value: Any, path: str) -> list[FieldError]:
    """Return an error if a number is negative."""
    return [invalid(path, value, NEGATIVE)] if isinstance(value, int) and value < 0 else []


def forbidden_field(field: str, detail: str) -> FieldError:
    """Return the error for a field that must not be set or changed."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_supported(field: str, value: Any, allowed: Iterable[str]) -> FieldError:
    """Return the error for an unsupported value. The message lists the allowed ones in order."""
    shown = ", ".join(f'"{each}"' for each in allowed)
    detail = f"Unsupported value: {go_value(value)}" + (f": supported values: {shown}" if shown else "")
    return FieldError("FieldValueNotSupported", field, detail)


def duplicate(field: str, value: Any) -> FieldError:
    """Return the error for a duplicate value."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {go_value(value)}")


def missing_reference(field: str, value: Any) -> FieldError:
    """Return the error for a reference to an object that does not exist."""
    return FieldError("FieldValueNotFound", field, f"Not found: {go_value(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """Return the error for a value that is too long."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def go_value(value: Any) -> str:
    """Return a value as Kubernetes prints it in a field error."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (dict, list)):
        return to_json(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
