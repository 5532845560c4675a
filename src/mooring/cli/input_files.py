"""Input files of commands: text files, and configurations with their plugins."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from mooring.loading import Requested, Setup
    from mooring.loading.setup_files import SetupFiles


def read_setup(file: str | None, requested: Requested) -> Setup:
    """Return the configuration of a file and the plugins that the file and the command line name.

    ``-`` is standard input, and None is the default configuration. Ends the command if a file is invalid.
    """
    return read_setup_files(file, requested)[0]


def read_setup_files(file: str | None, requested: Requested) -> tuple[Setup, SetupFiles | None]:
    """Return the same as `read_setup`, and the files to reload; None for standard input."""
    from mooring.config import ConfigError
    from mooring.loading import PluginLoadError, load_setup
    from mooring.loading.setup_files import SetupFiles

    files = None if file == "-" else SetupFiles(Path(file) if file is not None else None, requested)
    try:
        if files is None:
            return load_setup(read_text("-"), source="-", requested=requested, base=Path()), None
        if file is not None:
            read_text(file)  # has a better error message if the file cannot be read
        return files.load(), files
    except ConfigError as error:
        fail(error.lines())
    except PluginLoadError as error:
        fail(map(str, error.faults))


def read_text(file: str) -> str:
    """Return the text of a file (``-``: standard input), in UTF-8 or UTF-16. Ends the command if it cannot be read."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except FileNotFoundError:
        fail([f"{file}: no such file"])
    except OSError as error:
        fail([f"{file}: {error.strerror or error}"])
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        fail([f"{source_name(file)}:{line}: not {encoding.upper()} text; save the file as UTF-8"])


def source_name(file: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if file == "-" else file


def fail(lines: Iterable[str]) -> NoReturn:
    """End the command with exit code 1 after printing lines to standard error."""
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(1)
