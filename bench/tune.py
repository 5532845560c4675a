"""Tuning: `python -m bench.tune` searches on generated load, and compares with the default profile on held-out load.

The load has other seeds for the search and for the comparison. `--dask N` repeats the search on a local Dask cluster of
N worker processes, kills one of them, and checks that the results are equal.
"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click

from bench.tables import row
from mooring.config import default_config
from mooring.loading import Requested
from mooring.releases import NEWEST
from mooring.simulation.tuning.space import Space
from mooring.simulation.tuning.study import DaskWorkers, LocalWorkers, Objective, Study, Workers
from mooring.simulation.tuning.workload import Generated, workloads_of

_MEASURES = ("waiting", "waiting_p95", "utilization", "cost", "fragmentation", "unscheduled")


@click.command()
@click.option("--nodes", default=20, show_default=True)
@click.option("--pods", default=400, show_default=True)
@click.option("--load", default=95, show_default=True)
@click.option("--seeds", default=5, show_default=True, help="Workloads for the search, and as many held-out ones.")
@click.option("--trials", default=64, show_default=True)
@click.option("--objective", "names", multiple=True, default=("waiting", "cost"), show_default=True)
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True)
@click.option("--dask", default=0, metavar="N", help="Repeat on a local Dask cluster of N processes, and kill one.")
def main(
    nodes: int, pods: int, load: int, seeds: int, trials: int, names: tuple[str, ...], jobs: int, dask: int
) -> None:
    """Print the measures of the default profile and of the chosen configuration on held-out load."""
    training, held_out = workloads_of((), None, Generated(nodes, pods, load), seeds=seeds, seed=0)

    def search(workers: Workers) -> Study:
        folder = Path(tempfile.mkdtemp(prefix="mooring-tune-"))
        study = Study(
            Space(default_config()),
            [Objective(name) for name in names],
            training,
            held_out,
            requested=Requested(),
            release=NEWEST,
            file=folder / "study.journal",
        )
        started = time.perf_counter()
        with workers:
            study.search(trials, workers, lambda *_: None)
        print(f"{type(workers).__name__}: {trials} trials in {time.perf_counter() - started:.1f} s", flush=True)
        return study

    study = search(LocalWorkers(jobs))
    report = study.report(LocalWorkers(1))
    print(row(["held out, mean", "default", "tuned", "change %", "better"]))
    for name in _MEASURES:
        old = [each["present"][name] for each in report.evidence]
        new = [each["chosen"][name] for each in report.evidence]
        before, after = statistics.fmean(old), statistics.fmean(new)
        sign = -1 if name == "utilization" else 1
        better = sum(sign * a < sign * b for a, b in zip(new, old, strict=True))
        change = f"{100 * (after - before) / before:+.1f}" if before else "-"
        print(row([name, f"{before:.2f}", f"{after:.2f}", change, f"{better}/{len(old)}"]))
    if dask:
        _compare_with_dask(study, dask, search)


def _compare_with_dask(study: Study, count: int, search: Callable[[Workers], Study]) -> None:
    from distributed import LocalCluster

    with LocalCluster(  # type: ignore[no-untyped-call]  # Dask has no types
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        timer = threading.Timer(5.0, os.kill, (victim, signal.SIGKILL))
        timer.start()
        again = search(DaskWorkers(cluster.scheduler_address))
        timer.join()
    print("one worker was killed after 5 s; results equal:", again.trials() == study.trials())


if __name__ == "__main__":
    main()
