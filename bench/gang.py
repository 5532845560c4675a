"""`python -m bench.gang`: the latency of a gang on a real API server, with Coscheduling and in batch sessions."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bench.batch import gangs
from bench.live import measure, objects
from bench.live.contenders import Contender
from bench.live.observer import WatchError
from bench.live.server import Server
from bench.tables import row
from bench.workloads import pod
from mooring.api.codec import encode_json
from mooring.framework.custom_definitions import definition_of
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup
from tests.e2e.controlplane import BuildError, ControlPlane, Process, StartError, build, free_port
from tests.live.volcano_crds import POD_GROUP, QUEUE

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUPS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
_ENGINES: Final = ("coscheduling", "batch")
_PROFILE: Final = {
    "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}}
}
#: Creates a gang: its PodGroup, then its pods.
Make = Callable[[Server, int, int], Awaitable[None]]


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--size", default=100, show_default=True, help="Pods per gang.")
@click.option("--gangs", "count", default=10, show_default=True, help="Number of gangs, created one after the other.")
@click.option(
    "--engine", "engines", type=click.Choice(["coscheduling", "batch"]), multiple=True, help="By default both."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(nodes: int, size: int, count: int, engines: tuple[str, ...], output: str) -> None:
    """Measure the seconds from the creation of a gang to the binding of its last pod, in an otherwise idle cluster."""
    try:
        build(["kubectl", "etcd", "kube-apiserver"])
        results = asyncio.run(run(engines or _ENGINES, nodes, size, count))
    except (BuildError, StartError, WatchError, measure.MeasureError) as error:
        raise SystemExit(str(error)) from None
    if output == "json":
        print(json.dumps(results, indent=2))
        return
    print(row(("engine", "nodes", "size", "gangs", "best s", "median s", "worst s")))
    for each in results:
        print(row(tuple(each.values())))


async def run(engines: tuple[str, ...], nodes: int, size: int, count: int) -> list[dict[str, Any]]:
    """Run all measurements."""
    results = []
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        state = Path(folder, "nodes")
        print(f"-- creating {nodes:,} nodes", file=sys.stderr, flush=True)

        async def fill(server: Server) -> None:
            kinds = (definition_of(PodGroup), QUEUE, POD_GROUP)
            await server.create(_DEFINITIONS, [msgspec.json.encode(each) for each in kinds])
            await server.create(objects.NODES_PATH, objects.nodes(nodes))

        await measure.prepare(state, None, fill)
        for engine in engines:
            print(f"-- {count} gangs of {size}: {engine}", file=sys.stderr, flush=True)
            contender, make = (_coscheduling(), _make_group) if engine == "coscheduling" else _batch(Path(folder))
            seconds = sorted(await measure.bursts(contender, state, make, size, count))
            results.append(
                {
                    "engine": engine,
                    "nodes": nodes,
                    "size": size,
                    "gangs": count,
                    "best_s": round(seconds[0], 2),
                    "median_s": round(statistics.median(seconds), 2),
                    "worst_s": round(seconds[-1], 2),
                }
            )
    return results


def _program() -> str:
    return str(Path(sys.executable).with_name("mooring"))


def _coscheduling() -> Contender:
    def start(plane: ControlPlane) -> Process:
        config = plane.scheduler_config({"profiles": [_PROFILE]}, name="gang", user="admin")
        flags = ["--config", str(config), "--bind-address", "127.0.0.1", "--secure-port", str(free_port())]
        return plane.run("mooring", [_program(), "run", *flags], wait=False)

    return Contender("coscheduling", start)


async def _make_group(server: Server, number: int, size: int) -> None:
    about = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": f"gang-{number}"}}
    await server.create_one(_GROUPS, msgspec.json.encode({**about, "spec": {"minMember": size}}))
    await server.create(objects.PODS_PATH, _members(number, size))


def _members(number: int, size: int) -> Iterator[bytes]:
    for member in range(size):
        made = pod(member, prefix=f"gang-{number}-task", labels={LABEL: f"gang-{number}"})
        document: dict[str, Any] = msgspec.json.decode(encode_json(made))
        document.pop("status", None)
        document["metadata"].pop("uid", None)
        yield msgspec.json.encode(document)


def _batch(folder: Path) -> tuple[Contender, Make]:
    conf = folder / "volcano-scheduler.conf"
    conf.write_text(gangs.CONF)

    def start(plane: ControlPlane) -> Process:
        flags = [f"--scheduler-conf={conf}", "--kubeconfig", str(plane.kubeconfig()), "--secure-port=0"]
        limits = ["--kube-api-qps=5000", "--kube-api-burst=5000"]
        return plane.run("mooring", [_program(), "run", *flags, *limits], wait=False)

    async def make(server: Server, number: int, size: int) -> None:
        if number == 0:
            await server.create(gangs.QUEUES_PATH, gangs.queues())
        await server.create(gangs.GROUPS_PATH, gangs.groups((number + 1) * size, size, since=number * size))
        await server.create(objects.PODS_PATH, gangs.members((number + 1) * size, size, since=number * size))

    return Contender("batch", start), make


if __name__ == "__main__":
    main()
