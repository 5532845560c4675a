"""Large clusters without an API server: `python -m bench.scale --nodes 50000 --pods 500000`.

Builds the node table, decides about all pods one after another as the scheduler does, and prints the rate at the
beginning and at the end, the memory per node and pod, preemption in the full table, and one evaluation of all nodes
(`explain`). The pods are of one template (`basic`) or of another workload of bench.decide.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable

import click

from bench.decide import GC_THRESHOLDS, _cycle, _decide
from bench.workloads import WORKLOADS, node, pod
from mooring.observe.attempt_trace import Evaluation
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.schedule_pod import schedule_pod

_PREEMPTIONS = 20


@click.command(context_settings={"show_default": True})
@click.option("--nodes", default=50_000)
@click.option("--pods", default=500_000)
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="basic")
def main(nodes: int, pods: int, workload: str) -> None:
    """Measure decisions, memory, preemption and an explanation in a large cluster."""
    before, started = _mib(), time.perf_counter()
    cache = Cache()
    for number in range(nodes):
        cache.put(node(number))
    cycle = _cycle(workload, cache)
    make = WORKLOADS[workload]
    _decide(cycle, cache, make(20_000_000))
    per_node = (_mib() - before) * 1024 / nodes
    print(f"{nodes:,} nodes: {time.perf_counter() - started:.1f} s to build, {per_node:.1f} KiB per node", flush=True)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    before, part = _mib(), max(1, pods // 10)
    decided, cpu, rates = 0.0, 0.0, []
    for first in range(0, pods, part):
        waiting = [make(number) for number in range(first, min(pods, first + part))]
        begun, cpu_begun = time.perf_counter(), time.process_time()
        for each_pod in waiting:
            _decide(cycle, cache, each_pod)
        rates.append(len(waiting) / (time.process_time() - cpu_begun))
        decided += time.perf_counter() - begun
        cpu += time.process_time() - cpu_begun
    per_pod = (_mib() - before) * 1024 / pods
    print(
        f"{pods:,} pods ({workload}): {decided:.1f} s, {cpu:.1f} s of CPU, {pods / cpu:,.0f} decisions per CPU second"
    )
    print(
        f"first tenth {rates[0]:,.0f}, last tenth {rates[-1]:,.0f}; {per_pod:.2f} KiB per pod, peak {_mib():,.0f} MiB"
    )
    print(f"explain: {_timed(lambda: _explain(cycle)):.2f} s for all nodes and plugins", flush=True)
    print(f"preemption: {_preempt(cycle) * 1000:.1f} ms per pod that needs victims", flush=True)


def _explain(cycle: PluginRunner) -> None:
    schedule_pod(cycle, pod(1, prefix="explained"), Evaluation())


def _preempt(cycle: PluginRunner) -> float:
    """Return the seconds of an attempt of a pod that fits only on a node without its other pods."""
    amounts = {"cpu": "4", "memory": "1Gi"}
    urgent = [pod(number, prefix="urgent", priority=1000, requests=amounts) for number in range(_PREEMPTIONS)]
    schedule_pod(cycle, urgent[0])
    begun = time.perf_counter()
    for each in urgent:
        found = schedule_pod(cycle, each)
        if not isinstance(found, ScheduleFailure):
            raise SystemExit("preemption needs a pod on every node: use more pods")
    return (time.perf_counter() - begun) / len(urgent)


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
