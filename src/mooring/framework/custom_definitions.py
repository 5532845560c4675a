"""CustomResourceDefinitions of declared kinds: structural schemas, manifests for ``kubectl apply``, sample objects."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import inspect as shapes

from mooring.framework.custom_resources import CustomResource, DeclarationError

Schema = dict[str, Any]

#: Names of constraints in msgspec -> in OpenAPI.
_NUMBER_LIMITS: Final = {"ge": "minimum", "le": "maximum", "multiple_of": "multipleOf"}

_EXCLUSIVE: Final = {"gt": ("minimum", "exclusiveMinimum"), "lt": ("maximum", "exclusiveMaximum")}

_TEXT_LIMITS: Final = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}

_LIST_LIMITS: Final = {"min_length": "minItems", "max_length": "maxItems"}

_MAP_LIMITS: Final = {"min_length": "minProperties", "max_length": "maxProperties"}

LISTS: Final = (shapes.ListType, shapes.VarTupleType, shapes.SetType, shapes.FrozenSetType, shapes.CollectionType)

_ABOUT: Final = ("apiVersion", "kind", "metadata")

_ABOUT_TEXTS: Final = {
    "apiVersion": "The group and version of this kind.",
    "kind": "The kind of this object.",
}


def schema_of(kind: type[CustomResource]) -> Schema:
    """Return the openAPIV3Schema of a declared kind. Raises DeclarationError for an unsupported type."""
    try:
        schema = _struct(shapes.type_info(kind), kind.__name__)
    except RecursionError:
        raise DeclarationError(f"{kind.__name__}: is recursive, which a structural schema cannot express") from None
    about: Schema = {name: {"type": "string", "description": text} for name, text in _ABOUT_TEXTS.items()}
    schema["properties"] = {**about, "metadata": {"type": "object"}, **schema["properties"]}
    return schema


def _struct(shape: shapes.Type, where: str) -> Schema:
    if not isinstance(shape, shapes.StructType):
        raise DeclarationError(f"{where}: not a class with typed fields")
    schema: Schema = {"type": "object"}
    if text := _documentation(shape.cls):
        schema["description"] = text
    top = issubclass(shape.cls, CustomResource)
    fields = [field for field in shape.fields if not (top and field.encode_name in _ABOUT)]
    schema["properties"] = {field.encode_name: _field(field, f"{where}.{field.name}", top=top) for field in fields}
    if required := [field.encode_name for field in fields if field.required]:
        schema["required"] = required
    return schema


def _field(field: shapes.Field, where: str, *, top: bool) -> Schema:
    schema = _schema(field.type, where)
    default = field.default
    # Absent and empty values decode alike; the server sets only non-empty defaults.
    scalar = isinstance(default, (bool, int, float)) or (isinstance(default, str) and bool(default))
    if scalar and not top:
        schema["default"] = default
    return schema


def _schema(shape: shapes.Type, where: str) -> Schema:
    match shape:
        case shapes.Metadata():
            return _described(_schema(shape.type, where), shape.extra_json_schema or {})
        case shapes.StructType():
            return _struct(shape, where)
        case shapes.BoolType():
            return {"type": "boolean"}
        case shapes.IntType():
            return {"type": "integer", "format": "int64", **_numbers(shape)}
        case shapes.FloatType():
            return {"type": "number", **_numbers(shape)}
        case shapes.StrType():
            return {"type": "string", **_limits(shape, _TEXT_LIMITS)}
        case shapes.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case shapes.DictType():
            values = _schema(shape.value_type, f"{where}[...]")
            if not isinstance(bare(shape.key_type), shapes.StrType):
                raise DeclarationError(f"{where}: the keys of a mapping must be strings; write dict[str, ...]")
            return {"type": "object", "additionalProperties": values, **_limits(shape, _MAP_LIMITS)}
        case _ if isinstance(shape, LISTS):
            items = _schema(shape.item_type, f"{where}[]")
            return {"type": "array", "items": items, **_limits(shape, _LIST_LIMITS)}
        case shapes.LiteralType():
            return _enum(shape.values, where)
        case shapes.EnumType():
            return _enum([each.value for each in shape.cls], where)
        case shapes.UnionType():
            return _union(shape, where)
        case shapes.AnyType() | shapes.RawType():
            return {"x-kubernetes-preserve-unknown-fields": True}
    raise DeclarationError(f"{where}: a custom resource cannot contain {type(shape).__name__.removesuffix('Type')}")


def _union(shape: shapes.UnionType, where: str) -> Schema:
    types = [each for each in shape.types if not isinstance(each, shapes.NoneType)]
    if len(types) == 1:
        return _schema(types[0], where)
    if {type(bare(each)) for each in types} <= {shapes.IntType, shapes.StrType, shapes.FloatType}:
        # Quantities, ports and the like; the API server accepts no other union.
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    raise DeclarationError(f"{where}: unsupported union; use one type, that type or None, or int | str")


def _enum(values: Sequence[Any], where: str) -> Schema:
    if all(isinstance(value, str) for value in values):
        return {"type": "string", "enum": list(values)}
    if all(isinstance(value, int) for value in values):
        return {"type": "integer", "enum": list(values)}
    raise DeclarationError(f"{where}: choices must be all strings or all integers")


def _described(schema: Schema, extra: dict[str, Any]) -> Schema:
    texts: Schema = {name: extra[name] for name in ("description", "title") if name in extra}
    rest = {name: value for name, value in extra.items() if name not in (*texts, "examples", "default", "deprecated")}
    return {**schema, **texts, **rest}


def bare(shape: shapes.Type) -> shapes.Type:
    """Return a type without its metadata."""
    return bare(shape.type) if isinstance(shape, shapes.Metadata) else shape


def _limits(shape: Any, names: dict[str, str]) -> Schema:
    return {ours: value for theirs, ours in names.items() if (value := getattr(shape, theirs, None)) is not None}


def _numbers(shape: Any) -> Schema:
    found = _limits(shape, _NUMBER_LIMITS)
    for theirs, (limit, exclusive) in _EXCLUSIVE.items():
        if (value := getattr(shape, theirs)) is not None:
            found |= {limit: value, exclusive: True}
    return found


def _documentation(cls: type) -> str:
    """Return the class's own docstring; inherited ones describe Mooring."""
    text = vars(cls).get("__doc__")
    return inspect.cleandoc(text) if text else ""


