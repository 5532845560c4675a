"""`mooring evaluate`: cases in, answers out, one JSON object a line."""

from __future__ import annotations

from typing import BinaryIO

import click

from mooring.cli.case_lines import answer_cases
from mooring.cli.inputs import fail
from mooring.cli.plugin_options import plugin_options
from mooring.loading import PluginLoadError, Requested, find_plugins
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

    With "pods": [...] instead of "pod" the pods are tried in that order, as by one process: each attempt also tells
    the node, what Permit said, who waits and who was released or rejected. "elapse": {"3": 4} lets four seconds pass
    before the attempt of that number; a pod that is listed again is tried again.
    """
    try:
        catalog = find_plugins(requested)
    except PluginLoadError as error:
        fail(map(str, error.faults))
    answer_cases(file, lambda case: evaluate_case(case, catalog), CaseError, "{id, objects, pod or pods}")
