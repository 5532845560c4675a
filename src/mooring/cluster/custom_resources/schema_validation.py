"""Validation of custom resources by their schemas, with the messages of Kubernetes.

CEL rules (`x-kubernetes-validations`) are not evaluated; a definition with such rules gets a warning.
"""

import datetime
from collections.abc import Iterator
from typing import Any, Final

from mooring.api.patterns import found
from mooring.apiserver.field_errors import FieldError, duplicate, go_value, invalid, not_supported, required

_TYPES: Final = {"string": str, "boolean": bool, "object": dict, "array": list}


def schema_errors(value: Any, schema: dict[str, Any], path: str = "") -> list[FieldError]:
    """Return the errors of a value."""
    return list(_errors(value, schema, path))


def _errors(value: Any, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    if value is None:
        if schema.get("type") and not schema.get("nullable"):
            yield _wrong_type(path, value, schema["type"])
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, (int, str)) or isinstance(value, bool):
            yield _wrong_type(path, value, "integer,string")
    elif (kind := schema.get("type")) and not _is_a(value, kind):
        yield _wrong_type(path, value, kind)
        return
    if "enum" in schema and value not in schema["enum"]:
        yield not_supported(path or "<nil>", value, [str(each) for each in schema["enum"]])
    if isinstance(value, str):
        yield from _string(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number(value, schema, path)
    elif isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        yield from _list(value, schema, path)
    yield from _combined(value, schema, path)


def _is_a(value: Any, kind: str) -> bool:
    if kind == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, _TYPES.get(kind, object))


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", dict: "object", list: "array", type(None): "null"}
    return names[type(value)]


def _wrong_type(path: str, value: Any, kind: str) -> FieldError:
    detail = f'{path} in body must be of type {kind}: "{_type_name(value)}"'
    return FieldError("FieldValueTypeInvalid", path, f'Invalid value: "{_type_name(value)}": {detail}')


def _string(value: str, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxLength", len(value)):
        yield FieldError("FieldValueTooLong", path, f"Too long: may not be more than {schema['maxLength']} bytes")
        return
    if len(value) < schema.get("minLength", 0):
        yield invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    pattern = schema.get("pattern")
    if pattern and not found(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    if schema.get("format") == "date-time":
        try:
            datetime.datetime.fromisoformat(value)
        except ValueError:
            yield invalid(path, value, f'{path} in body must be of type date-time: "{value}"')


def _number(value: float, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid(path, value, f"{path} in body should be {word} {go_value(low)}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid(path, value, f"{path} in body should be {word} {go_value(high)}")
    multiple = schema.get("multipleOf")
    if multiple and value % multiple:
        yield invalid(path, value, f"{path} in body should be a multiple of {go_value(multiple)}")


def _object(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    for key in schema.get("required", ()):
        if key not in value:
            yield required(f"{path}.{key}" if path else key)
    if len(value) > schema.get("maxProperties", len(value)):
        yield invalid(path, value, f"{path} in body should have at most {schema['maxProperties']} properties")
    if len(value) < schema.get("minProperties", 0):
        yield invalid(path, value, f"{path} in body should have at least {schema['minProperties']} properties")
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for key, each in sorted(value.items()):
        inner = f"{path}.{key}" if path else key
        if key in properties:
            yield from _errors(each, properties[key], inner)
        elif isinstance(extra, dict):
            yield from _errors(each, extra, inner)


def _list(value: list[Any], schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxItems", len(value)):
        yield FieldError(
            "FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        )
    if len(value) < schema.get("minItems", 0):
        yield invalid(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    for index, each in enumerate(value):
        yield from _errors(each, schema.get("items") or {}, f"{path}[{index}]")
    yield from _doubles(value, schema, path)


def _doubles(value: list[Any], schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", ())
    seen: list[Any] = []
    for index, each in enumerate(value):
        if kind == "map" and isinstance(each, dict):
            identity: Any = {key: each.get(key) for key in keys}
        elif kind == "set" or schema.get("uniqueItems"):
            identity = each
        else:
            return
        if identity in seen:
            yield duplicate(f"{path}[{index}]", identity)
        seen.append(identity)


def _combined(value: Any, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    for each in schema.get("allOf", ()):
        yield from _errors(value, each, path)
    if "anyOf" in schema and all(schema_errors(value, each, path) for each in schema["anyOf"]):
        yield invalid(path, value, f"{path} in body must validate at least one schema (anyOf)")
    if "oneOf" in schema and sum(not schema_errors(value, each, path) for each in schema["oneOf"]) != 1:
        yield invalid(path, value, f"{path} in body must validate one and only one schema (oneOf)")
    if "not" in schema and not schema_errors(value, schema["not"], path):
        yield invalid(path, value, f"{path} in body must not validate the schema (not)")
