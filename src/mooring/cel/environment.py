"""An environment: the variables, types, functions and macros that an expression can use."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mooring.cel import types
from mooring.cel.parser import Macro
from mooring.cel.types import Type


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    id: str
    args: tuple[Type, ...]
    result: Type
    #: Called with the arguments; returns a value or an error. None if the function itself has the implementation.
    call: Callable[..., Any] | None = None
    member: bool = False
    #: Whether evaluation stops at the first argument that is an error, and the call then has no cost.
    variadic: bool = False
    nonstrict: bool = False


@dataclass(slots=True)
class Function:
    """A function with its signatures."""

    name: str
    overloads: list[Overload]
    #: The implementation for all signatures, if they have none of their own.
    call: Callable[..., Any] | None = None
    #: The kinds of the first argument for which the implementation can be called; None for all.
    kinds: frozenset[str] | None = None
    #: Whether arguments are compared with the signature before the call.
    guarded: bool = True

    def merged(self, other: "Function") -> "Function":
        """Return a function with the signatures of both."""
        return Function(
            self.name,
            [*self.overloads, *other.overloads],
            self.call or other.call,
            self.kinds or other.kinds,
            self.guarded and other.guarded,
        )


def function(name: str, *overloads: Overload) -> Function:
    """Return a function whose signatures have their own implementations."""
    return Function(name, list(overloads))


def member(name: str, number: str, args: Iterable[Type], result: Type, call: Callable[..., Any]) -> Function:
    """Return a method with one signature."""
    signature = tuple(args)
    return Function(name, [Overload(number, signature, result, call, member=True, variadic=len(signature) > 2)])


def plain(name: str, number: str, args: Iterable[Type], result: Type, call: Callable[..., Any]) -> Function:
    """Return a function with one signature."""
    signature = tuple(args)
    return Function(name, [Overload(number, signature, result, call, variadic=len(signature) > 2)])


@dataclass(slots=True)
class Library:
    """Functions, types and macros that belong together."""

    functions: tuple[Function, ...] = ()
    types: tuple[Type, ...] = ()
    macros: Mapping[tuple[str, int, bool], Macro] = field(default_factory=dict)


class Environment:
    """The declarations for expressions of one purpose."""

    def __init__(
        self,
        libraries: Iterable[Library],
        variables: Mapping[str, Type],
        structs: Mapping[str, Mapping[str, Type]] | None = None,
        *,
        cel_go: int = 26,
    ) -> None:
        self.functions: dict[str, Function] = {}
        self.macros: dict[tuple[str, int, bool], Macro] = {}
        self.variables: Final = dict(variables)
        self.structs: Final = dict(structs or {})
        #: The version of cel-go, 0.x, whose costs and limits apply.
        self.cel_go: Final = cel_go
        #: Names of types that are also values.
        self.type_values: dict[str, Type] = {}
        for library in libraries:
            for declared in library.functions:
                known = self.functions.get(declared.name)
                self.functions[declared.name] = declared if known is None else known.merged(declared)
            self.macros.update(library.macros)
            for each in library.types:
                self.type_values[each.name] = each

    def ident(self, name: str) -> Type | None:
        """Return the type of a name, without those of loops."""
        name = name.removeprefix(".")
        found = self.variables.get(name)
        if found is None and (value := self.type_values.get(name)) is not None:
            found = types.type_of_type(value)
        if found is None and name in self.structs:
            found = types.type_of_type(types.struct(name))
        return found

    def function(self, name: str) -> Function | None:
        """Return a function by its qualified name."""
        return self.functions.get(name.removeprefix("."))
