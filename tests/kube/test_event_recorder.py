"""Events: one for each thing that happens, a count for what happens again."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from mooring.api import Event, Node, ObjectMeta, ObjectReference, Pod
from mooring.api.codec import encode_json
from mooring.kube import (
    Access,
    AlreadyExists,
    Client,
    EventRecorder,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
    reference,
)
from mooring.kube.event_recorder import FINISH_SECONDS
from tests.kube.server import Api
from tests.kube.virtual import run

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", resource_version="7"))
START = 1_000_000_000.0


class Sink:
    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.faults: list[Exception | None] = []
        self.delay = 0.01
        self.most = 0
        self._busy = 0

    async def create_event(self, event: Event) -> None:
        await self._call("create")
        if event.name in self.stored:
            raise AlreadyExists(409, "AlreadyExists")
        self.stored[event.name] = json.loads(encode_json(event))

    async def patch_event(self, namespace: str, name: str, patch: bytes, *, core: bool = False) -> None:
        await self._call("patch")
        if name not in self.stored:
            raise NotFound(404, "NotFound")
        assert core == (self.stored[name]["apiVersion"] == "v1")
        self.stored[name] |= json.loads(patch)

    async def _call(self, what: str) -> None:
        self.calls.append(what)
        self._busy += 1
        self.most = max(self.most, self._busy)
        await asyncio.sleep(self.delay)
        self._busy -= 1
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault


@contextlib.asynccontextmanager
async def recording(sink: Sink, **options: Any) -> AsyncIterator[EventRecorder]:
    loop = asyncio.get_running_loop()
    recorder = EventRecorder(sink, host="host", now=lambda: START + loop.time(), **options)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
        assert not task.done()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def failed(recorder: EventRecorder, pod: Pod | ObjectReference = POD, note: str = "0/1 nodes", **options: Any) -> None:
    recorder.record(
        pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note, component="sched", **options
    )


def test_an_event_as_users_see_it() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            failed(recorder, related=Node(metadata=ObjectMeta(name="n")))
            assert await recorder.drain(5)
        (event,) = sink.stored.values()
        assert event["metadata"] == {"name": f"p.{int(START * 1e9):x}", "namespace": "ns"}
        assert event == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": event["metadata"],
            "eventTime": "2001-09-09T01:46:40.000000Z",
            "reportingController": "sched",
            "reportingInstance": "sched-host",
            "action": "Scheduling",
            "reason": "FailedScheduling",
            "regarding": {
                "apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "7",
            },
            "related": {"apiVersion": "v1", "kind": "Node", "name": "n"},
            "note": "0/1 nodes",
            "type": "Warning",
        }  # fmt: skip

    run(main())


def test_repeats_become_a_series_that_is_written_twice_and_at_its_end() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            for index in range(10):
                failed(recorder, note=f"note {index}")
                await asyncio.sleep(1)
            assert sink.calls == ["create", "patch"]
            (event,) = sink.stored.values()
            assert event["note"] == "note 0"
            assert event["series"] == {"count": 2, "lastObservedTime": "2001-09-09T01:46:41.000000Z"}
            await asyncio.sleep(2 * FINISH_SECONDS)
            assert sink.calls == ["create", "patch", "patch"]
            assert event["series"] == {"count": 10, "lastObservedTime": "2001-09-09T01:46:49.000000Z"}
            # What happens after the series has ended is a new event.
            failed(recorder)
            assert await recorder.drain(5)
            assert len(sink.stored) == 2

    run(main())


def test_a_series_that_goes_on_is_refreshed_every_half_hour() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            for _ in range(40):
                failed(recorder)
                await asyncio.sleep(60)
        assert sink.calls == ["create", "patch", "patch"]

    run(main())


def test_repeats_before_the_first_is_sent_go_with_it() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            for _ in range(5):
                failed(recorder)
            assert await recorder.drain(5)
        assert sink.calls == ["create"]
        (event,) = sink.stored.values()
        assert event["series"]["count"] == 5

    run(main())


def test_what_is_the_same_and_what_is_not() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            failed(recorder)
            failed(recorder, note="another note")
            failed(recorder, Pod(metadata=ObjectMeta(name="q", namespace="ns")))
            failed(recorder, Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", resource_version="8")))
            recorder.record(POD, type="Normal", reason="Scheduled", action="Binding", note="", component="sched")
            recorder.record(POD, type="Normal", reason="Scheduled", action="Binding", note="", component="other")
            assert await recorder.drain(5)
        assert len(sink.stored) == 5

    run(main())


def test_an_event_that_expired_on_the_server_is_created_again() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            failed(recorder)
            assert await recorder.drain(5)
            sink.stored.clear()
            failed(recorder)
            assert await recorder.drain(5)
        assert sink.calls == ["create", "patch", "create"]
        (event,) = sink.stored.values()
        assert event["series"]["count"] == 2

    run(main())


@pytest.mark.parametrize(
    ("faults", "calls", "stored"),
    [
        ([OutcomeUnknown("?"), ServerError(500), None], ["create"] * 3, 1),
        ([Invalid(422, "Invalid", "no")], ["create"], 0),
        # A server that has just started refuses everybody for a moment.
        ([Forbidden(403, "Forbidden", "no"), None], ["create"] * 2, 1),
        ([Forbidden(403, "Forbidden", "no")] * 9, ["create"] * 5, 0),
        ([OutcomeUnknown("?")] * 20, ["create"] * 13, 0),
    ],
    ids=["passing", "refused", "not yet let in", "not let in", "hopeless"],
)
def test_faults(faults: list[Exception | None], calls: list[str], stored: int) -> None:
    async def main() -> None:
        sink = Sink()
        sink.faults = list(faults)
        async with recording(sink) as recorder:
            failed(recorder)
            assert await recorder.drain(300)
        assert (sink.calls, len(sink.stored)) == (calls, stored)

    run(main())


def test_an_event_that_got_through_without_an_answer_is_not_doubled() -> None:
    class Deaf(Sink):
        async def create_event(self, event: Event) -> None:
            await super().create_event(event)
            if len(self.calls) == 1:
                raise OutcomeUnknown("no answer")

    async def main() -> None:
        sink = Deaf()
        async with recording(sink) as recorder:
            failed(recorder)
            assert await recorder.drain(60)
            assert (sink.calls, len(sink.stored)) == (["create", "create"], 1)

    run(main())


def test_many_are_sent_side_by_side_and_too_many_are_dropped_and_counted() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink, limit=100, senders=8) as recorder:
            for index in range(150):
                failed(recorder, Pod(metadata=ObjectMeta(name=f"p{index}", namespace="ns")))
            assert recorder.pending == 100
            assert recorder.dropped == 50
            assert await recorder.drain(5)
            assert not recorder.pending
        assert len(sink.stored) == 100
        assert sink.most == 8

    run(main())


def test_an_event_wakes_only_one_sender() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink, senders=8) as recorder:
            await asyncio.sleep(0.001)
            assert len(recorder._waiting) == 8
            failed(recorder)
            assert len(recorder._waiting) == 7
            assert await recorder.drain(5)
            await asyncio.sleep(0.001)
            assert len(recorder._waiting) == 8

    run(main())


def test_several_events_wake_as_many_senders() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink, senders=8) as recorder:
            await asyncio.sleep(0.001)
            for index in range(3):
                failed(recorder, Pod(metadata=ObjectMeta(name=f"p{index}", namespace="ns")))
            waiting, least = recorder._waiting, 8
            while not recorder._idle.is_set():
                least = min(least, len(waiting))
                await asyncio.sleep(0.0001)
            assert least == 5
            assert (len(sink.stored), sink.most, recorder._woken) == (3, 3, 0)

    run(main())


def test_one_sender_looks_if_events_may_be_sent_and_all_send_when_they_may() -> None:
    async def main() -> None:
        sink, busy, looks = Sink(), True, 0

        def hold_back() -> bool:
            nonlocal looks
            looks += 1
            return busy

        async with recording(sink, senders=64, hold_back=hold_back) as recorder:
            for index in range(500):
                failed(recorder, Pod(metadata=ObjectMeta(name=f"p{index}", namespace="ns")))
            await asyncio.sleep(2)
            assert not sink.calls
            assert looks < 2 * 2 / 0.05  # not 64 times as many
            busy = False
            assert await recorder.drain(5)
        assert len(sink.stored) == 500
        assert sink.most == 64

    run(main())


def test_draining_has_a_limit() -> None:
    async def main() -> None:
        sink = Sink()
        sink.delay = 100
        async with recording(sink) as recorder:
            failed(recorder)
            assert not await recorder.drain(5)

    run(main())


@pytest.mark.parametrize("name", ["Upper", "x" * 250, "under_score", "trailing."])
def test_names_that_would_not_do_are_replaced(name: str) -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            failed(recorder, ObjectReference(kind="Node", name=name))
            assert await recorder.drain(5)
        (event,) = sink.stored.values()
        assert len(event["metadata"]["name"]) == 36
        assert event["metadata"]["namespace"] == "default"

    run(main())


@pytest.mark.parametrize(
    ("note", "sent"), [("x" * 1024, "x" * 1024), ("x" * 1025, "x" * 1020 + " ..."), ("ä" * 600, "ä" * 510 + " ...")]
)
def test_notes_are_cut_to_what_the_server_takes(note: str, sent: str) -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            failed(recorder, note=note)
            assert await recorder.drain(5)
        (event,) = sink.stored.values()
        assert event["note"] == sent

    run(main())


async def test_on_a_server(api: Api) -> None:
    async with Client(Access(server=api.url)) as client:
        recorder = EventRecorder(client)
        task = asyncio.create_task(recorder.run())
        for index in range(300):
            failed(recorder, ObjectReference(kind="Pod", namespace="ns", name=f"p{index}"))
        assert await recorder.drain(10)
        failed(recorder, ObjectReference(kind="Pod", namespace="ns", name="p0"))
        assert await recorder.drain(10)
        task.cancel()
    events = [each for path, each in api.objects.items() if "/events/" in path]
    assert len(events) == 300
    assert sum("series" in each for each in events) == 1


def test_a_reference_is_kept() -> None:
    given = ObjectReference(name="x")
    assert reference(given) is given


def test_events_wait_while_there_is_more_important_work_but_not_for_ever() -> None:
    async def main() -> None:
        sink, busy = Sink(), True
        async with recording(sink, hold_back=lambda: busy) as recorder:
            for number in range(40):
                failed(recorder, pod=Pod(metadata=ObjectMeta(name=f"p-{number}", namespace="ns", uid=f"u-{number}")))
            await asyncio.sleep(9)
            assert sink.calls == []
            await asyncio.sleep(1.02)
            assert 0 < len(sink.calls) < 40
            assert sink.most <= 4  # a few at a time
            await asyncio.sleep(9)
            assert len(sink.stored) == 40

    run(main())


def test_held_events_go_at_once_when_the_work_is_done_or_the_process_stops() -> None:
    async def main() -> None:
        for stop in (False, True):
            sink, busy = Sink(), [True]
            async with recording(sink, hold_back=lambda busy=busy: busy[0]) as recorder:
                failed(recorder)
                await asyncio.sleep(1)
                assert sink.calls == []
                if stop:
                    assert await recorder.drain(1)
                else:
                    busy[0] = False
                    await asyncio.sleep(0.1)
                assert len(sink.stored) == 1

    run(main())


def test_an_event_of_the_core_group_has_times_and_a_count() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            for version in ("7", "8", "9"):
                about = msgspec.structs.replace(reference(POD), resource_version=version)
                failed(recorder, about, core=True)
                await asyncio.sleep(1)
            assert await recorder.drain(5)
        (event,) = sink.stored.values()
        assert sink.calls == ["create", "patch", "patch"]
        assert (event["apiVersion"], event["source"]["component"]) == ("v1", "sched")
        assert (event["count"], event["message"]) == (3, "0/1 nodes")
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2001-09-09T01:46:40Z", "2001-09-09T01:46:42Z")
        assert event["involvedObject"]["name"] == "p"

    run(main())


def test_repeats_in_the_core_group_are_limited() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            for _ in range(200):
                failed(recorder, core=True)
                await asyncio.sleep(1)
            assert sink.calls.count("patch") == 24
            await asyncio.sleep(200)
            failed(recorder, core=True)
            assert await recorder.drain(5)
        (event,) = sink.stored.values()
        assert (sink.calls.count("patch"), event["count"]) == (25, 201)

    run(main())


def test_notes_in_the_core_group_become_events_of_their_own_up_to_a_limit() -> None:
    async def main() -> None:
        sink = Sink()
        async with recording(sink) as recorder:
            for index in range(30):
                failed(recorder, note=f"note {index}", core=True)
                await asyncio.sleep(0.1)
            assert await recorder.drain(5)
        messages = [each["message"] for each in sink.stored.values()]
        assert messages == [*(f"note {index}" for index in range(10)), "note 29"]

    run(main())
