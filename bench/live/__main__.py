"""`python -m bench.live`: a comparison of schedulers on a real control plane, in one table."""

from __future__ import annotations

import asyncio
import functools
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.live import devices, measure, objects
from bench.live.contenders import CONTENDERS, available
from bench.live.observer import WatchError
from bench.live.results import Results, compare, table
from bench.live.server import Server
from tests.e2e.controlplane import BuildError, StartError, build

_KINDS: Final = ("rate", "startup", "latency", "load")
#: Workload -> number of pods.
_PODS: Final = {**objects.PODS, **devices.PODS}


class Plan(msgspec.Struct, frozen=True):
    """The options of a run."""

    kinds: Sequence[str]
    workloads: Sequence[str]
    contenders: Sequence[str]
    nodes: int
    pods: int
    running_pods: int
    single_pods: int
    load_pods: int


@click.command()
@click.option("--measure", "kinds", type=click.Choice(_KINDS), multiple=True, help="By default all.")
@click.option(
    "--workload",
    "workloads",
    type=click.Choice([*_PODS, "dra"]),
    multiple=True,
    help="By default all without devices; dra means all with devices (8 on each node).",
)
@click.option(
    "--scheduler",
    "contenders",
    type=click.Choice(list(CONTENDERS)),
    multiple=True,
    help="By default all that are installed.",
)
@click.option("--nodes", default=5000, show_default=True)
@click.option(
    "--pods", default=0, help="Pods to bind; by default 10,000 for basic, 1,000 with devices and 4,000 for the others."
)
@click.option(
    "--running-pods", default=50_000, show_default=True, help="Number of running pods for the start-up measurement."
)
@click.option("--single-pods", default=200, show_default=True, help="Number of pods for the latency measurement.")
@click.option("--load-pods", default=3000, show_default=True, help="Number of pods for the measurement at half load.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    kinds: tuple[str, ...],
    workloads: tuple[str, ...],
    contenders: tuple[str, ...],
    nodes: int,
    pods: int,
    running_pods: int,
    single_pods: int,
    load_pods: int,
    output: str,
) -> None:
    """Measure binds per second, start-up and latency of schedulers on a real API server.

    All pods are created before a scheduler starts. Every scheduler gets a control plane of its own on loopback, with
    the same objects.
    """
    plan = Plan(
        kinds=kinds or _KINDS,
        workloads=_expanded(workloads) or tuple(objects.PODS),
        contenders=contenders or available(),
        nodes=nodes,
        pods=pods,
        running_pods=running_pods,
        single_pods=single_pods,
        load_pods=load_pods,
    )
    try:
        build(["kubectl", "etcd", "kube-apiserver", "kube-scheduler"])
        results = asyncio.run(run(plan))
    except (BuildError, StartError, WatchError, measure.MeasureError) as error:
        raise SystemExit(str(error)) from None
    compare(results.rates)
    print(msgspec.json.format(msgspec.json.encode(results)).decode() if output == "json" else table(results))


def _expanded(workloads: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for each in workloads for name in (devices.PODS if each == "dra" else (each,)))


async def run(plan: Plan) -> Results:
    """Run all measurements."""
    results = Results()
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        nodes = Path(folder, "nodes")
        _say(f"creating {plan.nodes:,} nodes")
        await measure.prepare(nodes, None, functools.partial(_create_nodes, count=plan.nodes))
        if "rate" in plan.kinds:
            for workload in plan.workloads:
                await _rates(plan, results, nodes, workload)
        if "startup" in plan.kinds:
            await _startups(plan, results, nodes)
        if "latency" in plan.kinds:
            for name in _schedulers(plan):
                _say(f"latency of {plan.single_pods} single pods: {name}")
                results.latencies.append(await measure.latency(CONTENDERS[name], nodes, plan.single_pods))
        if "load" in plan.kinds:
            for name in _schedulers(plan):
                _say(f"latency at half load: {name}")
                results.loads.append(await measure.load(CONTENDERS[name], nodes, plan.load_pods))
    return results


async def _rates(plan: Plan, results: Results, nodes: Path, workload: str) -> None:
    count = plan.pods or _PODS[workload]
    fill = functools.partial(_create_pods, workload=workload, count=count)
    if workload in devices.PODS:
        fill = functools.partial(devices.create_pods, workload=workload, count=count)
        state = nodes.with_name(workload)
        _say(f"{workload}: creating the devices of {plan.nodes:,} nodes")
        await measure.prepare(
            state, nodes, functools.partial(devices.create_devices, workload=workload, nodes=plan.nodes)
        )
        nodes = state
    for name in plan.contenders:
        _say(f"{workload}: creating {count:,} pods and starting {name}")
        found = await measure.rate(CONTENDERS[name], nodes, fill, workload, count)
        _say(f"{workload}: {name} {found.binds_per_s:,.0f} binds/s, {found.cpu_ms_per_pod:.2f} ms of CPU a pod")
        results.rates.append(found)


async def _startups(plan: Plan, results: Results, nodes: Path) -> None:
    state = nodes.with_name("running")
    _say(f"start-up: creating {plan.running_pods:,} running pods")
    fill = functools.partial(_create_running, count=plan.running_pods, nodes=plan.nodes)
    await measure.prepare(state, nodes, fill)
    waiting = functools.partial(_create_pods, workload="basic", count=100)
    for name in _schedulers(plan):
        found = await measure.startup(CONTENDERS[name], state, waiting, plan.running_pods)
        _say(f"start-up: {name} {found.first_bind_s:.1f} s to the first bind")
        results.startups.append(found)


def _schedulers(plan: Plan) -> list[str]:
    return [name for name in plan.contenders if CONTENDERS[name].schedules]


async def _create_nodes(server: Server, *, count: int) -> None:
    await server.create(objects.NODES_PATH, objects.nodes(count))


async def _create_pods(server: Server, *, workload: str, count: int) -> None:
    await server.create(objects.PODS_PATH, objects.pods(workload, count))


async def _create_running(server: Server, *, count: int, nodes: int) -> None:
    await server.create(objects.PODS_PATH, objects.running_pods(count, nodes))


def _say(text: str) -> None:
    """Print progress to stderr, so that it is not part of the JSON."""
    print(f"-- {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
