"""`mooring plugin debug`: run one scheduling attempt with a plugin under pdb."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from mooring.cli.cluster_access import ClusterChoice, context_namespace
from mooring.cli.options import cluster_options, config_option, filename_option, plugin_options

if TYPE_CHECKING:
    from mooring.framework.plugin import Plugin
    from mooring.loading import FoundPlugin, Requested, Setup

_HELP = "c: continue, n: next line, s: step into, p EXPRESSION: print, w: stack, q: quit, h: help"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pod", "key", required=True, metavar="NAMESPACE/NAME", help="The pod to schedule.")
@filename_option("Use these manifests instead of a cluster.")
@click.option("-R", "--recursive", is_flag=True, help="Read subdirectories too.")
@cluster_options
@config_option
@plugin_options
def debug(
    file: Path,
    key: str,
    files: tuple[str, ...],
    recursive: bool,
    choice: ClusterChoice,
    config_file: str | None,
    requested: Requested,
) -> None:
    """Run one scheduling attempt for a pod with the plugins in FILE under pdb, the Python debugger.

    The attempt uses the current state of a cluster, or manifests (-f). Nothing is written to the cluster, and the pod
    is not bound: the attempt ends with Permit. A pod that has a node is scheduled as if it had none.

    The debugger stops at the first call of each method of the plugin, at breakpoint(), and where the plugin raises. It
    steps over Mooring's own code. A plugin with `isolation: process` runs in this process.

    Without --config, the plugins are enabled at all their extension points.

    The exit code is 1 if the plugin failed or if the input is invalid, and 2 for a usage error.
    """
    from mooring.cli.explain import objects_in_cluster, objects_in_manifests
    from mooring.cli.input_files import fail, read_setup
    from mooring.scheduler.profile import ProfileError
    from mooring.simulation.debug import debug_attempt
    from mooring.simulation.sources import InputError

    namespace, _, name = key.rpartition("/")
    if not name or "/" in namespace:
        raise click.BadParameter(f"{key!r}: give NAMESPACE/NAME", param_hint="--pod")
    key = f"{namespace or ('default' if files else context_namespace(choice))}/{name}"
    if "-" in files or config_file == "-":
        raise click.UsageError("standard input is for the debugger; give a file")
    setup = read_setup(config_file, msgspec.structs.replace(requested, files=(file,)))
    plugins = _debugged(file, setup)
    objects = objects_in_manifests(files, setup, recursive=recursive) if files else objects_in_cluster(choice, setup)
    names = [each.name for each in plugins]
    path = plugins[0].path or file  # a configuration may refer to the same file by another path
    click.echo(f"Scheduling pod {key} with {', '.join(names)}. {_HELP}", err=True)
    try:
        result = debug_attempt(objects, key, setup.config, plugins=_in_process(setup), debugged=names, path=path)
    except (InputError, ProfileError) as error:
        fail(str(error).splitlines())
    if result.quit:
        return
    click.echo(f"pod {key}: {result.outcome}")
    if result.not_called:
        click.echo(f"not called: {', '.join(result.not_called)}")
    if result.failure:
        sys.exit(1)


def _debugged(file: Path, setup: Setup) -> list[FoundPlugin]:
    """Return the plugins in a file. Ends the command if there are none, or if no profile enables them."""
    from mooring.cli.input_files import fail
    from mooring.loading import POD
    from mooring.loading.setup import enabled_in

    found = [each for each in setup.catalog.found.values() if each.path is not None and each.path.samefile(file)]
    pods = [each for each in found if each.kind is POD]
    if not pods:
        what = "defines only plugins for batch sessions" if found else "defines no plugin; derive a class from Plugin"
        fail([f"{file}: {what}"])
    enabled = enabled_in(setup.config)
    if not any(each.name in enabled for each in pods):
        fail(setup.notes)
    return pods


def _in_process(setup: Setup) -> dict[str, type[Plugin]]:
    """Return the plugin classes, without isolation."""
    from mooring.loading.isolation.proxy import IsolatedPlugin

    return {name: cls.settings[0] if issubclass(cls, IsolatedPlugin) else cls for name, cls in setup.plugins.items()}
