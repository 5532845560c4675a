"""`mooring recording`: show what is in a recording."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from mooring.cli.input_files import fail
from mooring.cli.options import output_option

if TYPE_CHECKING:
    from mooring.recording.recording_file import RecordingReader
    from mooring.simulation.report import Part


@click.command()
@click.argument("file")
@click.option(
    "--table",
    "table_name",
    type=click.Choice(["decisions", "events", "placements"]),
    help="Print the rows of a table as JSON lines, for pandas.read_json(lines=True) or polars.read_ndjson.",
)
@output_option("table", "json", "yaml")
def recording(file: str, table_name: str | None, output: str) -> None:
    """Show what is in a recording: how it was made, how many events of each kind, and which time it covers.

    The same tables are available to programs: `mooring.recording.tables.rows(FILE, "decisions")`.
    """
    from mooring.cli.output import print_result
    from mooring.recording.recording_file import RecordingReader
    from mooring.recording.records import RecordingError
    from mooring.recording.tables import TABLES

    try:
        reader = RecordingReader(file)
        if table_name is None:
            found = _summary(reader)
            print_result(found, output, lambda: _report(found))
        else:
            for row in TABLES[table_name](reader):
                click.echo(msgspec.json.encode(row).decode())
    except RecordingError as error:
        fail([str(error)])
    if reader.problem:
        click.echo(f"note: {reader.problem}", err=True)


def _summary(reader: RecordingReader) -> dict[str, Any]:
    from mooring.recording.records import Kind

    first, header = reader.start()
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    last = first
    for record in reader:
        counts[Kind(record[0]).name.lower()] += 1
        last = record[1]
        if record[0] in (Kind.PUT, Kind.REMOVE):
            kinds[record[2]] += 1
    size = reader.path.stat().st_size
    total = sum(counts.values())
    return {
        "file": str(reader.path),
        "source": header.source,
        "mooring": header.mooring,
        "emulatedVersion": header.release,
        "anonymized": header.anonymized,
        "plugins": [each.name for each in header.plugins],
        "start": first,
        "seconds": round(last - first, 3),
        "bytes": size,
        "bytesPerEvent": round(size / total, 1) if total else 0.0,
        "events": dict(counts.most_common()),
        "objects": dict(kinds.most_common()),
    }


def _report(found: dict[str, Any]) -> list[Part]:
    from mooring.api.meta import format_time
    from mooring.cli.output import table

    total = sum(found["events"].values())
    head = (
        f"{found['file']}: recorded by `{found['source']}` (Mooring {found['mooring']}), "
        f"kube-scheduler {found['emulatedVersion']}, from {format_time(found['start'])} for {found['seconds']:,} s. "
        f"{total:,} events in {found['bytes']:,} bytes, {found['bytesPerEvent']} bytes an event."
    )
    return [
        head,
        table("Events", ("event", "count"), [(n, f"{c:,}") for n, c in found["events"].items()], right=("count",)),
        table("Objects", ("kind", "changes"), [(n, f"{c:,}") for n, c in found["objects"].items()], right=("changes",)),
    ]
