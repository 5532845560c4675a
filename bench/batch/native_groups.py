"""PodGroups of scheduling.k8s.io with a topology constraint, scheduled by Mooring and by kube-scheduler 1.37."""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.live import measure, objects
from bench.live.contenders import CONTENDERS, Contender
from bench.live.results import Rate
from bench.live.server import Server
from bench.workloads import node, pod
from mooring.api.codec import encode_json
from tests.e2e.controlplane import ControlPlane, Process, free_port

SIZES: Final = (4, 1000)
NAMES: Final = ("kube-scheduler", "mooring")
RACKS: Final = 50
_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
_GATES: Final = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
_SERVER: Final = (_GATES, "--runtime-config=scheduling.k8s.io/v1beta1=true")


async def run(sizes: Sequence[int], names: Sequence[str], nodes: int, pods: int) -> list[Rate]:
    """Measure each scheduler with gangs of each size."""
    rates = []
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        state = Path(folder, "nodes")
        _say(f"creating {nodes:,} nodes in {RACKS} racks")
        await measure.prepare(state, None, functools.partial(_create_nodes, count=nodes), flags=_SERVER)
        for size in sizes:
            for name in names:
                _say(f"gangs of {size}: creating {pods:,} pods and starting {name}")
                fill = functools.partial(_create_gangs, pods=pods, size=size)
                workload = f"groups-{size}"
                rate = await measure.rate(_contender(name), state, fill, workload, pods, flags=_SERVER)
                # The first gang is decided before the first bind, so its pods do not count.
                share = (rate.bound - size) / (rate.bound - 1)
                rate = msgspec.structs.replace(rate, binds_per_s=round(rate.binds_per_s * share, 1))
                told = f"{rate.binds_per_s:,.0f} binds/s, {rate.cpu_ms_per_pod:.2f} ms of CPU a pod"
                _say(f"gangs of {size}: {name} {told}")
                rates.append(rate)
    return rates


def _contender(name: str) -> Contender:
    if name == "kube-scheduler":
        return Contender(name, lambda plane: plane.start_kube_scheduler(flags=[_GATES], wait=False))
    return Contender(name, _mooring) if name == "mooring" else CONTENDERS[name]


def _mooring(plane: ControlPlane) -> Process:
    config = plane.scheduler_config(None, name="mooring")
    flags = ["--config", str(config), "--bind-address=127.0.0.1", "--secure-port", str(free_port())]
    program = str(Path(sys.executable).with_name("mooring"))
    return plane.run("mooring", [program, "run", *flags, "--emulated-version=1.37", _GATES], wait=False)


async def _create_nodes(server: Server, *, count: int) -> None:
    await server.create(objects.NODES_PATH, _nodes(count))


def _nodes(count: int) -> Iterator[bytes]:
    for number in range(count):
        document: dict[str, Any] = msgspec.json.decode(encode_json(node(number)))
        document["metadata"]["labels"]["rack"] = f"rack-{number * RACKS // count}"
        yield msgspec.json.encode(document)


async def _create_gangs(server: Server, *, pods: int, size: int) -> None:
    await server.create(_GROUPS, _groups(pods, size))
    await server.create(objects.PODS_PATH, _members(pods, size))


def _groups(pods: int, size: int) -> Iterator[bytes]:
    for number in range(pods // size):
        spec = {
            "schedulingPolicy": {"gang": {"minCount": size}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        }
        yield msgspec.json.encode({"metadata": {"name": f"gang-{number}"}, "spec": spec})


def _members(pods: int, size: int) -> Iterator[bytes]:
    for number in range(pods // size * size):
        group = {"podGroupName": f"gang-{number // size}"}
        yield objects.manifest(encode_json(pod(number, prefix="member")), schedulingGroup=group)


def _say(text: str) -> None:
    """Print progress to stderr, so that it is not part of the JSON."""
    print(f"-- {text}", file=sys.stderr, flush=True)
