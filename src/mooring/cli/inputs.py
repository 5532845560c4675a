"""What commands read: a configuration, with the plugins that it and the command line name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from mooring.config import ConfigError
from mooring.loading import PluginLoadError, Requested, Setup, load_setup
from mooring.loading.reread import SetupFiles


def read_setup(file: str | None, requested: Requested) -> Setup:
    """The configuration of a file (``-``: standard input), or the default one, and the plugins that it and the
    command line name. Ends the command if anything is faulty.
    """
    return read_setup_files(file, requested)[0]


def read_setup_files(file: str | None, requested: Requested) -> tuple[Setup, SetupFiles | None]:
    """The same, and the files that it came from, to read them again; None where that cannot be (standard input)."""
    files = None if file == "-" else SetupFiles(Path(file) if file is not None else None, requested)
    try:
        if files is None:
            return load_setup(read_text("-"), source="-", requested=requested, base=Path()), None
        if file is not None:
            read_text(file)  # says best what is wrong with a file that cannot be read
        return files.load(), files
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
