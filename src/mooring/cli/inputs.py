"""What commands read: a configuration with the plugins that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from mooring.cli.plugin_options import plugin_spec
from mooring.config import ConfigError, SchedulerConfiguration, default_config, load_config
from mooring.framework.plugin import Plugin

#: In force where plugins are given but no configuration: all of them, at all their points.
_EVERYWHERE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]
"""


def read_config(file: str | None, plugins: Mapping[str, type[Plugin]]) -> SchedulerConfiguration:
    """The configuration of a file (``-``: standard input), or the default one. Ends the command if it is faulty."""
    specs = {name: plugin_spec(cls) for name, cls in plugins.items()}
    try:
        if file is not None:
            return load_config(read_text(file), source=file, plugins=specs)
        if not plugins:
            return default_config()
        enabled = ", ".join(f"{{name: {name}}}" for name in plugins)
        return load_config(_EVERYWHERE.format(enabled=enabled), source="--plugin", plugins=specs)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


def read_text(file: str) -> str:
    """The text of a file (``-``: standard input). Ends the command if it cannot be read."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise click.ClickException(f"{file}: no such file") from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror or error}") from None
    except UnicodeError:
        raise click.ClickException(f"{file}: not UTF-8 text; save the file as UTF-8") from None
