"""What commands read: a configuration with the plugins that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

import click

from mooring.cli.plugin_options import plugin_spec
from mooring.config import ConfigError, SchedulerConfiguration, default_config, load_config
from mooring.framework.plugin import Plugin

#: In force where plugins are given but no configuration: all of them, at all their points.
_EVERYWHERE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{enabled}]
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
        fail(error.lines())


def read_text(file: str) -> str:
    """The text of a file (``-``: standard input). Ends the command if it cannot be read."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        fail([f"{file}: no such file"])
    except OSError as error:
        fail([f"{file}: {error.strerror or error}"])
    except UnicodeError:
        fail([f"{file}: not UTF-8 text; save the file as UTF-8"])


def fail(lines: Iterable[str]) -> NoReturn:
    """End the command with what is wrong, a line each."""
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(1)
