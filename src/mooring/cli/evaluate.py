"""`mooring evaluate`: print the scheduler's decisions for test cases, one JSON object per line."""

from __future__ import annotations

from typing import BinaryIO

import click

from mooring.cli.input_files import fail
from mooring.cli.json_lines import answer_cases
from mooring.cli.options import ReleaseChoice, plugin_options, release_options
from mooring.loading import PluginLoadError, Requested, find_plugins
from mooring.simulation.evaluate import CaseError
from mooring.simulation.evaluate import evaluate as evaluate_case


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@plugin_options
@release_options
def evaluate(file: BinaryIO, requested: Requested, emulated: ReleaseChoice) -> None:
    """Print what the scheduler would decide, for one case per line.

    A case is a JSON object {"id", "objects": [...], "pod": {...}, "config"?: {...}}. FILE may be gzipped; the default
    is standard input. Each answer contains the status of every Filter plugin for every node, every weighted score, and
    the result of preemption. The answer to an invalid case is {"id", "error"}; the other cases are still answered, and
    the exit code is 1.

    With "pods": [...] instead of "pod", the pods are scheduled in that order by one scheduler. Each attempt also
    contains the node, the result of Permit, and which pods are waiting, released or rejected. "elapse": {"3": 4}
    advances the clock by four seconds before attempt 3, counted from 0. A pod can be listed again for another attempt.
    """
    release = emulated.release()
    try:
        catalog = find_plugins(requested)
    except PluginLoadError as error:
        fail(map(str, error.faults))
    answer_cases(
        file, lambda case: evaluate_case(case, catalog, release=release), CaseError, "{id, objects, pod or pods}"
    )
