"""`mooring plugin check`: check plugins for errors, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mooring.loading import Fault, FoundPlugin

#: Timeout of a plugin call in the dry run.
_CALL_SECONDS = 10.0


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option(
    "--config", "config_file", metavar="FILE", help="Also check the plugins' arguments in this configuration file."
)
@click.option("--no-dry-run", is_flag=True, help="Do not call the plugins on a small simulated cluster.")
def check(paths: tuple[Path, ...], config_file: str | None, no_dry_run: bool) -> None:
    """Check plugins for errors, without a cluster.

    PATH is a file, a package, or a directory of both. The command reports invalid and missing methods, wrong signatures
    and misspelled names, arguments that cannot be decoded, requirements that are not installed, and blocking calls in
    async methods. A dry run on a small simulated cluster finds exceptions, calls that hang and invalid return values.

    The exit code is 0 if there are no errors, 1 if there are errors, and 2 for a usage error.
    """
    found: list[FoundPlugin] = []
    faults: list[Fault] = []
    for path in paths:
        _load(path, found, faults)
    if not faults:
        faults += _duplicate_names(found)
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
        click.echo(f"{len(faults)} {'error' if len(faults) == 1 else 'errors'} found", err=True)
        sys.exit(1)


def _load(path: Path, found: list[FoundPlugin], faults: list[Fault]) -> None:
    """Load the plugins at a path."""
    from mooring.loading import PluginLoadError
    from mooring.loading.plugin_files import in_folder, load_file

    try:
        is_directory = path.is_dir() and not (path / "__init__.py").is_file()
        files = in_folder(path) if is_directory else [path]
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


def _duplicate_names(found: list[FoundPlugin]) -> list[Fault]:
    from mooring.loading import Fault

    first: dict[str, FoundPlugin] = {}
    faults = []
    for each in found:
        other = first.setdefault(each.name, each)
        if other is not each:
            faults.append(Fault(str(each.path), 0, f"a plugin {each.name} is also in {other.path}; rename one"))
    return faults


def _configured(file: str, found: list[FoundPlugin], faults: list[Fault]) -> dict[str, object]:
    """Return the arguments of the plugins in a configuration file, after checking the file."""
    from mooring.cli.input_files import read_text
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


def _dry_run(found: FoundPlugin, args: object) -> list[Fault]:
    from mooring.scheduler.dry_run import dry_run_fault

    return dry_run_fault(found, args, _CALL_SECONDS)
