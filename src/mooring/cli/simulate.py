"""`mooring simulate`: schedule workloads from manifests without a cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Final, TextIO

import click

from mooring.api.decode_errors import ManifestError
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import (
    ReleaseChoice,
    config_option,
    filename_option,
    output_option,
    plugin_options,
    release_options,
)
from mooring.config import ConfigError
from mooring.loading import Requested, Setup
from mooring.scheduler.profile import ProfileError
from mooring.simulation.outcome import Outcome
from mooring.simulation.sources import InputError, Source, read, read_source


@click.command()
@filename_option("File or directory of manifests (YAML or JSON), or - for standard input. Repeatable.")
@click.argument("more", nargs=-1, metavar="[MANIFEST]...")
@click.option("-R", "--recursive", is_flag=True, help="Read subdirectories too.")
@config_option
@plugin_options
@release_options
@click.option(
    "--scheduler-conf",
    metavar="FILE",
    help="A volcano-scheduler.conf for batch sessions. By default the one in the manifests, or Volcano's default.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="The schedulerName of pods that batch sessions schedule. Repeatable.  [default: volcano]",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed for breaking ties and for the names of pods."
)
@click.option("--allow-plugin-errors", is_flag=True, help="Exit with code 0 even if a plugin failed.")
@output_option("table", "wide", "json", "yaml")
def simulate(
    files: tuple[str, ...],
    more: tuple[str, ...],
    recursive: bool,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    scheduler_conf: str | None,
    scheduler_names: tuple[str, ...],
    seed: int,
    allow_plugin_errors: bool,
    output: str,
) -> None:
    """Schedule the workloads in manifests, and show the node of each pod and why pods are pending.

    Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets are expanded into the pods that their controllers would
    create. Pods with a node name are already bound. All other pods pass through the scheduling queue and all extension
    points, including preemption, until no more pod can be scheduled. Time is simulated.

    If there are PodGroups, Queues or Jobs of Volcano, or pods for them, batch sessions schedule these gangs on the same
    nodes, as `mooring run --scheduler-conf` does on a cluster.

    Without --config, plugins given by --plugin or --plugins-dir are enabled at all their extension points.

    The exit code is 0 even if pods are pending, 1 for invalid input or if a plugin failed, and 2 for a usage error.
    With --allow-plugin-errors it is 0 if a plugin failed.
    """
    from mooring.cli.output import print_result
    from mooring.simulation.report import report

    paths = (*files, *more)
    if not paths:
        raise click.UsageError("give manifests with -f: files, folders, or - for standard input")
    setup = read_setup(config_file, requested, emulated.release())
    try:
        conf = None if scheduler_conf is None else read_source(scheduler_conf)
        outcome = _run(paths, setup, recursive=recursive, seed=seed, conf=conf, scheduler_names=scheduler_names)
    except (InputError, ManifestError, ProfileError) as error:
        fail(str(error).splitlines())
    except ConfigError as error:
        fail(error.lines())
    for note in outcome.notes:
        click.echo(f"note: {note}", err=True)
    print_result(outcome.as_dict(), output, lambda: report(outcome, wide=output == "wide"))
    for failures in outcome.plugin_failures:
        times = "once" if failures.count == 1 else f"{failures.count} times, first"
        click.echo(f"plugin {failures.plugin} failed {times}: {failures.first}", err=True)
        if failures.traceback:
            click.echo(failures.traceback, err=True)
    if outcome.plugin_failures and not allow_plugin_errors:
        sys.exit(1)


def _run(
    paths: Sequence[str],
    setup: Setup,
    *,
    recursive: bool,
    seed: int,
    conf: Source | None,
    scheduler_names: tuple[str, ...],
) -> Outcome:
    # Importing the engine is slow; usage errors are reported first.
    from mooring.simulation.run import simulate_manifests

    given = read(paths, recursive=recursive, stdin=sys.stdin.buffer.read)
    with Progress("pods processed:") as progress:
        return simulate_manifests(
            given, setup, seed=seed, conf=conf, scheduler_names=scheduler_names, progress=progress
        )


#: Whether the stream is a terminal -> the seconds before the first progress line and between lines.
_DELAY: Final = {True: 1.0, False: 10.0}
_INTERVAL: Final = {True: 0.1, False: 10.0}
#: The number of calls between two reads of the clock.
_STRIDE: Final = 32


class Progress:
    """A progress report on standard error. Use it as a context manager, and call it for every item."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._screen = self._stream.isatty()
        self._next = time.monotonic() + _DELAY[self._screen]
        self._calls = 0
        self._written = False

    def __call__(self, done: int, total: int) -> None:
        """Report progress if enough time has passed."""
        self._calls += 1
        if self._calls % _STRIDE:
            return
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _INTERVAL[self._screen]
            self._write(f"{self._what} {done:,} of {total:,}")

    def _write(self, text: str) -> None:
        self._written = True
        self._stream.write(f"\r{text} " if self._screen else f"{text}\n")
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written and self._screen:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
