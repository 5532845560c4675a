"""`mooring evaluate`: cases in, answers out, one JSON object a line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import click
import msgspec

from mooring.cli.inputs import fail
from mooring.cli.plugin_options import plugin_options
from mooring.loading import Catalog, PluginLoadError, Requested, find_plugins
from mooring.simulate.evaluate import CaseError
from mooring.simulate.evaluate import evaluate as evaluate_case


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@plugin_options
def evaluate(file: BinaryIO, requested: Requested) -> None:
    """Answer what the scheduler would decide, for one case a line.

    A case is a JSON object {"id", "objects": [...], "pod": {...}, "config"?: {...}}; FILE may be gzipped, and standard
    input is read where it is left out. Each answer holds the verdict of every Filter plugin on every node, every
    weighted score, and what preemption would do. A case that cannot be read gives {"id", "error"}; the exit code is 1
    then, and the other cases are answered all the same.
    """
    try:
        catalog = find_plugins(requested)
    except PluginLoadError as error:
        fail(map(str, error.faults))
    failed = False
    out = sys.stdout.buffer
    for line in _lines(file):
        reply = _reply(line, catalog)
        failed = failed or "error" in reply
        out.write(msgspec.json.encode(reply) + b"\n")
    out.flush()
    if failed:
        raise SystemExit(1)


def _reply(line: bytes, catalog: Catalog) -> dict[str, object]:
    try:
        case = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {"id": None, "error": f"not JSON: {error}"}
    if not isinstance(case, dict):
        return {"id": None, "error": "not a JSON object; a case is {id, objects, pod}"}
    try:
        return {"id": case.get("id"), **evaluate_case(case, catalog)}
    except CaseError as error:
        return {"id": case.get("id"), "error": str(error)}


def _lines(file: BinaryIO) -> Iterator[bytes]:
    start = file.peek(2)[:2] if hasattr(file, "peek") else b""
    stream: Iterable[bytes] = file
    if start == b"\x1f\x8b":
        import gzip

        stream = gzip.GzipFile(fileobj=file)
    return (line for line in stream if line.strip())
