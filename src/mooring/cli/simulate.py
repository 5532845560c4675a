"""`mooring simulate`: manifests in, placements out, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

import click
import msgspec

from mooring.api.manifest_error import ManifestError
from mooring.cli.inputs import fail, read_setup
from mooring.cli.plugin_options import plugin_options
from mooring.cli.progress import Progress
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.loading import Requested
from mooring.loading.setup import enabled_in
from mooring.scheduler.profile import ProfileError
from mooring.simulate.outcome import Outcome
from mooring.simulate.sources import InputError, read


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="MANIFEST",
    help="A file or folder of manifests (YAML or JSON), or - for standard input; repeatable.",
)
@click.argument("more", nargs=-1, metavar="[MANIFEST]...")
@click.option("-R", "--recursive", is_flag=True, help="Look into the folders of folders too.")
@click.option("--config", "config_file", metavar="FILE", help="A KubeSchedulerConfiguration (v1, v1beta3 or v1beta2).")
@plugin_options
@click.option("--seed", type=int, default=0, show_default=True, help="Decides ties and the names of pods.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", show_default=True
)
def simulate(
    files: tuple[str, ...],
    more: tuple[str, ...],
    recursive: bool,
    config_file: str | None,
    requested: Requested,
    seed: int,
    output: str,
) -> None:
    """Schedule nodes and workloads from manifests, and show what goes where and why some pods stay pending.

    Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets become the pods that their controllers would make; pods
    that name a node are there already. Then all pods go through the scheduling queue and the whole framework,
    preemption included, until nothing changes any more. Time is simulated, nothing is waited for.

    Without --config, plugins given by --plugin or --plugins-dir are enabled at all their extension points.

    The exit code is 0 also when pods stay pending, 1 when the input cannot be used, 2 for a wrong command line.
    """
    paths = (*files, *more)
    if not paths:
        raise click.UsageError("give manifests with -f: files, folders, or - for standard input")
    setup = read_setup(config_file, requested)
    config, plugins = setup.config, setup.plugins
    try:
        outcome = _run(paths, config, plugins, recursive=recursive, seed=seed)
    except (InputError, ManifestError, ProfileError) as error:
        fail(str(error).splitlines())
    for note in (*outcome.notes, *setup.notes, *_notes(config, plugins)):
        click.echo(f"note: {note}", err=True)
    _show(outcome, output)


def _run(
    paths: Sequence[str],
    config: SchedulerConfiguration,
    plugins: Mapping[str, type[Plugin]],
    *,
    recursive: bool,
    seed: int,
) -> Outcome:
    # The engine takes a while to import; wrong options are told before.
    from mooring.scheduler.build import known_kinds
    from mooring.simulate.run import simulate as run
    from mooring.simulate.scenario import build

    given = read(paths, recursive=recursive, stdin=sys.stdin.buffer.read)
    scenario = build(given, seed=seed, kinds=known_kinds(plugins))
    with Progress("pods done:") as progress:
        return run(scenario, config, plugins=plugins, seed=seed, progress=progress)


def _notes(config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]]) -> Iterable[str]:
    """What of the configuration has no effect."""
    from mooring.plugins.registry import BUILTIN

    if config.extenders:
        yield "extenders are not called in a simulation"
    if absent := sorted(enabled_in(config) - BUILTIN.keys() - plugins.keys()):
        yield f"left out, since they have no effect in kube-scheduler 1.36 as it comes: {', '.join(absent)}"


# Output


def _show(outcome: Outcome, output: str) -> None:
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(outcome.as_dict()), indent=2).decode()
        click.echo(text)
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(outcome.as_dict(), sort_keys=False, allow_unicode=True), nl=False)
    else:
        from mooring.cli.tables import show
        from mooring.simulate.report import report

        show(report(outcome, wide=output == "wide"), sys.stdout)
