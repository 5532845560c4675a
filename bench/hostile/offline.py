"""Hostile pods without an API server: the CPU time of decisions, and the longest time without a pause."""

from __future__ import annotations

import gc
import random
import time

import msgspec

from bench.hostile.shapes import Manifest, manifest
from bench.workloads import node
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler.attempt_budget import AttemptBudget
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import SchedulePod, run_without_extenders


def _attempt(runner: PluginRunner, pod: Pod, budget: AttemptBudget) -> tuple[ScheduleResult | ScheduleFailure, float]:
    """Run an attempt as the live scheduler does; return the outcome and its longest time without a pause."""
    attempt = SchedulePod(runner, pod)
    outcomes: list[ScheduleResult | ScheduleFailure] = []

    def run() -> None:
        steps = budget.run(attempt.steps(), pod, attempt.state, requests=False)
        outcomes.append(run_without_extenders(steps))

    call = budget.pausable(run)
    longest, ended = 0.0, False
    while not ended:
        started = time.thread_time()
        ended = call.advance()
        longest = max(longest, time.thread_time() - started)
    return outcomes[0], longest


def measure(shape: str, nodes: int) -> dict[str, float | int | str]:
    """Schedule two pods of a shape and then an ordinary pod, and return the CPU seconds.

    "longest" is the longest time in which the event loop runs no other task.
    """
    cache = Cache()
    for number in range(nodes):
        cache.put(node(number))
    runner = Profiles(default_config(), cache, rng=random.Random(1)).first
    gc.collect()
    gc.freeze()  # as the live scheduler does after the lists
    budget = AttemptBudget(large_pod_seconds=600.0)
    result: dict[str, float | int | str] = {"shape": shape, "nodes": nodes}
    text = msgspec.json.encode(manifest(shape, "pod"))
    ordinary = msgspec.json.encode(_ordinary())
    for number, (key, body) in enumerate([("first", text), ("second", text), ("ordinary", ordinary)]):
        pod = msgspec.json.decode(body, type=Pod)
        pod = msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, name=f"p{number}", uid=f"u{number}")
        )
        started = time.process_time()
        decision, longest = _attempt(runner, pod, budget)
        before = time.process_time()
        if isinstance(decision, ScheduleResult):
            cache.assume(pod, decision.node_name)
        ended = time.process_time()
        result[key] = round(ended - started, 4)
        if key == "first":
            result["longest"] = round(max(longest, ended - before), 4)
            result["placed"] = isinstance(decision, ScheduleResult)
            result["kilobytes"] = len(text) // 1024
    return result


def _ordinary() -> Manifest:
    made = manifest("labels", "ordinary")
    made["metadata"]["labels"] = {"app": "ordinary"}
    return made
