"""The measurements: binds per second, start-up in a full cluster, and latency of single pods and at half load."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.live import devices, objects
from bench.live.contenders import Contender, compile_checkout
from bench.live.observer import Observer, observing
from bench.live.results import Latency, Load, Rate, Startup
from bench.live.server import Server, connected
from bench.live.usage import Usage, busy_seconds, usage
from tests.e2e.controlplane import ControlPlane, Process

#: The time without a bind after which a contender has failed.
_PATIENCE: Final = 90.0
_EVENTS_PATIENCE: Final = 15.0
_EVENTS_POLL: Final = 0.1
#: The pause after creating objects, until the server is idle.
_REST: Final = 3.0
_EVENTS_PATH: Final = "/apis/events.k8s.io/v1/events"


class MeasureError(Exception):
    """A contender failed."""


#: Creates objects before a measurement starts.
Fill = Callable[[Server], Awaitable[None]]


async def prepare(to: Path, base: Path | None, fill: Fill, *, flags: Sequence[str] = ()) -> None:
    """Create a state from which control planes can start: that of `base` plus the objects of `fill`.

    `flags` are additional flags of kube-apiserver.
    """
    with ControlPlane(unlimited=True, state=base, apiserver_flags=flags) as plane:
        async with connected(plane) as server:
            await fill(server)
        plane.save_state(to)


async def rate(
    contender: Contender,
    state: Path,
    fill: Fill,
    workload: str,
    pods: int,
    *,
    at_end: Callable[[], None] | None = None,
    flags: Sequence[str] = (),
) -> Rate:
    """Start a contender after `fill` has created the pods, and measure how fast it binds them.

    `at_end` is called after the measurement, while the contender is still running. `flags` are additional flags of
    kube-apiserver.
    """
    async with _scene(state, fill, flags) as scene:
        scene.writes = await scene.server.writes()
        process = scene.start(contender)
        await scene.observer.wait(1, patience=_PATIENCE)
        start_cpu = scene.spent().own.cpu_seconds
        await scene.observer.wait(pods, patience=_PATIENCE)
        first, last = _ends(scene.observer, contender, process)
        wanted = pods if contender.sends_events else 0
        events, events_at = await _count_events(scene.server, wanted, last)
        spent = scene.spent()
        if at_end is not None:
            await asyncio.to_thread(at_end)
        bound = len(scene.observer.times)
        return Rate(
            workload=workload,
            scheduler=contender.name,
            nodes=await scene.server.count(objects.NODES_PATH),
            pods=pods,
            bound=bound,
            binds_per_s=round((bound - 1) / (last - first), 1) if last > first else 0.0,
            done_per_s=round((bound - 1) / (events_at - first), 1) if events_at > first else 0.0,
            first_bind_s=round(first - scene.started, 3),
            cpu_ms_per_pod=round(spent.own.cpu_seconds / bound * 1000, 3),
            start_cpu_s=round(start_cpu, 2),
            bind_cpu_ms_per_pod=round((spent.own.cpu_seconds - start_cpu) / bound * 1000, 3),
            peak_mib=round(spent.own.peak_mib, 1),
            server_cpu_ms_per_pod=round(spent.server_cpu / bound * 1000, 3),
            writes_per_pod=round((await scene.server.writes() - scene.writes) / bound, 2),
            events=events,
            events_after_s=round(events_at - last, 1),
            foreign_cpu=spent.foreign,
        )


async def startup(contender: Contender, state: Path, fill: Fill, running: int) -> Startup:
    """Start a contender on a state full of running pods, after `fill` has created pending ones."""
    async with _scene(state, fill) as scene:
        process = scene.start(contender)
        await scene.observer.wait(1, patience=_PATIENCE)
        first, _ = _ends(scene.observer, contender, process)
        spent = scene.spent()
        return Startup(
            scheduler=contender.name,
            nodes=await scene.server.count(objects.NODES_PATH),
            running_pods=running,
            first_bind_s=round(first - scene.started, 3),
            cpu_s=round(spent.own.cpu_seconds, 2),
            peak_mib=round(spent.own.peak_mib, 1),
            foreign_cpu=spent.foreign,
        )


async def latency(contender: Contender, state: Path, pods: int, *, warm_up: int = 20, pause: float = 0.05) -> Latency:
    """Measure the time from creation to binding, for one pod at a time on an idle scheduler."""
    async with _scene(state) as scene:
        scene.start(contender)
        seconds = []
        for number in range(warm_up + pods):
            sent = time.monotonic()
            await scene.server.create_one(objects.PODS_PATH, objects.single_pod(number))
            bound = await scene.observer.wait_for("default", f"single-{number}", patience=_PATIENCE)
            seconds.append(bound - sent)
            await asyncio.sleep(pause)
        measured = sorted(seconds[warm_up:])
        return Latency(
            scheduler=contender.name,
            nodes=await scene.server.count(objects.NODES_PATH),
            pods=pods,
            p50_ms=round(quantile(measured, 0.50) * 1000, 2),
            p99_ms=round(quantile(measured, 0.99) * 1000, 2),
            foreign_cpu=scene.spent().foreign,
        )


async def load(contender: Contender, state: Path, pods: int, *, rounds: int = 3) -> Load:
    """Measure the time from creation to binding, for pods that are created at half the highest rate.

    The highest rate is measured first: the same number of pods, created as fast as the server answers, until the last
    one is bound and its event is written. Then, the median of several rounds counts.
    """
    warm_up = max(1, pods // 6)
    async with _scene(state) as scene:
        process = scene.start(contender)
        bodies = [objects.single_pod(number) for number in range(warm_up + (1 + rounds) * pods)]
        await _created_and_bound(scene, bodies[:warm_up], warm_up, process)
        await _count_events(scene.server, warm_up, time.monotonic())
        began = time.monotonic()
        await _created_and_bound(scene, bodies[warm_up : warm_up + pods], warm_up + pods, process)
        _, ended = await _count_events(scene.server, warm_up + pods, max(scene.observer.times.values()))
        highest = pods / (ended - began)
        found: list[list[float]] = []
        for first in range(warm_up + pods, len(bodies), pods):
            await asyncio.sleep(_REST)
            sent = await _create_at(scene.server, bodies[first : first + pods], highest / 2)
            await _bound(scene, first + pods, process)
            times = (scene.observer.times["default", f"single-{number}"] for number in range(first, first + pods))
            found.append(sorted(at - begun for at, begun in zip(times, sent, strict=True)))
        return Load(
            scheduler=contender.name,
            nodes=await scene.server.count(objects.NODES_PATH),
            highest_per_s=round(highest, 1),
            per_s=round(highest / 2, 1),
            pods=pods,
            rounds=rounds,
            p50_ms=round(statistics.median(quantile(each, 0.50) for each in found) * 1000, 2),
            p99_ms=round(statistics.median(quantile(each, 0.99) for each in found) * 1000, 2),
            worst_p99_ms=round(max(quantile(each, 0.99) for each in found) * 1000, 2),
            foreign_cpu=scene.spent().foreign,
        )


async def _created_and_bound(scene: _Scene, bodies: Sequence[bytes], bound: int, process: Process) -> None:
    """Create pods as fast as possible, and wait until a number of pods are bound in all."""
    await scene.server.create(objects.PODS_PATH, bodies)
    await _bound(scene, bound, process)


async def _bound(scene: _Scene, count: int, process: Process) -> None:
    if not await scene.observer.wait(count, patience=_PATIENCE):
        raise MeasureError(f"pods were left unbound; the end of the scheduler's log:\n{process.tail()}")


async def _create_at(server: Server, bodies: Sequence[bytes], per_second: float) -> list[float]:
    """Create pods at a constant rate, whether or not earlier requests are answered. Return when each was sent."""
    sent: list[float] = []
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, body in enumerate(bodies):
            await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
            sent.append(time.monotonic())
            group.create_task(server.create_one(objects.PODS_PATH, body))
    return sent


async def bursts(
    contender: Contender, state: Path, make: Callable[[Server, int, int], Awaitable[None]], size: int, count: int
) -> list[float]:
    """Measure how fast an idle scheduler binds several pods that are created at once.

    Return the seconds from the call of `make` (server, number, size), which creates the pods, to the last bind. The
    first burst is not included.
    """
    async with _scene(state) as scene:
        process = scene.start(contender)
        seconds = []
        for number in range(count + 1):
            sent = time.monotonic()
            await make(scene.server, number, size)
            await _bound(scene, (number + 1) * size, process)
            seconds.append(max(scene.observer.times.values()) - sent)
            await asyncio.sleep(1.0)
        return seconds[1:]


def quantile(ordered: list[float], share: float) -> float:
    """Return the smallest value that is at least as large as this share of the values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class _Spent(NamedTuple):
    own: Usage
    server_cpu: float
    #: The share of all processors that other processes used.
    foreign: float


