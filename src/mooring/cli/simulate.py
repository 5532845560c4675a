"""`mooring simulate`: schedule workloads from manifests without a cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TextIO

import click

from mooring.api.decode_errors import ManifestError
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import config_option, output_option, plugin_options
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
    help="File or directory of manifests (YAML or JSON), or - for standard input. Repeatable.",
)
@click.argument("more", nargs=-1, metavar="[MANIFEST]...")
@click.option("-R", "--recursive", is_flag=True, help="Read subdirectories too.")
@config_option
@plugin_options
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed for breaking ties and for the names of pods."
)
@output_option("table", "wide", "json", "yaml")
def simulate(
    files: tuple[str, ...],
    more: tuple[str, ...],
    recursive: bool,
    config_file: str | None,
    requested: Requested,
    seed: int,
    output: str,
) -> None:
    """Schedule the workloads in manifests, and show the node of each pod and why pods are pending.

    Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets are expanded into the pods that their controllers would
    create. Pods with a node name are already bound. All other pods pass through the scheduling queue and all extension
    points, including preemption, until no more pod can be scheduled. Time is simulated.

    Without --config, plugins given by --plugin or --plugins-dir are enabled at all their extension points.

    The exit code is 0 even if pods are pending, 1 for invalid input, and 2 for a usage error.
    """
    from mooring.cli.output import print_result
    from mooring.simulate.report import report

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
    print_result(outcome.as_dict(), output, lambda: report(outcome, wide=output == "wide"))


def _run(
    paths: Sequence[str],
    config: SchedulerConfiguration,
    plugins: Mapping[str, type[Plugin]],
    *,
    recursive: bool,
    seed: int,
) -> Outcome:
    # Importing the engine is slow; usage errors are reported first.
    from mooring.scheduler.profiles import known_kinds
    from mooring.simulate.run import simulate as run
    from mooring.simulate.scenario import build

    given = read(paths, recursive=recursive, stdin=sys.stdin.buffer.read)
    scenario = build(given, seed=seed, kinds=known_kinds(plugins))
    with Progress("pods processed:") as progress:
        return run(scenario, config, plugins=plugins, seed=seed, progress=progress)


def _notes(config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]]) -> Iterable[str]:
    """Yield what has no effect in the configuration."""
    from mooring.plugins.registry import BUILTIN

    if config.extenders:
        yield "extenders are not called in a simulation"
    if absent := sorted(enabled_in(config) - BUILTIN.keys() - plugins.keys()):
        yield f"ignored, because they have no effect in kube-scheduler 1.36 by default: {', '.join(absent)}"


#: Seconds before the first progress line and between lines; by whether the stream is a terminal.
_DELAY: Final = {True: 1.0, False: 10.0}
_INTERVAL: Final = {True: 0.1, False: 10.0}
#: Calls between two reads of the clock.
_STRIDE: Final = 32


class Progress:
    """Reports progress on standard error. Use it as a context manager, and call it for every item."""

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
