"""A configuration together with plugins that are not built in: what it needs to know of them, and how both are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mooring.config import FieldError, PluginSpec, SchedulerConfiguration, default_config, load_config
from mooring.config.errors import nearest
from mooring.framework.plugin import ArgsError, Plugin, args_struct, decode_args
from mooring.framework.points import points_of

_UNKNOWN: Final = re.compile(r"unknown field `(.+?)`")
#: In force where plugins are given but no configuration: all of them, at all their points.
_EVERYWHERE: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{enabled}]
"""


def configuration(
    text: str | None, *, plugins: Mapping[str, type[Plugin]], source: str, plugin_source: str = "plugins"
) -> SchedulerConfiguration:
    """The configuration of a text, or the default one with all plugins enabled. Raises ConfigError."""
    specs = {name: plugin_spec(cls) for name, cls in plugins.items()}
    if text is not None:
        return load_config(text, source=source, plugins=specs)
    if not plugins:
        return default_config()
    enabled = ", ".join(f"{{name: {name}}}" for name in plugins)
    return load_config(_EVERYWHERE.format(enabled=enabled), source=plugin_source, plugins=specs)


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