def column_of(kind: type[CustomResource], heading: str, path: str) -> Schema:
    """Return a printer column; the path uses Python's or Kubernetes' field names and must end at a field."""
    shape = shapes.type_info(kind)
    steps: list[str] = []
    for step in path.lstrip(".").split("."):
        inner = bare(shape)
        if isinstance(inner, shapes.UnionType):
            inner = next(bare(each) for each in inner.types if not isinstance(each, shapes.NoneType))
        if isinstance(inner, shapes.DictType):
            steps.append(step)
            shape = inner.value_type
            continue
        fields = inner.fields if isinstance(inner, shapes.StructType) else ()
        found = next((field for field in fields if step in (field.name, field.encode_name)), None)
        if found is None:
            raise DeclarationError(f"{kind.__name__}: column {heading!r} shows {path}, but there is no field {step!r}")
        steps.append(found.encode_name)
        shape = found.type
    kind_of = _schema(shape, path).get("type", "string")
    shown = kind_of if kind_of in ("integer", "number", "boolean") else "string"
    return {"name": heading, "type": shown, "jsonPath": "." + ".".join(steps)}


#: Groups reserved for Kubernetes: the API server requires an approval annotation for definitions in them.
_PROTECTED: Final = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")

_APPROVAL: Final = "api-approved.kubernetes.io"

_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def definition_of(kind: type[CustomResource]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a declared kind. Raises DeclarationError."""
    declared = kind.declaration
    metadata: dict[str, Any] = {"name": declared.definition_name}
    if _PROTECTED.fullmatch(declared.group):
        metadata["annotations"] = {_APPROVAL: "unapproved, made from a plugin's declaration"}
    names: dict[str, Any] = {
        "kind": declared.kind,
        "listKind": f"{declared.kind}List",
        "plural": declared.plural,
        "singular": declared.singular,
    }
    if declared.short_names:
        names["shortNames"] = list(declared.short_names)
    if declared.categories:
        names["categories"] = list(declared.categories)
    version: dict[str, Any] = {
        "name": declared.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of(kind)},
    }
    if "status" in kind.__struct_fields__:
        version["subresources"] = {"status": {}}
    if declared.columns:
        columns = [column_of(kind, heading, path) for heading, path in declared.columns.items()]
        version["additionalPrinterColumns"] = [*columns, _AGE]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": declared.group, "scope": declared.scope, "names": names, "versions": [version]},
    }


def sample_of(kind: type[CustomResource]) -> dict[str, Any]:
    """Return an object with a plausible value for every field; ``Meta(examples=[...])`` provides better ones."""
    declared = kind.declaration
    metadata = {"name": "example", **({"namespace": "default"} if declared.namespaced else {})}
    body = example_of(shapes.type_info(kind))
    about = ("apiVersion", "kind", "metadata", "status")
    fields = {name: value for name, value in body.items() if name not in about}
    return {"apiVersion": declared.api_version, "kind": declared.kind, "metadata": metadata, **fields}


def examples_of(shape: shapes.Type) -> list[Any]:
    """Return the examples that ``Meta(examples=[...])`` declares for a type."""
    extra = shape.extra_json_schema if isinstance(shape, shapes.Metadata) else None
    return list((extra or {}).get("examples", ()))


def example_of(shape: shapes.Type) -> Any:
    """Return a valid value for a sample object."""
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
