"""The benchmark of device allocation, without I/O: `python -m bench.devices --nodes 500 --nodes 5000`.

The workloads have the shape of those in upstream's scheduler_perf: claims from templates, a claim that several pods
share, prioritized lists, extended resources, and partitionable devices. Every node has 8 devices. A pod goes through
the whole scheduling and binding cycle; writes succeed at once.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import time
from collections.abc import Iterator
from typing import Any

import click

from bench.workloads import node, pod
from mooring.api.codec import fit
from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine
from mooring.simulation.device_claims import SimulatedClaimWriter

DEVICES = 8
DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"


def exactly(device_class: str = "gpu", **fields: Any) -> dict[str, Any]:
    """Return a request for one device."""
    return {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1, **fields}


_BIG = 'device.attributes["gpu.example.com"].model == "big"'
#: Workload -> the requests of its claims.
REQUESTS: dict[str, list[dict[str, Any]]] = {
    "templates": [{"name": "r", "exactly": exactly()}],
    "shared": [{"name": "r", "exactly": exactly()}],
    "lists": [
        {
            "name": "r",
            "firstAvailable": [
                {"name": "big", **exactly(selectors=[{"cel": {"expression": _BIG}}])},
                {"name": "any", **exactly()},
            ],
        }
    ],
    "extended": [],
    "partitions": [{"name": "r", "exactly": exactly("part")}],
}
#: How many pods share a claim.
_SHARERS = 4


def classes() -> Iterator[DeviceClass]:
    """Yield the classes."""
    expression = f'device.driver == "{DRIVER}"'
    part = f'{expression} && device.attributes["{DRIVER}"].model == "part"'
    for name, selector, extra in (("gpu", expression, {"extendedResourceName": RESOURCE}), ("part", part, {})):
        spec = {"selectors": [{"cel": {"expression": selector}}], **extra}
        yield fit({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def slices(name: str, workload: str) -> Iterator[ResourceSlice]:
    """Yield the slices of a node."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 2 if workload == "partitions" else 1}
    base = {"driver": DRIVER, "nodeName": name, "pool": pool}
    model = "part" if workload == "partitions" else "big"
    attributes = {"model": {"string": model}, "memory": {"int": 80}}
    devices: list[dict[str, Any]] = [{"name": f"gpu-{n}", "attributes": attributes} for n in range(DEVICES)]
    if workload == "lists":
        for device in devices[DEVICES // 2 :]:
            device["attributes"] = {**attributes, "model": {"string": "small"}}
    if workload == "partitions":
        for number, device in enumerate(devices):
            device["consumesCounters"] = [{"counterSet": f"s{number // 4}", "counters": {"memory": {"value": "10Gi"}}}]
        sets = [{"name": f"s{n}", "counters": {"memory": {"value": "40Gi"}}} for n in range(2)]
        yield fit({"metadata": {"name": f"{name}-c"}, "spec": {**base, "sharedCounters": sets}}, ResourceSlice)
    yield fit({"metadata": {"name": f"{name}-d"}, "spec": {**base, "devices": devices}}, ResourceSlice)


def waiting(number: int, workload: str) -> tuple[Pod, ResourceClaim | None]:
    """Return a pod, and its claim if it has one of its own."""
    if workload == "extended":
        requests = {"cpu": "100m", RESOURCE: "1"}
        container = {"name": "c", "image": "x", "resources": {"requests": requests, "limits": {RESOURCE: "1"}}}
        return pod(number, containers=[container]), None
    share = number // _SHARERS if workload == "shared" else number
    name = f"claim-{share}"
    made = pod(number, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
    if workload == "shared" and number % _SHARERS:
        return made, None
    metadata = {"name": name, "namespace": made.namespace, "uid": f"uid-{name}"}
    return made, fit({"metadata": metadata, "spec": {"devices": {"requests": REQUESTS[workload]}}}, ResourceClaim)


def measure(workload: str, nodes: int, pods: int) -> dict[str, Any]:
    """Schedule pods one after another."""
    writer = SimulatedClaimWriter()
    engine = writer.engine = Engine(default_config(), claims=writer)
    objects: list[KubeObject] = [*classes()]
    for number in range(nodes):
        made = node(number)
        objects += [made, *slices(made.name, workload)]
    started = time.perf_counter()
    for each in objects:
        engine.put(each)
    for number in range(pods):
        made_pod, claim = waiting(number, workload)
        if claim is not None:
            engine.put(claim)
        engine.put(made_pod)
    filled = time.perf_counter() - started
    times: list[float] = []
    started = time.perf_counter()
    bound = asyncio.run(_schedule(engine, times))
    elapsed = time.perf_counter() - started
    times.sort()
    return {
        "workload": workload,
        "nodes": nodes,
        "pods": pods,
        "bound": bound,
        "pods_per_s": round(bound / elapsed, 1),
        "median_us": round(statistics.median(times) * 1e6, 1),
        "p99_us": round(times[int(len(times) * 0.99)] * 1e6, 1),
        "startup_s": round(filled, 2),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


async def _schedule(engine: Engine, times: list[float]) -> int:
    bound = 0
    while engine.queue.ready:
        before = time.perf_counter()
        outcome = engine.schedule_one()
        if isinstance(outcome, AssumedPod) and await engine.bind(outcome) is None:
            bound += 1
            engine.put(outcome.pod)
        times.append(time.perf_counter() - before)
    return bound


@click.command()
@click.option("--nodes", type=int, multiple=True, default=(500,), show_default=True)
@click.option("--workload", "workloads", type=click.Choice(list(REQUESTS)), multiple=True, default=tuple(REQUESTS))
@click.option("--pods", type=int, default=1000, show_default=True)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(nodes: tuple[int, ...], workloads: tuple[str, ...], pods: int, output: str) -> None:
    """Measure how fast pods with devices are scheduled."""
    for count in nodes:
        for workload in workloads:
            found = measure(workload, count, pods)
            if output == "json":
                click.echo(json.dumps(found))
            else:
                click.echo("  ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
