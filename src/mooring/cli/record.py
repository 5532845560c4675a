"""`mooring record`: record a cluster from watches, whichever scheduler runs it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.daemon import StopSignals, log_start, run_until_stopped
from mooring.cli.input_files import fail, read_setup
from mooring.cli.options import ReleaseChoice, cluster_options, config_option, plugin_options, release_options
from mooring.loading import Requested

if TYPE_CHECKING:
    from mooring.live.recording import WatchRecorder


@click.command()
@cluster_options
@click.option("-o", "--output-file", "file", metavar="FILE", required=True, help="File to write, or to append to.")
@click.option("--seconds", type=float, help="Stop after this time. By default on Ctrl-C.")
@click.option("--anonymize", is_flag=True, help="Replace all names, so that the recording can be given to others.")
@click.option(
    "--summary",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the summary at the end; json is printed on standard output.",
)
@config_option
@plugin_options
@release_options
def record(
    choice: ClusterChoice,
    file: str,
    seconds: float | None,
    anonymize: bool,
    summary: str,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
) -> None:
    """Record the objects of a cluster that decisions depend on, and every change, until Ctrl-C.

    Needs only the rights to list and watch (`mooring rbac --read-only`), and works whichever scheduler runs the
    cluster. `mooring run --record DIR` records Mooring itself, with every decision. Secrets, environment variables,
    commands and arguments of containers are never recorded.

    --config names the configuration of the cluster's scheduler, so that a replay uses the same one.
    """
    from mooring.cli.explain import server_minor
    from mooring.cli.output import print_json
    from mooring.kube import Client
    from mooring.live.informers import KINDS
    from mooring.live.recording import WatchRecorder, header_of, plugin_files
    from mooring.recording.anonymize import Anonymizer
    from mooring.recording.recording_file import RecordingWriter
    from mooring.recording.records import RecordingError
    from mooring.scheduler.profiles import enabled_kinds

    release = emulated.release(server_minor(choice) if emulated.named is None else None)
    setup = read_setup(config_file, requested, release)
    access = cluster_access(choice)
    header = header_of(setup.config, source="mooring record", plugins=plugin_files(setup.catalog), anonymized=anonymize)
    try:
        writer = RecordingWriter(Path(file), header, time=time.time())
    except RecordingError as error:
        fail([str(error)])
    recorders: list[WatchRecorder] = []

    async def work() -> None:
        async with Client(access) as client:
            extra = tuple(kind for kind in enabled_kinds(setup.config, setup.plugins) if kind not in KINDS)
            recorder = WatchRecorder(client, writer, extra=extra, anonymizer=Anonymizer() if anonymize else None)
            recorders.append(recorder)
            await recorder.run(seconds)

    log_start("Recording", access, file=file, emulatedVersion=release.version)

    async def run(signals: StopSignals) -> int:
        return await run_until_stopped(work(), signals)

    with StopSignals() as signals:
        code = asyncio.run(run(signals))
    absent = [kind for recorder in recorders for kind in recorder.missing()]
    if summary == "json":
        told = {"file": file, "events": writer.records, "bytes": writer.bytes, "notRecorded": absent}
        print_json({**told, "problem": writer.problem})
    else:
        if absent:
            told_kinds = ", ".join(absent)
            click.echo(
                f"note: not recorded, because the cluster has none or they may not be read: {told_kinds}", err=True
            )
        click.echo(f"Recorded {writer.records:,} events in {file} ({writer.bytes:,} bytes).", err=True)
    if writer.problem:
        fail([f"{file}: {writer.problem}; the recording is incomplete"])
    raise SystemExit(code)
