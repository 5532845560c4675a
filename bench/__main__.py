"""`python -m bench`: every workload at every cluster size, each in its own process, as one table."""

from __future__ import annotations

import json
import subprocess
import sys

import click

from bench.tables import row
from bench.workloads import WORKLOADS

SIZES = (1000, 5000, 15000)
COLUMNS = ("workload", "nodes", "median_us", "p99_us", "decisions_per_s", "peak_mib")
HEADINGS = ("workload", "nodes", "median us", "p99 us", "decisions/s", "peak MiB", "growth")


@click.command()
@click.option("--nodes", type=int, multiple=True, default=SIZES, show_default=True, help="Cluster sizes.")
@click.option("--workload", "names", type=click.Choice(list(WORKLOADS)), multiple=True, help="By default all.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(nodes: tuple[int, ...], names: tuple[str, ...], output: str) -> None:
    """Time decisions without I/O. Growth is the ratio of the median to that of the smallest cluster."""
    results = []
    if output == "table":
        print(row(HEADINGS), flush=True)
    for name in names or tuple(WORKLOADS):
        smallest = None
        for size in nodes:
            result = _measure(name, size)
            smallest = smallest or result["median_us"]
            result["growth"] = round(result["median_us"] / smallest, 2)
            results.append(result)
            if output == "table":
                print(row([*(result[column] for column in COLUMNS), f"{result['growth']}x"]), flush=True)
    if output == "json":
        print(json.dumps(results, indent=2))


def _measure(name: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.decide", "--nodes", str(size), "--workload", name, "-o", "json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


if __name__ == "__main__":
    main()
