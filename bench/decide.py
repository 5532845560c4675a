"""The decision benchmark, without I/O: `python -m bench.decide --nodes 5000 --workload basic -o json`."""

from __future__ import annotations

import gc
import json
import random
import resource
import statistics
import time

import click

from bench.workloads import WORKLOADS, node, standing, zones
from mooring.api.pod import Pod
from mooring.config import PluginSpec, default_config, load_config
from mooring.framework import CycleState, NodeInfo, Plugin
from mooring.framework.points import points_of
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import schedule_pod


def measure(workload: str, nodes: int, pods: int) -> dict[str, float | int | str]:
    """Place pods one after another and time every decision. Placed pods stay on their nodes."""
    cache = Cache()
    for number in range(nodes):
        cache.put(node(number))
        if workload.startswith("numa"):
            cache.put(zones(node(number).name, number))
    cycle = _cycle(workload, cache)
    for standing_pod, where in standing(workload, nodes):
        cache.table.add_pod(standing_pod, cache.table.nodes[where].name)
    make = WORKLOADS[workload]
    waiting = [make(number) for number in range(pods)]
    for warm in range(20):  # the first decisions compile selectors and build columns
        _decide(cycle, cache, make(20_000_000 + warm))
    gc.collect()
    gc.freeze()  # as the live scheduler does after the informers have synced
    gc.set_threshold(*GC_THRESHOLDS)
    times = []
    started = time.perf_counter()
    for pod in waiting:
        before = time.perf_counter()
        _decide(cycle, cache, pod)
        times.append(time.perf_counter() - before)
    elapsed = time.perf_counter() - started
    times.sort()
    return {
        "workload": workload,
        "nodes": nodes,
        "decisions": pods,
        "median_us": round(statistics.median(times) * 1e6, 1),
        "p99_us": round(times[min(len(times) - 1, int(len(times) * 0.99))] * 1e6, 1),
        "decisions_per_s": round(pods / elapsed, 1),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


#: The thresholds of the live scheduler.
GC_THRESHOLDS = (50_000, 20, 50)


class LastDigit(Plugin):
    """A user's plugin in its simplest form, called for one node at a time."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        """Reject marked nodes."""
        return "node is marked" if node.labels.get("marked") == "yes" else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Prefer the node with the same last digit."""
        return 100 if node.name[-1] == pod.name[-1] else 0


WITH_PLUGIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: LastDigit}]}}}]
"""


WITH_ZONES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}
  pluginConfig: [{name: NodeResourceTopologyMatch, args: {scoringStrategy: {type: STRATEGY}}}]
"""


def _cycle(workload: str, cache: Cache) -> PluginRunner:
    rng = random.Random(1)
    if workload.startswith("numa"):
        strategy = "LeastNUMANodes" if workload == "numaleast" else "LeastAllocated"
        config = load_config(WITH_ZONES.replace("STRATEGY", strategy), source="bench")
        return Profiles(config, cache, rng=rng).first
    if workload != "pernode":
        return Profiles(default_config(), cache, rng=rng).first
    specs = {"LastDigit": PluginSpec("LastDigit", points_of(LastDigit), None)}
    config = load_config(WITH_PLUGIN, source="bench", plugins=specs)
    return Profiles(config, cache, plugins={"LastDigit": LastDigit}, rng=rng).first


def _decide(cycle: PluginRunner, cache: Cache, pod: Pod) -> None:
    """Make one decision and apply its result."""
    decision = schedule_pod(cycle, pod)
    if isinstance(decision, ScheduleResult):
        cache.assume(pod, decision.node_name)
        return
    _make_room(cache, pod, decision)


def _make_room(cache: Cache, pod: Pod, decision: ScheduleFailure) -> None:
    if not decision.result.nominated_node:
        raise SystemExit(f"the workload does not fit any more: {decision.message}")
    for uid in decision.result.victims:
        cache.table.remove_pod(uid)
    cache.assume(pod, decision.result.nominated_node)


@click.command()
@click.option("--nodes", type=int, default=5000, show_default=True)
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="basic", show_default=True)
@click.option("--pods", type=int, default=0, help="Number of decisions; by default 3,000 (300 for preemption).")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(nodes: int, workload: str, pods: int, output: str) -> None:
    """Time the decisions of one workload."""
    result = measure(workload, nodes, pods or (300 if workload == "preemption" else 3000))
    if output == "json":
        print(json.dumps(result))
    else:
        print("  ".join(f"{key}={value}" for key, value in result.items()))


if __name__ == "__main__":
    main()
