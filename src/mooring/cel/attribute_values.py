"""The values of device attributes, and how the value of a CEL expression becomes one."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from mooring.cel import types
from mooring.cel.kubernetes_library import Semver
from mooring.cel.values import Opaque, Optional, Value, type_of


class NoAttributeError(ValueError):
    """A value that no attribute can have; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class Version:
    """The value of an attribute that is a semantic version."""

    text: str


#: The value of an attribute; None stands for one without a value that upstream knows.
AttributeValue: TypeAlias = (
    int | bool | str | Version | tuple[int, ...] | tuple[bool, ...] | tuple[str, ...] | tuple[Version, ...] | None
)

#: The types of attributes, as messages about lists name them.
_SCALARS: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Version: "semver"}
#: The names of Go types in messages.
_GO_TYPES: Final = {
    types.BOOL: "bool",
    types.INT: "int64",
    types.UINT: "uint64",
    types.DOUBLE: "float64",
    types.STRING: "string",
    types.BYTES: "[]uint8",
    types.NULL: "structpb.NullValue",
    types.DURATION: "time.Duration",
    types.TIMESTAMP: "time.Time",
    types.LIST: "[]ref.Val",
    types.MAP: "map[ref.Val]ref.Val",
    types.TYPE: "string",
}


def attribute_value(value: Value) -> AttributeValue:
    """Return the value of an expression as the value of an attribute. Raises NoAttributeError."""
    found = _scalar(value)
    if found is not None:
        return found
    if not isinstance(value, list):
        raise NoAttributeError(f"unsupported CEL return type: {_native_type(value)}")
    elements = tuple(map(_scalar, value))
    if not elements:
        return ()
    if elements[0] is None:
        raise NoAttributeError(f"unsupported list element type: {_native_type(value[0])}")
    kind = elements[0].__class__
    for place, element in enumerate(elements):
        if element.__class__ is not kind:
            expected = f"expected list element at index {place} to be {_SCALARS[kind]}"
            raise NoAttributeError(f"{expected}, got {_native_type(value[place])}")
    return elements  # type: ignore[return-value]


def _scalar(value: Value) -> int | bool | str | Version | None:
    """Return a single value; None for lists and for types that attributes do not have."""
    value = _inner(value)
    if isinstance(value, Semver):
        return Version(value.text)
    if isinstance(value, types.Type):
        return value.name
    return value if value.__class__ in (bool, int, str) else None


def _native_type(value: Value) -> str:
    value = _inner(value)
    if isinstance(value, Optional):
        return "<nil>"
    return value.native_type if isinstance(value, Opaque) else _GO_TYPES.get(type_of(value), "interface {}")


def _inner(value: Value) -> Value:
    """Return the value in an optional, as cel-go does."""
    while isinstance(value, Optional) and value.present:
        value = value.value
    return value
