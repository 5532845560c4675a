"""`--plugin NAME=FILE`: plugins from files, as far as a configuration needs to know them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mooring.config import PluginSpec
from mooring.framework.plugin import Plugin
from mooring.loading.configuration import plugin_spec
from mooring.loading.files import PluginLoadError, load_plugin, parse_plugin_option


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
