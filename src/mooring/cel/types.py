"""Static types of expressions, and the rules by which one type can be used in place of another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its kind, its name at run time, and its parameters."""

    kind: str
    name: str
    parameters: tuple["Type", ...] = ()
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind, self.name, self.parameters)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        name = f"<{self.name}>" if self.kind == "param" else self.name
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name


ANY: Final = Type("any", "google.protobuf.Any")
BOOL: Final = Type("bool", "bool")
BYTES: Final = Type("bytes", "bytes")
DOUBLE: Final = Type("double", "double")
DURATION: Final = Type("duration", "google.protobuf.Duration")
DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "error")
INT: Final = Type("int", "int")
NULL: Final = Type("null", "null_type")
STRING: Final = Type("string", "string")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
TYPE: Final = Type("type", "type")
UINT: Final = Type("uint", "uint")


def list_of(element: Type) -> Type:
    """Return the type of lists of an element type."""
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps."""
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of optional values."""
    return Type("opaque", "optional_type", (value,))


def type_of_type(parameter: Type) -> Type:
    """Return the type of a type."""
    return Type("type", "type", (parameter,))


def opaque(name: str) -> Type:
    """Return a type without fields."""
    return Type("opaque", name)


def struct(name: str) -> Type:
    """Return a type whose fields the environment declares."""
    return Type("struct", name)


def parameter(name: str) -> Type:
    """Return a type parameter of an overload."""
    return Type("param", name)


LIST: Final = list_of(DYN)
MAP: Final = map_of(DYN, DYN)
OPTIONAL: Final = optional_of(DYN)

#: The types whose values can be compared with null.
_NULLABLE: Final = frozenset({"opaque", "struct", "any", "duration", "timestamp"})
_PARAMETERIZED: Final = frozenset({"opaque", "list", "map", "type"})

Substitutions = dict[Type, Type]


def is_dyn(of: Type) -> bool:
    """Return whether the type of a value is only known at run time."""
    return of.kind in {"dyn", "any"}


def is_dyn_or_error(of: Type) -> bool:
    """Return whether nothing can be said about the type."""
    return of.kind in {"dyn", "any", "error"}


def unwrap_optional(of: Type) -> tuple[Type, bool]:
    """Return the type in an optional type, and whether it was one."""
    if of.kind == "opaque" and of.name == "optional_type":
        return of.parameters[0], True
    return of, False


def equivalent(one: Type, other: Type) -> bool:
    """Return whether two types are the same, apart from the names of type parameters."""
    if one is other:
        return True
    if one.kind != other.kind or len(one.parameters) != len(other.parameters):
        return False
    if one.kind != "param" and one.name != other.name:
        return False
    return all(map(equivalent, one.parameters, other.parameters))


def _accepts(target: Type, source: Type) -> bool:
    if target is source or target.kind in {"dyn", "any", "param"}:
        return True
    return (
        target.kind == source.kind
        and target.name == source.name
        and len(target.parameters) == len(source.parameters)
        and all(map(_accepts, target.parameters, source.parameters))
    )


def _less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "param":
        return True
    if is_dyn(other) or other.kind == "param" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in {"opaque", "list", "map"}:
        return (
            one.name == other.name
            and len(one.parameters) == len(other.parameters)
            and all(map(_less_specific, one.parameters, other.parameters))
        )
    return one == other


def most_general(one: Type, other: Type) -> Type:
    """Return the more general of two assignable types."""
    return one if _less_specific(one, other) else other


def assignable(substitutions: Substitutions, one: Type, other: Type) -> Substitutions | None:
    """Return the substitutions with which the types match, or None if there are none."""
    copy = dict(substitutions)
    return copy if _assignable(copy, one, other) else None


def assignable_all(substitutions: Substitutions, ones: Sequence[Type], others: Sequence[Type]) -> Substitutions | None:
    """Return the substitutions with which all types match, or None."""
    copy = dict(substitutions)
    return copy if _all_assignable(copy, ones, others) else None


def _all_assignable(subs: Substitutions, ones: Sequence[Type], others: Sequence[Type]) -> bool:
    return len(ones) == len(others) and all(
        _assignable(subs, one, other) for one, other in zip(ones, others, strict=True)
    )


def _assignable(subs: Substitutions, one: Type, other: Type) -> bool:
    if other.kind == "param":
        valid, substituted = _substitutes(subs, one, other)
        if valid:
            return True
        if substituted:
            return False
    if one.kind == "param":
        return _substitutes(subs, other, one)[0]
    if is_dyn_or_error(one) or is_dyn_or_error(other):
        return True
    if one.kind == "null":
        return other.kind in _NULLABLE or other.kind == "null"
    if other.kind == "null":
        return one.kind in _NULLABLE
    if one.kind == "type":
        return other.kind == "type"
    if one.kind in {"opaque", "list", "map"}:
        return (
            one.kind == other.kind
            and one.name == other.name
            and _all_assignable(subs, one.parameters, other.parameters)
        )
    return _accepts(other, one)


def _substitutes(subs: Substitutions, one: Type, param: Type) -> tuple[bool, bool]:
    """Return whether the type can stand for the parameter, and whether the parameter already had a type."""
    if one == param:
        return True, True
    current = subs.get(param)
    if current is not None:
        if one == current:
            return True, True
        if not _assignable(subs, one, current):
            return False, True
        general = most_general(one, current)
        if _not_referenced(subs, param, general):
            subs[param] = general
        return True, True
    if _not_referenced(subs, param, one):
        subs[param] = one
        return True, False
    return False, False


def _not_referenced(subs: Mapping[Type, Type], param: Type, within: Type) -> bool:
    if param == within:
        return False
    if within.kind == "param":
        current = subs.get(within)
        return current is None or _not_referenced(subs, param, current)
    if within.kind in _PARAMETERIZED:
        return all(_not_referenced(subs, param, inner) for inner in within.parameters)
    return True


def substitute(subs: Mapping[Type, Type], of: Type, *, free_is_dyn: bool = False) -> Type:
    """Replace type parameters by their types; with `free_is_dyn`, those without one by the dynamic type."""
    while (current := subs.get(of)) is not None:
        of = current
    if of.kind == "param":
        return DYN if free_is_dyn else of
    if of.parameters and of.kind in _PARAMETERIZED | {"function"}:
        replaced = tuple(substitute(subs, inner, free_is_dyn=free_is_dyn) for inner in of.parameters)
        return of if replaced == of.parameters else Type(of.kind, of.name, replaced)
    return of
