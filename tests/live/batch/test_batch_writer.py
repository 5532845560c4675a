"""The writer goes on if one bind or one status fails in an unexpected way."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from mooring.api.volcano import PodGroup
from mooring.framework.api_clients import Binding
from mooring.kube import Client, Forbidden
from mooring.live.api_adapters import ApiBinder
from mooring.live.batch.batch_writer import BatchWriter
from mooring.live.reporter import Reporter
from mooring.testing import make_pod
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE


class Server:
    """Binds pods, patches objects and records events; fails for objects whose name starts with "bad"."""

    def __init__(self) -> None:
        self.bound: list[str] = []
        self.failed: list[tuple[str, str]] = []
        self.patched: list[str] = []

    async def bind(self, binding: Binding) -> None:
        if binding.name.startswith("bad"):
            raise KeyError("a bug")

    async def patch(self, *arguments: Any, **_: Any) -> PodGroup:
        name = str(arguments[1] if isinstance(arguments[1], str) else arguments[0].name)
        if name.startswith("bad"):
            raise KeyError("a bug")
        self.patched.append(name)
        return PodGroup()

    def record(self, *_: Any, **__: Any) -> None:
        pass

    async def bind_failed(self, pod: Any, problem: str) -> None:
        self.failed.append((pod.name, problem))
        if pod.name == "bad-0":
            raise ZeroDivisionError("another bug")

    async def eviction_failed(self, pod: Any) -> None:
        raise AssertionError


async def test_failures_of_single_writes() -> None:
    server = Server()
    writer = BatchWriter(
        cast(Client, server),
        cast(ApiBinder, server),
        cast(Reporter, server),
        clock=lambda: 0.0,
        component="volcano",
        on_bound=lambda pod: server.bound.append(pod.name),
        on_failed_bind=server.bind_failed,
        on_failed_eviction=server.eviction_failed,
    )
    # More failures than there are workers.
    bad = [f"bad-{number}" for number in range(100)]
    with capture_logs() as logs:
        for name in (*bad, "good"):
            writer.bind(make_pod(name).uid(name).obj(), "node")
            writer.pod_condition(make_pod(name).uid(name).obj(), "Invalid", "because")
        task = asyncio.ensure_future(writer.run())
        async with asyncio.timeout(PATIENCE):
            while "good" not in server.bound or "good" not in server.patched:
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait({task})
    assert {name for name, _ in server.failed} == set(bad)
    assert {problem for _, problem in server.failed} == {"KeyError: 'a bug'"}
    assert (writer.bound, writer.failed) == (1, 100)
    # Each is reported once.
    errors = [each["event"] for each in logs if each["log_level"] == "error"]
    assert sorted(errors) == ["a bind failed", "a status cannot be written", "the result of a bind cannot be recorded"]


async def test_requests_to_remove_scheduling_gates_pause_after_failures() -> None:
    """A missing permission concerns all pods: they are not all tried in every session."""
    now, tried, fails = 1000.0, [], True

    class Gates(Server):
        async def patch(self, *arguments: Any, **_: Any) -> PodGroup:
            tried.append(arguments[1])
            if fails:
                raise Forbidden(403, "Forbidden", "pods is forbidden")
            return PodGroup()

    server = Gates()
    writer = BatchWriter(
        cast(Client, server),
        cast(ApiBinder, server),
        cast(Reporter, server),
        clock=lambda: now,
        component="volcano",
        on_bound=lambda pod: None,
        on_failed_bind=server.bind_failed,
        on_failed_eviction=server.eviction_failed,
    )
    pods = [make_pod(f"p{number}").obj() for number in range(3)]
    running = asyncio.ensure_future(writer.run())

    async def session(count: int) -> None:
        for pod in pods[:count]:
            writer.remove_queue_gate(pod)
        await asyncio.sleep(0.01)

    await session(1)
    await session(3)
    assert tried == ["p0"], "the first failure pauses all of them"
    now += 31
    await session(1)
    fails = False
    now += 31
    await session(3)
    assert tried == ["p0", "p0", "p0", "p1", "p2"]
    await session(1)
    assert len(tried) == 6, "no pause after a success"
    running.cancel()