class _Scene:
    """A control plane that is being measured."""

    def __init__(self, plane: ControlPlane, server: Server, observer: Observer) -> None:
        self._plane = plane
        self.server = server
        self.observer = observer
        self.started = 0.0
        #: The number of writes that the server had answered at the start.
        self.writes = 0
        self._contender: Process | None = None
        self._busy = 0.0
        self._server_cpu = 0.0
        self._harness_cpu = 0.0

    def start(self, contender: Contender) -> Process:
        """Start a contender and the clock."""
        self._busy = busy_seconds()
        self._server_cpu = self._read_server()
        self._harness_cpu = time.process_time()
        self.started = time.monotonic()
        self._contender = contender.start(self._plane)
        return self._contender

    def spent(self) -> _Spent:
        """Return the usage since the start."""
        assert self._contender is not None
        own = usage(self._contender.pid)
        server = self._read_server() - self._server_cpu
        measured = own.cpu_seconds + server + time.process_time() - self._harness_cpu
        capacity = (time.monotonic() - self.started) * (os.cpu_count() or 1)
        return _Spent(own, server, round(max(0.0, busy_seconds() - self._busy - measured) / capacity, 3))

    def _read_server(self) -> float:
        return sum(usage(each.pid).cpu_seconds for each in (self._plane.etcd, self._plane.apiserver))


