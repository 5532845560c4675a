"""Comparison of two commits: `python -m bench.compare --base COMMIT`, or `make bench-compare BASE=COMMIT`.

The same benchmark runs on both commits alternately, so that noise of the machine affects both. A change is significant
only if the ranges of all rounds do not overlap.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from bench.tables import row

ROOT = Path(__file__).resolve().parent.parent
DECIDE = ("basic", "mixed", "nodeaffinity", "spread", "affinity", "antiaffinity", "preferred", "preemption")
LIVE = ("basic", "mixed", "affinity")
GANGS = (1, 10, 100)

#: Benchmark and metric -> the values of all rounds.
Values = dict[tuple[str, str], list[float]]


class Benchmark(NamedTuple):
    """One command, and the numbers in its JSON output that are compared."""

    name: str
    arguments: tuple[str, ...]
    metrics: tuple[str, ...]


def benchmarks(kinds: tuple[str, ...], nodes: int) -> Iterator[Benchmark]:
    """Yield the commands to run."""
    if "decide" in kinds:
        for workload in DECIDE:
            arguments = ("bench.decide", "--workload", workload, "--nodes", str(nodes), "-o", "json")
            yield Benchmark(f"decide {workload}", arguments, ("median_us", "peak_mib"))
    if "live" in kinds:
        for workload in LIVE:
            flags: tuple[str, ...] = (
                "--measure",
                "rate",
                "--scheduler",
                "mooring",
                "--workload",
                workload,
                "--nodes",
                str(nodes),
            )
            metrics = ("binds_per_s", "cpu_ms_per_pod", "peak_mib")
            yield Benchmark(f"live {workload}", ("bench.live", *flags, "-o", "json"), metrics)
    if "batch" in kinds:
        for gang in GANGS:
            flags = ("--scheduler", "mooring", "--gang", str(gang), "--nodes", str(nodes))
            metrics = ("binds_per_s", "cpu_ms_per_pod", "peak_mib")
            yield Benchmark(f"batch, gangs of {gang}", ("bench.batch", *flags, "-o", "json"), metrics)


def run(benchmark: Benchmark, tree: Path) -> dict[str, float]:
    """Run a benchmark on a checkout with this interpreter."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    command = [sys.executable, "-m", *benchmark.arguments]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {tree}:\n{done.stderr[-2000:]}")
    found = dict(_numbers(json.loads(done.stdout)))
    return {metric: found[metric] for metric in benchmark.metrics}


def _numbers(value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a JSON document, by their innermost key."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(part, int | float) and not isinstance(part, bool):
                yield key, float(part)
            else:
                yield from _numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from _numbers(part)


def verdict(base: list[float], new: list[float]) -> str:
    """Return the change of the median in percent, marked if it is within noise."""
    change = (statistics.median(new) / statistics.median(base) - 1) * 100 if statistics.median(base) else 0.0
    noise = min(new) <= max(base) and min(base) <= max(new)
    return f"{change:+.1f} %{' (noise)' if noise else ''}"


def shown(value: float) -> str:
    """Return a number with enough digits to see a change of a percent."""
    return f"{value:,.1f}" if value >= 100 else f"{value:.3f}"


@click.command()
@click.option("--base", default="HEAD~1", show_default=True, help="The commit to compare this checkout with.")
@click.option("--benchmark", "kinds", type=click.Choice(["decide", "live", "batch"]), multiple=True, default=["decide"])
@click.option("--rounds", default=3, show_default=True, help="How often each benchmark runs on each commit.")
@click.option("--nodes", default=5000, show_default=True)
def main(base: str, kinds: tuple[str, ...], rounds: int, nodes: int) -> None:
    """Compare the speed of this checkout with another commit."""
    with tempfile.TemporaryDirectory(prefix="mooring-base-") as folder:
        tree = Path(folder, "base")
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(tree), base], cwd=ROOT, check=True)
        try:
            for checkout in (tree, ROOT):  # a fresh checkout has no bytecode, which would look like a slow start
                sources = [str(checkout / name) for name in ("src", "bench")]
                subprocess.run([sys.executable, "-m", "compileall", "-q", *sources], check=True)
            print(row(["benchmark", "metric", "base", "new", "change"]), flush=True)
            for benchmark in benchmarks(kinds, nodes):
                _compare(benchmark, tree, rounds)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=False)


def _compare(benchmark: Benchmark, base: Path, rounds: int) -> None:
    found: dict[Path, Values] = {base: {}, ROOT: {}}
    for number in range(rounds):
        for tree in (base, ROOT) if number % 2 == 0 else (ROOT, base):
            for metric, value in run(benchmark, tree).items():
                found[tree].setdefault((benchmark.name, metric), []).append(value)
    for key, before in found[base].items():
        after = found[ROOT][key]
        cells = [*(shown(statistics.median(values)) for values in (before, after)), verdict(before, after)]
        print(row([*key, *cells]), flush=True)


if __name__ == "__main__":
    main()
