"""Locks of nodes are written before a bind, and removed if it fails."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mooring.api.meta import ObjectMeta, parse_time
from mooring.api.node import Node
from mooring.batch.node_locks import NodeLock
from mooring.kube import Client, Conflict, Forbidden
from mooring.live.batch.node_locker import NodeLocker
from tests.log_capture import capture_logs

NOW = parse_time("2026-01-01T12:00:00Z")
STAYS, PASSES = NodeLock("hamivgpu", True), NodeLock("Ascend310P", False)


class Server:
    """One node. Every patch gives it another version."""

    def __init__(self, **annotations: str) -> None:
        self.annotations = annotations
        self.version = 1
        #: The errors of the next requests.
        self.failures: list[Exception] = []
        self.patches = 0

    async def get(self, kind: type[Node], name: str) -> Node:
        return Node(metadata=ObjectMeta(name=name, resource_version=str(self.version), annotations=self.annotations))

    async def patch(self, kind: type[Node], name: str, body: dict[str, Any], *, idempotent: bool) -> None:
        self.patches += 1
        if self.failures:
            raise self.failures.pop(0)
        assert body["metadata"]["resourceVersion"] == str(self.version)
        self.version += 1
        given = {**self.annotations, **body["metadata"]["annotations"]}
        self.annotations = {key: value for key, value in given.items() if value is not None}


def locker(server: Server) -> NodeLocker:
    async def sleep(seconds: float) -> None: ...

    return NodeLocker(cast(Client, server), lambda: NOW, sleep)


@pytest.mark.parametrize("old", [{}, {"hamivgpu": "2026-01-01T11:00:00Z"}])
async def test_a_lock_stays_for_the_device_plugin(old: dict[str, str]) -> None:
    server = Server(**old)
    tested = locker(server)
    status = await tested.lock("uid", "n", [STAYS])
    assert status.is_success
    tested.bound("uid")
    await tested.release("uid")
    assert server.annotations == {"hamivgpu": "2026-01-01T12:00:00Z"}


@pytest.mark.parametrize("value", ["2026-01-01T11:59:00Z", "yesterday"])
@pytest.mark.parametrize("lock", [STAYS, PASSES])
async def test_a_locked_node_is_left_alone(lock: NodeLock, value: str) -> None:
    server = Server(**{lock.name: value})
    status = await locker(server).lock("uid", "n", [lock])
    assert "node n cannot be locked" in status.message
    assert server.annotations == {lock.name: value}


async def test_a_failed_bind_removes_the_lock() -> None:
    server = Server(other="x")
    tested = locker(server)
    await tested.lock("uid", "n", [STAYS, PASSES])
    await tested.release("uid")
    await tested.release("uid")
    assert server.annotations == {"other": "x"}


@pytest.mark.parametrize(("old", "patches"), [({}, 0), ({"Ascend310P": "2026-01-01T11:00:00Z"}, 1)])
async def test_a_lock_that_does_not_stay_is_only_removed(old: dict[str, str], patches: int) -> None:
    server = Server(**old)
    assert (await locker(server).lock("uid", "n", [PASSES])).is_success
    assert (server.annotations, server.patches) == ({}, patches)


@pytest.mark.parametrize(("conflicts", "fits"), [(1, True), (4, True), (5, False)])
async def test_races_are_repeated(conflicts: int, fits: bool) -> None:
    server = Server()
    server.failures = [Conflict(409, "Conflict", "no")] * conflicts
    assert (await locker(server).lock("uid", "n", [STAYS])).is_success is fits


async def test_errors_are_reported() -> None:
    server = Server()
    tested = locker(server)
    server.failures = [Forbidden(403, "Forbidden", "no")]
    assert "node n cannot be locked" in (await tested.lock("uid", "n", [STAYS])).message
    assert (await tested.lock("uid", "n", [STAYS])).is_success
    server.failures = [Forbidden(403, "Forbidden", "no")]
    with capture_logs() as logs:
        await tested.release("uid")
    assert any("until its lock expires" in each["event"] for each in logs)