@asynccontextmanager
async def _scene(state: Path, fill: Fill | None = None, flags: Sequence[str] = ()) -> AsyncIterator[_Scene]:
    compile_checkout()
    with ControlPlane(unlimited=True, state=state, apiserver_flags=flags) as plane:
        async with connected(plane) as server:
            # The pods are created here and not in the state, because a server that has just started has small watch
            # buffers, which grow with the number of changes.
            if fill is not None:
                await fill(server)
            # Fill the server's caches, so that no contender has to wait for them.
            for path in ("/api/v1/nodes", "/api/v1/pods", *devices.PATHS):
                await server.get(f"{path}?resourceVersion=0&limit=1")
            await asyncio.sleep(_REST)
            async with observing(server) as observer:
                yield _Scene(plane, server, observer)


def _ends(observer: Observer, contender: Contender, process: Process) -> tuple[float, float]:
    if not observer.times:
        raise MeasureError(f"{contender.name} bound nothing; the end of its log:\n{process.tail()}")
    return min(observer.times.values()), max(observer.times.values())


async def _count_events(server: Server, wanted: int, last_bind: float) -> tuple[int, float]:
    """Wait for a number of events, or until no more arrive. Return their number and the time of the last one."""
    found, at = 0, last_bind
    while wanted:
        count = await server.count(_EVENTS_PATH)
        now = time.monotonic()
        if count > found:
            found, at = count, max(now, last_bind)
        if found >= wanted or now - at > _EVENTS_PATIENCE:
            break
        await asyncio.sleep(_EVENTS_POLL)
    return found, at
