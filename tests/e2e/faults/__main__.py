"""`python -m tests.e2e.faults --count 2000`: inject faults on a real control plane, and check that nothing is lost."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import click

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import ControlPlane
from tests.e2e.faults.plans import CALLS, Plan
from tests.e2e.faults.soak import soak


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--count", default=2000, show_default=True, help="The number of faults.")
@click.option("--seed", default=1, show_default=True, help="The seed of the random source.")
def main(count: int, seed: int) -> None:
    """Schedule pods and gangs while requests fail in every way and the scheduler is killed."""
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(plane)
        plan = soak(cluster, Path(folder), count=count, seed=seed, tell=click.echo)
        click.echo(_table(plan))


def _table(plan: Plan) -> str:
    """Return the number of faults by kind and call."""
    kinds: Counter[str] = Counter()
    for (_, kind), number in plan.happened.items():
        kinds[kind] += number
    lines = [f"{'':10}" + "".join(f"{call:>8}" for call in CALLS) + f"{'total':>8}"]
    for kind, total in kinds.most_common():
        row = "".join(f"{number:>8}" for number in (_number(plan, call, kind) for call in CALLS))
        lines.append(f"{kind:10}{row}{total:>8}")
    return "\n".join(lines)


def _number(plan: Plan, call: str, kind: str) -> int:
    return sum(number for key, number in plan.happened.items() if key == (call, kind))


if __name__ == "__main__":
    main()
