"""Pods in flight hear of what they missed; what nobody needs is forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.scheduler.queue.in_flight_pods import InFlightPods
from mooring.scheduler.queue.queued_pod import QueuedPod
from mooring.scheduler.queue.queueing_hints import Event, Interest
from mooring.testing import make_pod


def pod(name: str, uid: str = "") -> QueuedPod:
    return QueuedPod.new(make_pod(name).uid(uid or name).obj(), 0.0)


def event(label: str) -> Event:
    return Event(Interest(label, {}, ()))


def missed(flights: InFlightPods, uid: str) -> list[str]:
    flight = flights.get(uid)
    assert flight is not None
    return [each.interest.label for each in flights.missed(flight)]


def test_a_pod_misses_what_comes_after_it_was_popped() -> None:
    flights = InFlightPods()
    flights.record(event("nobody is there"))
    flights.start(pod("a"))
    flights.record(event("1"))
    flights.start(pod("b"))
    flights.record(event("2"))
    assert (missed(flights, "a"), missed(flights, "b")) == (["1", "2"], ["2"])
    assert flights.events() == {"1": 1, "2": 1}
    flights.done("a")
    assert flights.events() == {"2": 1}
    assert missed(flights, "b") == ["2"]
    flights.done("a")
    flights.done("b")
    assert (flights.events(), len(flights)) == ({}, 0)


def test_a_pod_is_tried_once_at_a_time() -> None:
    flights = InFlightPods()
    assert flights.start(pod("a"))
    assert not flights.start(pod("a"))
    assert flights.start(pod("a", "namesake"))
    latest = flights.latest("default/a")
    assert latest is not None
    assert latest.queued.uid == "namesake"
    flights.done("namesake")
    latest = flights.latest("default/a")
    assert latest is not None
    assert latest.queued.uid == "a"
    flights.done("a")
    assert flights.latest("default/a") is None


@given(st.lists(st.tuples(st.sampled_from(["start", "event", "event", "done"]), st.integers(0, 4)), max_size=60))
def test_agrees_with_a_list_of_all_events(steps: list[tuple[str, int]]) -> None:
    flights = InFlightPods()
    model: dict[str, list[str]] = {}
    for count, (step, number) in enumerate(steps):
        name = f"p{number}"
        if step == "start":
            assert flights.start(pod(name)) is (name not in model)
            model.setdefault(name, [])
        elif step == "done":
            flights.done(name)
            model.pop(name, None)
        else:
            flights.record(event(str(count)))
            for seen in model.values():
                seen.append(str(count))
        assert [queued.uid for queued in flights] == list(model)
        assert {uid: missed(flights, uid) for uid in model} == model
        longest = max(model.values(), key=len, default=[])
        assert sorted(flights.events()) == sorted(longest)
        assert len(flights._events) <= 2 * len(longest)
