"""`python -m bench.plugins`: decisions per second with one rule as different kinds of plugins."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from typing import Any

import click

from bench.decide import GC_THRESHOLDS
from bench.plugins.ways import WAYS, Setup
from bench.tables import row
from bench.workloads import basic, node
from mooring.live.extenders import ExtenderClient
from mooring.scheduler.attempt_results import AssumedPod, PendingAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.extenders import Extenders

SIZES = (500, 5000)
COLUMNS = ("way", "nodes", "decisions", "decisions_per_s", "cpu_us", "evaluated")
HEADINGS = ("way", "nodes", "decisions", "decisions/s", "CPU us", "nodes asked")
_WARM = 20


def make_engine(setup: Setup, nodes: int, pods: int, client: ExtenderClient) -> Engine:
    """Return an engine with nodes and pending pods."""
    extenders = Extenders(setup.config.extenders, client.send)
    engine = Engine(setup.config, plugins=setup.plugins, rng=random.Random(1), extenders=extenders)
    for number in range(nodes):
        engine.put(node(number))
    for number in range(pods):
        engine.put(basic(number))
    return engine


async def measure(setup: Setup, nodes: int, pods: int, seconds: float) -> dict[str, Any]:
    """Make decisions until there are no pods or time is up. Placed pods stay on their nodes."""
    client = ExtenderClient()
    engine = make_engine(setup, nodes, _WARM + pods, client)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        for _ in range(_WARM):
            await decide(engine)
        begun, cpu, count = time.perf_counter(), time.process_time(), 0
        while count < pods and time.perf_counter() < begun + seconds:
            decided = await decide(engine)
            count += 1
        elapsed, cpu = time.perf_counter() - begun, time.process_time() - cpu
    finally:
        await client.close()
        gc.unfreeze()
    rate, per_decision = round(count / elapsed, 1), round(cpu / count * 1e6)
    return {
        "nodes": nodes,
        "decisions": count,
        "decisions_per_s": rate,
        "cpu_us": per_decision,
        "evaluated": decided.evaluated,
    }


async def decide(engine: Engine) -> AssumedPod:
    """Place the next pod."""
    outcome = engine.schedule_one()
    if isinstance(outcome, PendingAttempt):
        outcome = await engine.complete(outcome)
    if not isinstance(outcome, AssumedPod):
        raise SystemExit(f"a pod found no node: {outcome}")
    return outcome


@click.command()
@click.option("--nodes", type=int, multiple=True, default=SIZES, show_default=True, help="Cluster sizes.")
@click.option("--way", "names", type=click.Choice(list(WAYS)), multiple=True, help="By default all.")
@click.option("--pods", default=2000, show_default=True, help="Maximum number of decisions.")
@click.option("--seconds", default=3.0, show_default=True, help="Maximum time for each row.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(nodes: tuple[int, ...], names: tuple[str, ...], pods: int, seconds: float, output: str) -> None:
    """Time decisions with one rule as different kinds of plugins.

    CPU is the CPU time of the scheduler per decision. "nodes asked" is the number of nodes that the plugin evaluates
    with kube-scheduler's sampling.
    """
    results = []
    if output == "table":
        print(row(HEADINGS), flush=True)
    for name in names or tuple(WAYS):
        for size in nodes:
            with WAYS[name]() as setup:
                result = {"way": name, **asyncio.run(measure(setup, size, pods, seconds))}
            results.append(result)
            if output == "table":
                print(row([result[column] for column in COLUMNS]), flush=True)
    if output == "json":
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
