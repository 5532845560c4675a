"""What commands read: a configuration with the plugins that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

import click

from mooring.config import ConfigError, SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.loading.configuration import configuration


def read_config(file: str | None, plugins: Mapping[str, type[Plugin]]) -> SchedulerConfiguration:
    """The configuration of a file (``-``: standard input), or the default one. Ends the command if it is faulty."""
    try:
        text = None if file is None else read_text(file)
        return configuration(text, plugins=plugins, source=file or "", plugin_source="--plugin")
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
