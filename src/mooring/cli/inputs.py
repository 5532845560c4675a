"""What commands read: a configuration, with the plugins that it and the command line name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from mooring.config import ConfigError
from mooring.loading import PluginLoadError, Requested, Setup, load_setup


def read_setup(file: str | None, requested: Requested) -> Setup:
    """The configuration of a file (``-``: standard input), or the default one, and the plugins that it and the
    command line name. Ends the command if anything is faulty.
    """
    text = read_text(file) if file is not None else None
    base = Path(file).parent if file is not None and file != "-" else Path()
    try:
        return load_setup(text, source=file or "", requested=requested, base=base)
    except ConfigError as error:
        fail(error.lines())
    except PluginLoadError as error:
        fail(map(str, error.faults))


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
