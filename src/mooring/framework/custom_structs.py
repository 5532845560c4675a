"""Plain classes with typed attributes, as authors write them, made into structs that Kubernetes JSON decodes into."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from mooring.api.meta import Model

#: What a class body holds that is no field and no method.
_BODY: Final = frozenset({"__dict__", "__weakref__", "__annotations__", "__annotate__", "__annotate_func__"})
_DOCUMENTED: Final = ("__doc__", "__module__", "__qualname__")


class DeclarationError(TypeError):
    """A custom resource that is declared wrongly; the message names the class and what to write instead."""


class Structs:
    """Makes structs of plain classes, each once; ``names`` are those that annotations may use beside globals."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._made: dict[type, type[Model]] = {}

    def hints(self, cls: type, where: str) -> dict[str, Any]:
        """The types of a class's attributes, with structs in the place of plain classes."""
        names = {**self._names, **vars(cls)}
        try:
            found = get_type_hints(cls, localns=names, include_extras=True)
        except NameError as error:
            raise DeclarationError(f"{where}: {error}; an annotation must name a type that is defined above") from None
        return {name: self.replaced(hint, where) for name, hint in found.items()}

    def struct(self, cls: type, where: str) -> type[Model]:
        """The struct of a plain class: frozen, camelCase on the wire, unknown fields ignored."""
        if cls not in self._made:
            fields = [(name, hint, self.default(vars(cls), name)) for name, hint in self.hints(cls, where).items()]
            body = {
                key: value for key, value in vars(cls).items() if _belongs(key, value, {name for name, *_ in fields})
            }
            made: Any = msgspec.defstruct(
                cls.__name__,
                [(name, hint) if default is None else (name, hint, default) for name, hint, default in fields],
                bases=(Model,),
                module=cls.__module__,
                namespace=body,
                frozen=True,
                kw_only=True,
            )
            made.__doc__, made.__qualname__ = cls.__doc__, cls.__qualname__
            self._made[cls] = made
        return self._made[cls]

    def default(self, body: Mapping[str, Any], name: str) -> Any:
        """A field's default as msgspec wants it; None if it has none."""
        if name not in body:
            return None
        value = body[name]
        if isinstance(value, (list, dict, set)) and value:
            return msgspec.field(default_factory=functools.partial(copy.deepcopy, value))
        if type(value) in self._made:
            return msgspec.field(default_factory=self._made[type(value)])
        is_field = type(value).__name__ == "Field" and type(value).__module__.startswith("msgspec")
        return value if is_field else msgspec.field(default=value)

    def replaced(self, hint: Any, where: str) -> Any:
        """A type with structs in the place of the plain classes in it."""
        if isinstance(hint, type) and not get_args(hint):
            return self.struct(hint, f"{where}.{hint.__name__}") if _is_plain(hint) else hint
        arguments = get_args(hint)
        if not arguments:
            return hint
        if get_origin(hint) is Annotated:
            return Annotated[(self.replaced(arguments[0], where), *hint.__metadata__)]
        new = tuple(self.replaced(each, where) for each in arguments)
        if new == arguments:
            return hint
        if isinstance(hint, types.UnionType):
            return Union[new]  # noqa: UP007 - made of a tuple
        if isinstance(hint, types.GenericAlias):
            return types.GenericAlias(get_origin(hint), new)
        return hint.copy_with(new)


def _is_plain(cls: type) -> bool:
    """Whether a class is a bag of typed attributes and nothing else."""
    return cls.__bases__ == (object,) and "__annotations__" in vars(cls) and cls.__module__ != "builtins"


def _belongs(name: str, value: Any, fields: set[str]) -> bool:
    """Whether a member of a plain class goes into its struct: methods, properties and constants do."""
    return name not in fields and name not in _BODY and name not in _DOCUMENTED and not isinstance(value, type)
