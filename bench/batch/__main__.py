"""`python -m bench.batch`: batch sessions on a real control plane, compared with a client that only binds."""

from __future__ import annotations

import asyncio
import functools
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bench.batch import gangs, native_groups
from bench.batch.results import BatchRate, Sessions, finished, table
from bench.live import measure, objects
from bench.live.contenders import CONTENDERS, Contender
from bench.live.observer import WatchError
from bench.live.results import Results
from bench.live.results import table as live_table
from bench.live.server import Server
from tests.e2e.controlplane import BuildError, ControlPlane, Process, StartError, build, free_port
from tests.live.volcano_crds import POD_GROUP, QUEUE

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SIZES: Final = (1, 10, 100)
_NAMES: Final = ("mooring", "null")
_ALL_NAMES: Final = ("kube-scheduler", *_NAMES)
_SESSION: Final = "volcano_e2e_scheduling_latency_milliseconds"


@click.command()
@click.option("--gang", "sizes", type=int, multiple=True, help="Gang size; by default 1, 10 and 100.")
@click.option("--scheduler", "names", type=click.Choice(_ALL_NAMES), multiple=True, help="By default both.")
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=10_000, show_default=True)
@click.option(
    "--native", is_flag=True, help="Measure PodGroups of Kubernetes 1.37 next to kube-scheduler (K8S=1.37.1)."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(sizes: tuple[int, ...], names: tuple[str, ...], nodes: int, pods: int, native: bool, output: str) -> None:
    """Measure session time, binds per second, CPU and memory of batch sessions on a real API server.

    Gangs of each size, over four queues, are created before the scheduler starts. Every scheduler gets a control plane
    of its own on loopback, with the same objects.

    With --native, the gangs are PodGroups of scheduling.k8s.io, by default of 4 and of 1,000 pods, each in one of 50
    racks.
    """
    try:
        if native:
            build(["kubectl", "etcd", "kube-apiserver", "kube-scheduler"])
            rates = asyncio.run(
                native_groups.run(sizes or native_groups.SIZES, names or native_groups.NAMES, nodes, pods)
            )
            shown = Results(rates=rates)
            told = live_table(shown)
            print(msgspec.json.format(msgspec.json.encode(shown)).decode() if output == "json" else told)
            return
        build(["kubectl", "etcd", "kube-apiserver"])
        results = finished(asyncio.run(run(sizes or _SIZES, names or _NAMES, nodes, pods)))
    except (BuildError, StartError, WatchError, measure.MeasureError) as error:
        raise SystemExit(str(error)) from None
    print(msgspec.json.format(msgspec.json.encode(results)).decode() if output == "json" else table(results))


async def run(sizes: Sequence[int], names: Sequence[str], nodes: int, pods: int) -> list[BatchRate]:
    """Run all measurements."""
    results = []
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        state = Path(folder, "nodes")
        _say(f"creating {nodes:,} nodes")
        await measure.prepare(state, None, functools.partial(_create_cluster, nodes=nodes))
        for size in sizes:
            for name in names:
                _say(f"gangs of {size}: creating {pods:,} pods and starting {name}")
                found = await _measure(name, state, size, pods, Path(folder))
                rate = found.rate
                told = f"{rate.binds_per_s:,.0f} binds/s, {rate.cpu_ms_per_pod:.2f} ms of CPU a pod"
                _say(f"gangs of {size}: {name} {told}")
                results.append(found)
    return results


async def _measure(name: str, state: Path, size: int, pods: int, folder: Path) -> BatchRate:
    port = free_port()
    sessions = Sessions()

    def read() -> None:
        nonlocal sessions
        sessions = _sessions(port)

    mooring = name == "mooring"
    contender = _mooring(folder, port) if mooring else CONTENDERS[name]
    fill = functools.partial(_create_gangs, pods=pods, size=size)
    rate = await measure.rate(contender, state, fill, f"gangs-{size}", pods, at_end=read if mooring else None)
    return BatchRate(gang=size, rate=rate, sessions=sessions)


def _mooring(folder: Path, port: int) -> Contender:
    conf = folder / "volcano-scheduler.conf"
    conf.write_text(gangs.CONF)

    def start(plane: ControlPlane) -> Process:
        program = Path(sys.executable).with_name("mooring")
        flags = [f"--scheduler-conf={conf}", "--enable-metrics=true", f"--listen-address=127.0.0.1:{port}"]
        more = ["--kubeconfig", str(plane.kubeconfig()), "--secure-port=0", "--kube-api-qps=5000"]
        command = [str(program), "run", *flags, *more, "--kube-api-burst=5000"]
        return plane.run("mooring", command, wait=False)

    return Contender("mooring", start)


def _sessions(port: int) -> Sessions:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    family = next(each for each in text_string_to_metric_families(text) if each.name == _SESSION)
    values = {each.name.removeprefix(_SESSION): each.value for each in family.samples if not each.labels}
    count = int(values["_count"])
    bounds = [each.labels["le"] for each in family.samples if "le" in each.labels and each.value == count]
    return Sessions(count, round(values["_sum"] / count, 1), float(bounds[0]))


async def _create_cluster(server: Server, *, nodes: int) -> None:
    await server.create(_DEFINITIONS, [msgspec.json.encode(each) for each in (QUEUE, POD_GROUP)])
    await server.create(objects.NODES_PATH, objects.nodes(nodes))


async def _create_gangs(server: Server, *, pods: int, size: int) -> None:
    await server.create(gangs.QUEUES_PATH, gangs.queues())
    await server.create(gangs.GROUPS_PATH, gangs.groups(pods, size))
    await server.create(objects.PODS_PATH, gangs.members(pods, size))


def _say(text: str) -> None:
    """Print progress to stderr, so that it is not part of the JSON."""
    print(f"-- {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
