"""The cost of decision records: `python -m bench.records`.

On a real API server the difference is within noise. This benchmark runs the same pods through engines with and without
records, without an API server, in alternating rounds, and compares the CPU time.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import time

import click

from bench.decide import GC_THRESHOLDS
from bench.workloads import WORKLOADS, node
from mooring.config import default_config
from mooring.framework import Status
from mooring.framework.api_clients import Binding
from mooring.live.endpoints.scheduler_endpoints import make_observer
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine

_ROUNDS = 5


class _Binder:
    async def bind(self, binding: Binding) -> Status | None:
        return None


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=2000, show_default=True, help="Pods per round.")
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="basic", show_default=True)
@click.option(
    "--cpu-ms-per-pod", default=3.1, show_default=True, help="What a bound pod costs the scheduler and the API server."
)
def main(nodes: int, pods: int, workload: str, cpu_ms_per_pod: float) -> None:
    """Measure the CPU time of decision records per pod, and its share of the CPU time of scheduling a pod.

    If the scheduler and the server use all cores, as in `make bench-live`, that share is the loss of throughput.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    engines = {kept: _engine(nodes, kept) for kept in (True, False)}
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(_ROUNDS + 1):  # the first one warms up
        for kept in (True, False) if number % 2 else (False, True):
            taken = _run(engines[kept], workload, number * pods, pods)
            if number:
                times[kept].append(taken)
    with_records, without = (statistics.median(times[kept]) * 1e6 for kept in (True, False))
    cost = with_records - without
    print(f"{workload}, {nodes:,} nodes: {with_records:.0f} us a pod with records, {without:.0f} without")
    share = cost / 10 / cpu_ms_per_pod
    print(f"records cost {cost:.0f} us a pod: {share:.1f} % of {cpu_ms_per_pod} ms of scheduler and server")


def _engine(nodes: int, records: bool) -> Engine:
    watch = make_observer(time.time, records=records)
    engine = Engine(default_config(), rng=random.Random(1), clock=time.time, binder=_Binder(), observer=watch)
    for number in range(nodes):
        engine.put(node(number))
    return engine


def _run(engine: Engine, workload: str, first: int, count: int) -> float:
    """Return the CPU seconds per pod, from the queue to binding."""
    make = WORKLOADS[workload]
    for number in range(first, first + count):
        engine.put(make(number))
    gc.collect()
    gc.freeze()
    started = time.process_time()
    asyncio.run(_drain(engine))
    return (time.process_time() - started) / count


async def _drain(engine: Engine) -> None:
    while (decided := engine.schedule_one()) is not None:
        if not isinstance(decided, AssumedPod):
            raise SystemExit(f"the workload does not fit any more: {decided}")
        await engine.bind(decided)


if __name__ == "__main__":
    main()
