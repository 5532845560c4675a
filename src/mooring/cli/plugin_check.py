"""`mooring plugin check`: check plugins for errors, without a cluster."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mooring.loading import Catalog, Fault, FoundPlugin
    from mooring.loading.dry_run import DryRun

#: Timeouts for loading a file, and for the calls in the dry run.
_LOAD_SECONDS, _CALL_SECONDS = 60.0, 10.0


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Also check the plugins' arguments in this KubeSchedulerConfiguration or volcano-scheduler.conf.",
)
@click.option("--no-dry-run", is_flag=True, help="Do not call the plugins on a small simulated cluster.")
def check(paths: tuple[Path, ...], config_file: str | None, no_dry_run: bool) -> None:
    """Check plugins for errors, without a cluster.

    PATH is a file, a package, or a directory of both. The command reports invalid and missing methods, wrong signatures
    and misspelled names, arguments that cannot be decoded, requirements that are not installed, and blocking calls in
    async methods. A dry run on a small simulated cluster finds exceptions, calls that hang and invalid return values.
    It calls the plugin as a scheduling attempt does, up to Permit. Extension points that it does not reach are listed
    as "not called"; `mooring simulate` and `mooring plugin debug` run the plugin on your own pods and nodes.

    The exit code is 0 if there are no errors, 1 if there are errors, and 2 for a usage error.
    """
    found: list[FoundPlugin] = []
    faults: list[Fault] = []
    for path in paths:
        _load(path, found, faults)
    if not faults:
        faults += _duplicate_names(found)
    args = _configured(config_file, found, faults) if config_file is not None and not faults else {}
    results = {} if no_dry_run else {each.name: _dry_run(each, args.get(each.name)) for each in found}
    for result in results.values():
        faults += result.faults
    for fault in faults:
        click.echo(str(fault))
    for warning in (warning for result in results.values() for warning in result.warnings):
        click.echo(f"warning: {warning}", err=True)
    broken = {fault.path for fault in faults}
    for each in found:
        if not faults or str(each.path) not in broken:
            verdict, details = _verdict(each, results.get(each.name))
            click.echo(f"{each.path}: {each.name}: {verdict} ({details}; sha256 {each.sha256})")
    if faults:
        click.echo(f"{len(faults)} {'error' if len(faults) == 1 else 'errors'} found", err=True)
        sys.exit(1)


def _load(path: Path, found: list[FoundPlugin], faults: list[Fault]) -> None:
    """Load the plugins at a path."""
    from mooring.loading import PluginLoadError
    from mooring.loading.deadline import load_within
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
            found += load_within(_LOAD_SECONDS, functools.partial(load_file, file, "check"))
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
    from mooring.batch.conf import is_batch_conf
    from mooring.cli.input_files import read_text
    from mooring.config import ConfigError, load_config
    from mooring.loading import Catalog, Fault
    from mooring.loading.plugin_sources import split

    try:
        text, _ = split(read_text(file))
        if is_batch_conf(text):
            return _batch_configured(text, file, Catalog(found))
        config = load_config(text, source=file, plugins=Catalog(found).specs())
    except ConfigError as error:
        faults += [Fault(file, each.line or 0, each.describe()) for each in error.errors]
        return {}
    return {name: args for profile in config.profiles for name, args in profile.plugin_config.items()}


def _batch_configured(text: str, file: str, catalog: Catalog) -> dict[str, object]:
    """Return the arguments of the plugins in a volcano-scheduler.conf. Raises ConfigError."""
    from mooring.batch.actions import ACTIONS
    from mooring.batch.conf import read_conf
    from mooring.batch.plugins import PLUGINS
    from mooring.live.batch.batch_settings import session_actions, session_plugins
    from mooring.loading.plugin_kinds import plugin_name

    users = session_plugins(catalog)
    actions = {**ACTIONS, **session_actions(catalog)}
    conf = read_conf(text, source=file, actions=actions, plugins={**PLUGINS, **users})
    for warning in conf.warnings:
        click.echo(f"warning: {warning}", err=True)
    return {plugin_name(users[each.name]): each.arguments for each in conf.options() if each.name in users}


def _verdict(found: FoundPlugin, result: DryRun | None) -> tuple[str, str]:
    """Return the verdict on a plugin without errors, and the details."""
    if result is None:
        return "ok", ", ".join(sorted(found.kind.points(found.cls))) or f"{found.kind.name} plugin"
    if not result.called:
        return "not called", result.reason or ", ".join(result.not_called)
    rest = f"; not called: {', '.join(result.not_called)}" if result.not_called else ""
    return "ok", f"{', '.join(result.called)}{rest}"


def _dry_run(found: FoundPlugin, args: Any) -> DryRun:
    from mooring.loading import JOB, POD

    if found.kind is POD:
        from mooring.scheduler.dry_run import dry_run_found

        return dry_run_found(found, args, _CALL_SECONDS)
    if found.kind is JOB:
        from mooring.controllers.jobs.job_plugin_files import dry_run_job

        return dry_run_job(found, (), _CALL_SECONDS)
    from mooring.batch.dry_run import dry_run_session

    return dry_run_session(found, args or {}, _CALL_SECONDS)
