"""Input files of commands: text files, and configurations with their plugins."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from mooring.releases import NEWEST, Release

if TYPE_CHECKING:
    from mooring.config import SchedulerConfiguration
    from mooring.loading import Requested, Setup
    from mooring.loading.setup_files import SetupFiles


def read_setup(file: str | None, requested: Requested, release: Release = NEWEST) -> Setup:
    """Return the configuration of a file and the plugins that the file and the command line name.

    ``-`` is standard input, and None is the default configuration. Ends the command if a file is invalid.
    """
    return read_setup_files(file, requested, release)[0]


def read_setup_files(
    file: str | None,
    requested: Requested,
    release: Release = NEWEST,
    *,
    choose: Callable[[SchedulerConfiguration], Release] | None = None,
) -> tuple[Setup, SetupFiles | None]:
    """Return the same as `read_setup`, and the files to reload; None for standard input.

    ``choose`` returns the release to emulate, because that may depend on the cluster of the configuration.
    """
    from mooring.config import ConfigError
    from mooring.loading import PluginLoadError, load_setup
    from mooring.loading.setup_files import SetupFiles

    files = None if file == "-" else SetupFiles(Path(file) if file is not None else None, requested, release=release)
    text = None if file is None else read_text(file)  # has a better error message if the file cannot be read
    try:
        if files is not None:
            setup = files.load()
        else:
            setup = load_setup(text, source="-", requested=requested, base=Path(), release=release)
        chosen = release if choose is None else choose(setup.config)
        if chosen == release:
            return setup, files
        if files is not None:
            files.release = chosen
            return files.load(setup), files
        known = setup.catalog
        return load_setup(text, source="-", requested=requested, base=Path(), known=known, release=chosen), None
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
