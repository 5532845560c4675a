"""What is told about a pod, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from mooring.api.meta import ObjectMeta
from mooring.api.scheduling import NativePodGroup
from mooring.framework.state import CycleState
from mooring.framework.status import PostFilterResult, Status
from mooring.kube import Conflict, KubeError, NotFound, Unavailable
from mooring.live.reporter import Reporter, group_condition
from mooring.scheduler.attempt_results import FailedAttempt, GroupStatus, ScheduleFailure
from mooring.scheduler.queue import QueuedPod
from mooring.testing import make_pod


class Recorder:
    """Takes events."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def record(self, regarding: Any, **said: Any) -> None:
        self.notes.append(said["note"])


class Client:
    """Takes patches, each when it is let through, after the errors that were planned."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)
        self.tries = 0
        self.messages: list[str] = []
        self.uids: list[str] = []
        self.gate = asyncio.Event()

    async def patch_status(self, kind: Any, name: str, patch: bytes, *, namespace: str) -> None:
        await self.gate.wait()
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        body = msgspec.json.decode(patch)
        self.uids.append(body["metadata"]["uid"])
        self.messages.append(body["status"]["conditions"][0]["message"])


def failed(message: str) -> FailedAttempt:
    pod = make_pod("p").obj()
    status = Status.unschedulable(message)
    unplaced = ScheduleFailure(message, status, CycleState(), result=PostFilterResult())
    return FailedAttempt(QueuedPod(pod=pod, key=pod.key, profile="default-scheduler", timestamp=0.0), unplaced)


def reporter(client: Client) -> Reporter:
    return Reporter(client, Recorder(), lambda: 0.0)  # type: ignore[arg-type]  # stand-ins


def test_what_was_said_first_is_written_first_and_a_bind_waits_for_it() -> None:
    async def scenario() -> list[str]:
        client = Client()
        told, one = reporter(client), failed("one")
        pod = one.queued.pod
        tasks = [asyncio.create_task(told.failed(each, pod)) for each in (one, failed("two"))]
        await asyncio.sleep(0)

        async def bind() -> None:
            writing = told.flushed(pod.uid)
            assert writing is not None
            await writing
            client.messages.append("bind")

        tasks.append(asyncio.create_task(bind()))
        client.gate.set()
        await asyncio.gather(*tasks)
        assert client.uids == [pod.uid, pod.uid]
        return client.messages

    assert asyncio.run(scenario()) == ["one", "two", "bind"]


@pytest.mark.parametrize(
    ("errors", "tries", "written"),
    [
        ([], 1, ["no"]),
        ([NotFound(404)], 1, []),
        ([Conflict(409)], 2, ["no"]),
        ([Conflict(409)] * 3, 3, []),
        ([Unavailable(503)], 1, []),
    ],
)
def test_what_cannot_be_written_harms_nobody(errors: list[KubeError], tries: int, written: list[str]) -> None:
    async def scenario() -> Client:
        client = Client(*errors)
        client.gate.set()
        told, attempt = reporter(client), failed("no")
        await told.failed(attempt, attempt.queued.pod)
        assert told.flushed(attempt.queued.uid) is None
        return client

    client = asyncio.run(scenario())
    assert (client.tries, client.messages) == (tries, written)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.0, ["n1", None, "untouched"]), (60.0, ["untouched", "untouched"])],
    ids=["slow", "quick"],
)
def test_an_expectation_that_came_to_nothing_is_taken_back(
    seconds: float, written: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the pod in hand does not show yet that it was published. A quick bind does not publish it."""
    monkeypatch.setattr("mooring.live.reporter._EXPECTED_SECONDS", seconds)

    async def scenario() -> list[Any]:
        sent: list[Any] = []

        class Keeping(Client):
            async def patch_status(self, kind: Any, name: str, patch: bytes, *, namespace: str) -> None:
                sent.append(msgspec.json.decode(patch)["status"].get("nominatedNodeName", "untouched"))

        told = reporter(Keeping())
        one = failed("rejected at Permit")
        cleared = FailedAttempt(one.queued, one.failure, nominated_node="")
        pod = one.queued.pod
        end = told.expect(pod, "n1")
        for _ in range(3):
            await asyncio.sleep(0)
        await end()
        await told.failed(cleared, pod)
        await told.failed(cleared, pod)
        return sent

    assert asyncio.run(scenario()) == written


def test_the_condition_of_a_group() -> None:
    group = NativePodGroup(metadata=ObjectMeta(name="g", namespace="default", generation=2))
    failed = group_condition(group, GroupStatus("Unschedulable", "no room"), 1000.0)
    assert failed == {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "lastTransitionTime": "1970-01-01T00:16:40Z",
        "observedGeneration": 2,
    }
    known = msgspec.convert({"status": {"conditions": [{**failed, "status": "True"}]}}, NativePodGroup)
    assert group_condition(known, GroupStatus("Unschedulable", "no room"), 2000.0) is None, "it stays scheduled"
    same = msgspec.convert({"status": {"conditions": [failed]}}, NativePodGroup)
    assert group_condition(same, GroupStatus("Unschedulable", "no room"), 2000.0) is None
    other = group_condition(same, GroupStatus("Unschedulable", "still no room"), 2000.0)
    assert other is not None
    assert other["lastTransitionTime"] == "1970-01-01T00:16:40Z"


def test_a_group_that_was_scheduled_is_not_reported_as_unschedulable() -> None:
    async def scenario() -> list[str]:
        client = Client()
        told = reporter(client)
        group = NativePodGroup(metadata=ObjectMeta(name="g", namespace="default", uid="g"))
        statuses = (
            GroupStatus("Unschedulable", "no room"),
            GroupStatus("Scheduled"),
            GroupStatus("Unschedulable", "x"),
        )
        tasks = [asyncio.create_task(told.group(group, status)) for status in statuses]
        await asyncio.sleep(0)
        client.gate.set()
        await asyncio.gather(*tasks)
        return client.messages

    assert asyncio.run(scenario()) == ["no room", ""], "the condition may not be in the watch yet"
