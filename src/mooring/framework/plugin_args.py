"""Arguments of plugins: how a class declares them, and how configured values are decoded.

The arguments are a class with typed attributes. ``Plugin[MyArgs]`` declares it for type checkers too: they then know
every attribute of ``self.args``. A class ``Args`` inside the plugin class works as well, without types.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast, get_args, get_origin, get_type_hints

import msgspec

from mooring.api.decode_errors import locate_error, path_text
from mooring.framework.plugin_errors import contain, describe

if TYPE_CHECKING:
    # From typeshed; at run time there may be no such package.
    from typing_extensions import TypeVar

    ArgsT = TypeVar("ArgsT", default=Any)
else:
    from typing import TypeVar

    ArgsT = TypeVar("ArgsT")


class HasArgs(Generic[ArgsT]):
    """The base of classes with arguments: ``class NodeNumber(Plugin[NodeNumberArgs])``."""

    #: The class of the arguments; None if they are not decoded. ``Plugin[MyArgs]`` sets it.
    Args: ClassVar[type | None] = None
    #: What a class passed for ``ArgsT``: a class, or a type variable of its own.
    _args_parameter: ClassVar[Any]

    #: The decoded arguments; without declared arguments, the configured mapping.
    args: ArgsT

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in vars(cls).get("__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, HasArgs):
                given = origin._args_parameter
                if isinstance(given, TypeVar):
                    given = get_args(base)[origin.__parameters__.index(given)]  # type: ignore[attr-defined]  # Generic's
                cls._args_parameter = given
                if isinstance(given, type) and given is not Any:
                    if vars(cls).get("Args", given) is not given:
                        text = f"{cls.__name__} has a class Args and {origin.__name__}[{given.__name__}]; remove one"
                        raise TypeError(text)
                    cls.Args = given


HasArgs._args_parameter = ArgsT


class ArgsError(ValueError):
    """A plugin's arguments do not match its ``Args``; the message names the field.

    Attributes:
        plugin: The name of the plugin.
        path: The field, such as ``weights[0].name``; empty for the arguments as a whole.
        reason: What is wrong with it.
    """

    def __init__(self, plugin: str, path: str, message: str) -> None:
        super().__init__(f"{plugin}: {path + ': ' if path else ''}{message}")
        self.plugin = plugin
        self.path = path
        self.reason = message


def decode_args(cls: type[Any], raw: Any) -> Any:
    """Decode a profile plugin's arguments, without the ``kind`` and ``apiVersion`` of a configuration file."""
    if cls.Args is not None and isinstance(raw, Mapping):
        raw = {key: value for key, value in raw.items() if key not in ("kind", "apiVersion")}
    return convert_args(cls, raw)


def convert_args(cls: type[Any], raw: Any) -> Any:
    """Convert configured arguments to the ``Args`` of a plugin class; without ``Args`` return them unchanged."""
    declared = getattr(cls, "Args", None)
    if raw is None:
        raw = {}
    if declared is None or isinstance(raw, declared):
        return raw
    struct = args_struct(cls)
    try:
        return msgspec.convert(raw, struct)
    except msgspec.ValidationError as error:
        name = getattr(cls, "name", "") or cls.__name__
        steps, message = locate_error(error, raw, struct)
        raise ArgsError(name, path_text(steps), message) from None
    except BaseException as error:  # raised by __post_init__
        contain(error)
        raise ArgsError(getattr(cls, "name", "") or cls.__name__, "", describe(error)) from error


def args_struct(cls: type[Any]) -> type:
    """Return the struct for a plugin's ``Args``: camelCase in the file, snake_case in Python, no unknown fields."""
    declared: type | None = cls.Args
    if declared is None:
        raise TypeError(f"{cls.__name__} declares no Args")
    if issubclass(declared, msgspec.Struct):
        return declared
    made = vars(cls).get("_args_struct")
    if made is None:
        fields: list[Any] = []
        for name, hint in get_type_hints(declared, include_extras=True).items():
            default = getattr(declared, name, msgspec.NODEFAULT)
            mutable = isinstance(default, (list, dict, set))
            made_default = (
                msgspec.field(default_factory=functools.partial(copy.copy, default))
                if mutable
                else msgspec.field(default=default)
            )
            fields.append((name, hint, made_default))
        made = msgspec.defstruct(
            f"{cls.__name__}Args", fields, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
        )
        cls._args_struct = made  # a cache on the class
    return cast(type, made)
