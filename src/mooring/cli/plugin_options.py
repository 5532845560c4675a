"""`--plugin NAME=FILE`: plugins from files, as far as a configuration needs to know them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import click
import msgspec

from mooring.config import FieldError, PluginSpec
from mooring.config.errors import nearest
from mooring.framework.plugin import ArgsError, Plugin, args_struct, decode_args
from mooring.framework.points import points_of
from mooring.loading.files import PluginLoadError, load_plugin, parse_plugin_option

_UNKNOWN: Final = re.compile(r"unknown field `(.+?)`")


def plugins_from_options(options: Sequence[str]) -> dict[str, type[Plugin]]:
    """The plugins that `--plugin` options name, by name. Raises click's exceptions, with what to do about it."""
    plugins: dict[str, type[Plugin]] = {}
    for option in options:
        try:
            name, path = parse_plugin_option(option)
        except PluginLoadError as error:
            raise click.BadParameter(str(error), param_hint="--plugin") from None
        if name in plugins:
            raise click.BadParameter(f"{name} is given twice: leave one out", param_hint="--plugin")
        try:
            plugins[name] = load_plugin(name, path)
        except PluginLoadError as error:
            raise click.ClickException(str(error)) from None
    return plugins


def specs_from_options(options: Sequence[str]) -> dict[str, PluginSpec]:
    """The same, as far as a configuration needs to know them."""
    return {name: plugin_spec(cls) for name, cls in plugins_from_options(options).items()}


def plugin_spec(cls: type[Plugin]) -> PluginSpec:
    """What a configuration needs to know of a plugin class."""
    return PluginSpec(cls.name, points_of(cls), None if cls.Args is None else _checker(cls))


def _checker(cls: type[Plugin]) -> Callable[[object], list[FieldError]]:
    def check(args: object) -> list[FieldError]:
        try:
            decode_args(cls, args)
        except ArgsError as error:
            return [FieldError(error.path, error.reason, remedy=_remedy(cls, error.reason))]
        return []

    return check


def _remedy(cls: type[Plugin], reason: str) -> str | None:
    known = [field.encode_name for field in msgspec.structs.fields(args_struct(cls))]
    unknown = _UNKNOWN.search(reason)
    if unknown is None:
        return None
    close = nearest(unknown[1], known)
    return f'Did you mean "{close}"?' if close else f"Known here: {', '.join(sorted(known)) or 'no fields'}."
