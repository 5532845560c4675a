"""Samples: an object of a declared kind that a server takes, for people to start from."""

from __future__ import annotations

from typing import Any

from msgspec import inspect as shapes

from mooring.framework.custom_resources import CustomResource
from mooring.framework.custom_schemas import LISTS, bare


def sample_of(kind: type[CustomResource]) -> dict[str, Any]:
    """An object with every field that has a plausible value; ``Meta(examples=[...])`` gives better ones."""
    declared = kind.declaration
    metadata = {"name": "example", **({"namespace": "default"} if declared.namespaced else {})}
    body = example_of(shapes.type_info(kind))
    about = ("apiVersion", "kind", "metadata", "status")
    fields = {name: value for name, value in body.items() if name not in about}
    return {"apiVersion": declared.api_version, "kind": declared.kind, "metadata": metadata, **fields}


def examples_of(shape: shapes.Type) -> list[Any]:
    """The examples that ``Meta(examples=[...])`` gives of a type."""
    extra = shape.extra_json_schema if isinstance(shape, shapes.Metadata) else None
    return list((extra or {}).get("examples", ()))


def example_of(shape: shapes.Type) -> Any:
    """A value that a server would take, for a sample object."""
    if given := examples_of(shape):
        return given[0]
    match bare(shape):
        case shapes.StructType() as struct:
            return {field.encode_name: value for field in struct.fields if (value := _field_example(field)) is not None}
        case shapes.BoolType():
            return True
        case shapes.IntType() | shapes.FloatType() as number:
            return _number(number)
        case shapes.StrType() as text:
            return "example" if text.pattern is None else None
        case shapes.DictType() as mapping:
            value = example_of(mapping.value_type)
            return {"example": value} if value is not None else None
        case shapes.LiteralType() as literal:
            return literal.values[0]
        case shapes.EnumType() as enum:
            return next(iter(enum.cls)).value
        case shapes.UnionType() as union:
            return next((example_of(each) for each in union.types if not isinstance(each, shapes.NoneType)), None)
        case shapes.DateTimeType():
            return "2026-01-01T00:00:00Z"
        case items if isinstance(items, LISTS):
            value = example_of(items.item_type)
            return [value] if value is not None else None
    return None


def _field_example(field: shapes.Field) -> Any:
    if examples_of(field.type):
        return examples_of(field.type)[0]
    if isinstance(field.default, (bool, int, float, str)) and field.default != "":
        return field.default
    return example_of(field.type)


def _number(number: shapes.IntType | shapes.FloatType) -> int | float:
    if number.ge is not None:
        return number.ge
    if number.gt is not None:
        return number.gt + 1
    if number.le is not None:
        return number.le
    return number.lt - 1 if number.lt is not None else 1
