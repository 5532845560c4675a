"""`mooring replay`: repeat the decisions of a recording, or decide it with another scheduler."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import ReleaseChoice, config_option, output_option, plugin_options, release_options
from mooring.loading import Requested

if TYPE_CHECKING:
    from mooring.simulation.replay import ReplayResult
    from mooring.simulation.report import Part


@click.command()
@click.argument("file")
@config_option
@plugin_options
@release_options
@output_option("table", "wide", "json", "yaml")
def replay(file: str, config_file: str | None, requested: Requested, emulated: ReleaseChoice, output: str) -> None:
    """Repeat the decisions of a recording of `mooring run --record`, and compare each with the recorded one.

    Plugins that are not built in are given by --plugin, as they were to `mooring run`.

    The exit code is 1 if a decision differs.
    """
    from mooring.cli.output import print_result
    from mooring.config import ConfigError
    from mooring.live.recording import plugin_files
    from mooring.recording.recording_file import RecordingError
    from mooring.scheduler.profile import ProfileError
    from mooring.simulation.replay import replay as repeat

    setup = read_setup(config_file, requested, emulated.release())
    try:
        result = repeat(file, plugins=setup.plugins, files=plugin_files(setup.catalog))
    except (RecordingError, ProfileError) as error:
        fail([str(error)])
    except ConfigError as error:
        fail(error.lines())
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    print_result(result, output, lambda: _report(result))
    sys.exit(0 if result.identical else 1)


def _report(result: ReplayResult) -> list[Part]:
    from mooring.cli.output import table

    told = "all identical" if result.identical else f"{result.different:,} differ"
    head = (
        f"{result.events:,} events, {result.decisions:,} decisions: {told} "
        f"({result.placed:,} pods placed, {result.failed:,} attempts failed)."
    )
    if result.identical:
        return [head]
    rows = [(f"{each.number:,}", each.pod, each.recorded, each.replayed) for each in result.differences[:20]]
    return [head, table("Differences", ("decision", "pod", "recorded", "replayed"), rows, right=("decision",))]
