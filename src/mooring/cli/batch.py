"""`mooring batch`: batch sessions, as Volcano has them."""

from __future__ import annotations

from typing import BinaryIO

import click


@click.group()
def batch() -> None:
    """Batch sessions, as Volcano has them."""


@batch.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--trace", is_flag=True, help="Also tell the orders, shares and scores at the start, and every step.")
def evaluate(file: BinaryIO, trace: bool) -> None:
    """Answer what a session would decide, for one case a line.

    A case is a JSON object {"id", "conf": TEXT, "objects": [...], "sessions"?: 2}, where conf is the text of a
    volcano-scheduler.conf; FILE may be gzipped, and standard input is read where it is left out. Each answer holds what
    is bound, promised and evicted, and the statuses of PodGroups, pods and queues. A case that cannot be read gives
    {"id", "error"}; the exit code is 1 then, and the other cases are answered all the same.
    """
    from mooring.batch.evaluate import CaseError
    from mooring.batch.evaluate import evaluate as evaluate_case
    from mooring.cli.case_lines import answer_cases

    answer_cases(file, lambda case: evaluate_case(case, trace=trace), CaseError, "{id, conf, objects}")
