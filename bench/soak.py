"""The soak: pods are created, scheduled and deleted, ordinary and hostile ones: `python -m bench.soak --nodes 5000`.

After a warm-up and at the end, when all pods are deleted, it compares the memory of the process and the sizes of the
engine's tables. The hostile pods have the shapes of `bench.hostile`, each with its own label keys, values, resource
names and images, because a table that keeps these grows forever. `--live` does the same with a scheduler process on a
real API server.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from bench.hostile.shapes import SHAPES, manifest
from bench.live.server import Server, connected
from bench.workloads import WORKLOADS, node
from mooring.api.codec import encode_json
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler.attempt_budget import AttemptBudget
from mooring.scheduler.attempt_results import AssumedPod, PendingAttempt
from mooring.scheduler.engine import Engine

#: The parts of names in the shapes that are made different for each pod.
_SALTED = (b"key-", b"label-", b"missing-", b"value-", b"ns-", b"example.com/r", b"registry.example/app")
_ORDINARY = tuple(WORKLOADS)
#: One of this many pods is hostile.
_HOSTILE_EVERY = 20
#: The templates of unplaced pods are first dropped after about 11,000 pods. The caches of selectors are full by then.
_WARM_UP = 20_000
#: The growth of the memory that is an error.
_LIMIT = 1.10


def pod(number: int, *, scale: float, hostile_every: int = _HOSTILE_EVERY) -> bytes:
    """Return the manifest of a pod: of a workload of the benchmarks, or of a hostile shape."""
    name = f"soak-{number}"
    if number % hostile_every:
        workload = _ORDINARY[number % len(_ORDINARY)]
        document = msgspec.json.decode(encode_json(WORKLOADS[workload](number)))
        document.pop("status", None)
        document["metadata"] = {**document["metadata"], "name": name, "uid": name}
        return msgspec.json.encode(document)
    document = manifest(SHAPES[number // hostile_every % len(SHAPES)], name, scale)
    document["metadata"]["uid"] = name
    text = msgspec.json.encode(document)
    for part in _SALTED:
        text = text.replace(part, b"%s%d-" % (part, number))
    return text


def table_sizes(engine: Engine) -> dict[str, int]:
    """Return the sizes of everything in the engine that grows with pods."""
    table, counters = engine.cache.table, engine.cache.table.counters
    return {
        "pods": len(table.pods),
        "queue": sum(1 for _ in engine.queue),
        "nominated": sum(1 for _ in engine.cache.nominator.nodes()),
        "assumed": len(engine.cache.assumed),
        "resource slots": len(table.slots),
        "label columns": len(table._labels),
        "terms of placed pods": len(counters._terms),
        "placed templates": len(counters._live),
        "labels of placed templates": len(counters._live_by_label or ()),
    }


class Soak:
    """An engine with nodes, and pods that come and go."""

    def __init__(self, nodes: int, *, scale: float, alive: int, hostile_every: int = _HOSTILE_EVERY) -> None:
        """``alive`` is how many pods exist at a time; ``scale`` is the size of the hostile pods."""
        self.engine = Engine(default_config(), rng=random.Random(1), budget=AttemptBudget())
        for number in range(nodes):
            self.engine.put(node(number))
        self._scale, self._alive, self._hostile_every = scale, alive, hostile_every
        self._pods: deque[Pod] = deque()
        self._number = 0
        self.placed = 0

    async def run(self, count: int) -> None:
        """Create, schedule and delete some pods."""
        for _ in range(count):
            self._number += 1
            text = pod(self._number, scale=self._scale, hostile_every=self._hostile_every)
            made = msgspec.json.decode(text, type=Pod)
            self.engine.put(made)
            self._pods.append(await self._decide(made))
            if len(self._pods) > self._alive:
                self.engine.remove(self._pods.popleft())
        while self._pods:
            self.engine.remove(self._pods.popleft())

    async def _decide(self, made: Pod) -> Pod:
        """Run the attempts that are due; return the pod, with its node if it was placed."""
        found = made
        for _ in range(3):
            outcome = self.engine.schedule_one()
            if isinstance(outcome, PendingAttempt):
                outcome = await self.engine.complete(outcome)
            if outcome is None:
                break
            if isinstance(outcome, AssumedPod):
                self.placed += 1
                await self.engine.bind(outcome)
                self.engine.put(outcome.pod)
                if outcome.pod.uid == made.uid:
                    found = outcome.pod
        return found


def memory_mib(pid: int | str = "self") -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def offline(nodes: int, pods: int, warm_up: int, scale: float) -> tuple[float, float]:
    """Run the soak without an API server; return the memory before and after in MiB."""
    soak = Soak(nodes, scale=scale, alive=500)
    before = sizes = None
    started = time.monotonic()
    for done, part in _portions(warm_up, pods):
        await soak.run(part)
        gc.collect()
        memory, found = memory_mib(), table_sizes(soak.engine)
        if before is None:
            before, sizes = memory, found
        print(
            f"{done:>9,} pods  {memory:8.1f} MiB  {time.monotonic() - started:6.0f} s  {json.dumps(found)}", flush=True
        )
    assert before is not None
    if found != sizes:
        raise SystemExit(f"the tables changed: {sizes} after the warm-up, {found} at the end")
    return before, memory


def _portions(warm_up: int, pods: int) -> Iterator[tuple[int, int]]:
    yield warm_up, warm_up
    for number in range(1, 11):
        yield warm_up + pods * number // 10, pods // 10


async def live(nodes: int, pods: int, warm_up: int, scale: float) -> tuple[float, float]:
    """Run the soak with a scheduler process on a real API server; return its memory before and after in MiB."""
    from bench.hostile.live import MOORING_NAME, start_mooring
    from bench.live import objects
    from tests.e2e.controlplane import ControlPlane

    numbers = iter(range(1, 10**9))
    with ControlPlane() as plane:
        async with connected(plane) as server:
            await server.create(objects.NODES_PATH, objects.nodes(nodes))
            process, _ = start_mooring(plane)
            before = 0.0
            for done, part in _portions(warm_up, pods):
                for start in range(0, part, 200):
                    await _live_batch(
                        server, [next(numbers) for _ in range(min(200, part - start))], scale, MOORING_NAME
                    )
                await asyncio.sleep(3.0)
                memory = memory_mib(process.pid)
                before = before or memory
                print(f"{done:>9,} pods  {memory:8.1f} MiB", flush=True)
    return before, memory


async def _live_batch(server: Server, numbers: list[int], scale: float, scheduler: str) -> None:
    """Create pods, wait until the ordinary ones have a node, and delete all."""
    from bench.live.objects import PODS_PATH

    bodies = []
    for number in numbers:
        document = msgspec.json.decode(pod(number, scale=scale))
        document["metadata"].pop("uid", None)
        document["spec"].pop("priority", None)  # the API server computes it
        document["spec"] |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
        bodies.append(msgspec.json.encode(document))
    await server.create(PODS_PATH, bodies)
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        page = await server.get(f"{PODS_PATH}?fieldSelector=spec.nodeName%3D&limit=500")
        waiting = [
            each
            for each in page["items"]
            if not any(c["type"] == "PodScheduled" for c in each.get("status", {}).get("conditions", ()))
        ]
        if not waiting:
            break
        await asyncio.sleep(0.2)
    async with server.session.delete(PODS_PATH, params={"gracePeriodSeconds": "0"}) as answer:
        await answer.read()
    while await server.count(PODS_PATH):
        await asyncio.sleep(0.1)


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=0, help="By default 100,000, and 2,000 with --live.")
@click.option(
    "--warm-up", default=0, help="Pods before the first measurement; by default 20,000, and 1,000 with --live."
)
@click.option(
    "--scale", default=0.05, show_default=True, help="The size of the hostile pods: 1 is the API server's limit."
)
@click.option("--live", "is_live", is_flag=True, help="With a scheduler process on a real API server.")
def main(nodes: int, pods: int, warm_up: int, scale: float, is_live: bool) -> None:
    """Create and delete many pods, and compare the memory; fails if it has grown by more than 10 %."""
    run = live if is_live else offline
    pods, warm_up = pods or (2_000 if is_live else 100_000), warm_up or (1_000 if is_live else _WARM_UP)
    before, after = asyncio.run(run(nodes, pods, warm_up, scale))
    print(f"{before:.1f} MiB after the warm-up, {after:.1f} MiB at the end: {100 * (after / before - 1):+.1f} %")
    if after > before * _LIMIT:
        sys.exit("the memory has grown by more than 10 %")


if __name__ == "__main__":
    main()
