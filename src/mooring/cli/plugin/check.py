"""`mooring plugin check`: what is wrong with a plugin, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mooring.loading import Fault, Found

#: A call in the dry run that takes longer counts as one that hangs.
_SECONDS = 10.0


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--config", "config_file", metavar="FILE", help="Check the plugins' arguments in this configuration too.")
@click.option("--no-dry-run", is_flag=True, help="Do not call the plugins on a small made-up cluster.")
def check(paths: tuple[Path, ...], config_file: str | None, no_dry_run: bool) -> None:
    """Check plugins as a compiler would, without a cluster.

    PATH is a file, a package, or a folder of both. Found are wrong and missing methods, wrong signatures and names that
    are nearly right, arguments that do not decode, requirements that are not installed, blocking calls in async
    methods, and, in a dry run on a small made-up cluster, exceptions, hanging calls and answers that make no sense.

    The exit code is 0 if all is well, 1 if something is wrong, 2 for a wrong command line.
    """
    found: list[Found] = []
    faults: list[Fault] = []
    for path in paths:
        _load(path, found, faults)
    if not faults:
        faults += _names(found)
    args = _configured(config_file, found, faults) if config_file is not None and not faults else {}
    if not no_dry_run:
        for each in found:
            faults += _dry_run(each, args.get(each.name))
    for fault in faults:
        click.echo(str(fault))
    broken = {fault.path for fault in faults}
    for each in found:
        if not faults or str(each.path) not in broken:
            points = ", ".join(sorted(each.kind.points(each.cls))) or f"{each.kind.name} plugin"
            click.echo(f"{each.path}: {each.name}: ok ({points}; sha256 {each.sha256})")
    if faults:
        click.echo(f"{len(faults)} {'fault' if len(faults) == 1 else 'faults'} found", err=True)
        sys.exit(1)


def _load(path: Path, found: list[Found], faults: list[Fault]) -> None:
    """Load what is at a path."""
    from mooring.loading import PluginLoadError
    from mooring.loading.files import in_folder, load_file

    try:
        is_folder = path.is_dir() and not (path / "__init__.py").is_file()
        files = in_folder(path) if is_folder else [path]
    except PluginLoadError as error:
        faults += error.faults
        return
    before = len(found) + len(faults)
    for file in files:
        try:
            found += load_file(file, "check")
        except PluginLoadError as error:
            faults += error.faults
    if len(found) + len(faults) == before:
        from mooring.loading import Fault

        faults.append(Fault(str(path), 0, "defines no plugin; derive a class from mooring.framework.Plugin"))


def _names(found: list[Found]) -> list[Fault]:
    from mooring.loading import Fault

    first: dict[str, Found] = {}
    faults = []
    for each in found:
        known = first.setdefault(each.name, each)
        if known is not each:
            faults.append(Fault(str(each.path), 0, f"a plugin {each.name} is also in {known.path}; rename one"))
    return faults


def _configured(file: str, found: list[Found], faults: list[Fault]) -> dict[str, object]:
    """The plugins' arguments in a configuration, which is checked with the plugins in mind."""
    from mooring.cli.inputs import read_text
    from mooring.config import ConfigError, load_config
    from mooring.loading import Catalog, Fault
    from mooring.loading.plugin_sources import split

    try:
        text, _ = split(read_text(file))
        config = load_config(text, source=file, plugins=Catalog(found).specs())
    except ConfigError as error:
        faults += [Fault(file, each.line or 0, each.describe()) for each in error.errors]
        return {}
    return {name: args for profile in config.profiles for name, args in profile.plugin_config.items()}


def _dry_run(found: Found, args: object) -> list[Fault]:
    from mooring.scheduler.dry_run import dry_run_fault

    return dry_run_fault(found, args, _SECONDS)
