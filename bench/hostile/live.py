"""Hostile pods on a real API server, decided by Mooring and by kube-scheduler, which run side by side.

For each shape and scheduler: create the pod, then ordinary pods at short intervals, until the scheduler has answered.
Measured are the CPU time of the scheduler's process, the longest time until an ordinary pod had a node, and for
Mooring the longest time in which its event loop answered no request.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import aiohttp
import msgspec

from bench.hostile.shapes import manifest
from bench.live import objects
from bench.live.server import Server, ServerError, connected
from bench.live.usage import usage
from tests.e2e.controlplane import ControlPlane, Process, free_port
from tests.e2e.mooring_process import MOORING

MOORING_NAME: Final = "mooring-scheduler"
_KUBE_NAME: Final = "kube-scheduler"
_EVENTS: Final = "/api/v1/namespaces/default/events"
#: Ordinary pods for each hostile pod, and the time between them.
_ORDINARY, _INTERVAL = 5, 0.1
#: How long a scheduler may take to answer, and how long its CPU time is counted after its answer.
_PATIENCE, _SETTLE = 120.0, 0.7
#: The limits. CPU times below the second number are not compared, because a process reports them in steps of 10 ms.
MOST_TIMES, LEAST_SECONDS, MOST_BLOCKED, MOST_DELAY = 2.0, 0.1, 1.0, 1.0


class Measured(msgspec.Struct, frozen=True):
    """One shape and one scheduler."""

    #: "placed", or the message of the pod's condition; "refused" if the API server rejects the pod.
    answer: str
    cpu: float
    seconds: float
    #: The longest time until an ordinary pod had a node.
    delay: float
    #: The longest time in which the event loop answered no request.
    blocked: float = 0.0


class Row(msgspec.Struct, frozen=True):
    """One shape with both schedulers."""

    shape: str
    mooring: Measured
    kube: Measured

    def violations(self) -> list[str]:
        """Return the limits that are exceeded."""
        found = []
        if self.mooring.cpu > max(MOST_TIMES * self.kube.cpu, LEAST_SECONDS):
            found.append(f"CPU {self.mooring.cpu:.2f} s, kube-scheduler {self.kube.cpu:.2f} s")
        if self.mooring.blocked > MOST_BLOCKED:
            found.append(f"the event loop was blocked for {self.mooring.blocked:.2f} s")
        if self.mooring.delay > MOST_DELAY:
            found.append(f"an ordinary pod waited {self.mooring.delay:.2f} s")
        if self.mooring.answer != self.kube.answer:
            found.append(f"other answers: {self.mooring.answer[:150]!r}, kube-scheduler {self.kube.answer[:150]!r}")
        return found


def start_mooring(plane: ControlPlane) -> tuple[Process, int]:
    """Start Mooring for its own scheduler name; return the process and the port of its endpoints."""
    config = plane.scheduler_config({"profiles": [{"schedulerName": MOORING_NAME}]}, name="mooring")
    port = free_port()
    flags = ["--config", str(config), "--bind-address", "127.0.0.1", "--secure-port", str(port)]
    return plane.run("mooring", [str(MOORING), "run", *flags], wait=False), port


async def compare(shapes: Sequence[str], nodes: int) -> AsyncIterator[Row]:
    """Measure shapes with both schedulers on one API server."""
    with ControlPlane() as plane:
        async with connected(plane) as server:
            await server.create(objects.NODES_PATH, objects.nodes(nodes))
            mooring, port = start_mooring(plane)
            kube = plane.start_kube_scheduler({"profiles": [{"schedulerName": _KUBE_NAME}]})
            token = plane.users["admin"].token
            await _until_ready(port)
            for name, process in ((MOORING_NAME, mooring), (_KUBE_NAME, kube)):
                await _measure(server, process, name, "", 0)  # both are warm
            for number, shape in enumerate(shapes, start=1):
                ours = await _measure(server, mooring, MOORING_NAME, shape, number)
                async with _loop_times(port, token) as times:  # another pod, because the requests take CPU time, too
                    await _measure(server, mooring, MOORING_NAME, shape, number)
                ours = msgspec.structs.replace(ours, blocked=max(times, default=0.0))
                yield Row(shape, ours, await _measure(server, kube, _KUBE_NAME, shape, number))


async def _measure(server: Server, process: Process, scheduler: str, shape: str, number: int) -> Measured:
    name = f"hostile-{scheduler[:4]}-{number}"
    body = manifest(shape, name)
    body["spec"] |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
    before, started = usage(process.pid).cpu_seconds, time.monotonic()
    try:
        await server.create_one(objects.PODS_PATH, msgspec.json.encode(body))
    except ServerError as error:
        return Measured(f"refused: {str(error)[:200]}", 0.0, 0.0, 0.0)
    delays = await asyncio.gather(
        _answered(server, name),
        *(_place_ordinary(server, scheduler, f"ordinary-{scheduler[:4]}-{number}-{n}", n) for n in range(_ORDINARY)),
    )
    seconds = time.monotonic() - started
    await asyncio.sleep(_SETTLE)
    cpu = usage(process.pid).cpu_seconds - before
    while not (answer := _answer(await server.get(f"{objects.PODS_PATH}/{name}"))):
        await asyncio.sleep(0.2)  # the event may be written before the condition
    async with server.session.delete(objects.PODS_PATH, params={"gracePeriodSeconds": "0"}) as gone:
        await gone.read()
    while await server.count(objects.PODS_PATH):
        await asyncio.sleep(0.05)
    return Measured(answer, cpu, seconds, max(delays[1:]))


async def _answered(server: Server, name: str) -> float:
    """Wait for the event that tells the outcome of the first attempt. The pod itself is too large to read often."""
    started = time.monotonic()
    while time.monotonic() - started < _PATIENCE:
        page = await server.get(f"{_EVENTS}?fieldSelector=involvedObject.name%3D{name}")
        if any(each["reason"] in ("Scheduled", "FailedScheduling") for each in page["items"]):
            break
        await asyncio.sleep(0.05)
    return time.monotonic() - started


async def _place_ordinary(server: Server, scheduler: str, name: str, number: int) -> float:
    """Create an ordinary pod after a moment; return how long it has waited for its node."""
    await asyncio.sleep(_INTERVAL * number)
    body = msgspec.json.decode(objects.single_pod(number))
    body["metadata"]["name"] = name
    body["spec"]["schedulerName"] = scheduler
    started = time.monotonic()
    await server.create_one(objects.PODS_PATH, msgspec.json.encode(body))
    while time.monotonic() - started < _PATIENCE:
        pod = await server.get(f"{objects.PODS_PATH}/{name}")
        if pod["spec"].get("nodeName"):
            break
        await asyncio.sleep(0.02)
    return time.monotonic() - started


def _answer(pod: dict[str, Any]) -> str:
    if pod["spec"].get("nodeName"):
        return "placed"
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled":
            return str(condition.get("message", ""))
    return ""


@contextlib.asynccontextmanager
async def _loop_times(port: int, token: str) -> AsyncIterator[list[float]]:
    """Read an endpoint that the event loop answers, all the time, and collect the times that it took."""
    times: list[float] = []

    async def ask() -> None:
        async with _endpoints(port, token) as session:
            while True:
                started = time.monotonic()
                async with session.get("/plugins") as answer:
                    await answer.read()
                times.append(time.monotonic() - started)
                await asyncio.sleep(0.02)

    task = asyncio.create_task(ask())
    try:
        yield times
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _endpoints(port: int, token: str = "") -> aiohttp.ClientSession:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=context)
    return aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector, headers=headers)


async def _until_ready(port: int) -> None:
    async with asyncio.timeout(120), _endpoints(port) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get("/readyz") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.2)


def line(row: Row) -> str:
    """Return a row of the table."""
    ours, kube = row.mooring, row.kube
    same = "same" if ours.answer == kube.answer else "OTHER"
    verdict = "placed" if ours.answer == "placed" else "refused" if ours.answer.startswith("refused") else "rejected"
    numbers = (ours.cpu, kube.cpu, ours.delay, kube.delay, ours.blocked, ours.seconds, kube.seconds)
    return f"{row.shape:<36}" + "".join(f"{number:>9.2f}" for number in numbers) + f"  {verdict}, {same}"


#: Of each pair the first number is Mooring's, the second kube-scheduler's.
HEADER: Final = f"{'shape':<36}{'CPU s':>9}{'kube':>9}{'delay s':>9}{'kube':>9}{'blocked':>9}{'answer s':>9}{'kube':>9}"
