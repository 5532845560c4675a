"""PreEnqueue plugins hold pods back."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.framework import Status
from mooring.scheduler.queue.queued_pod import QueueCounters, QueuedPod
from mooring.scheduler.queue.unschedulable_pods import Gates
from mooring.testing import make_pod
from tests.scheduler.queue.helpers import PROFILE, Gate


def make_queued(**fields: Any) -> QueuedPod:
    queued = QueuedPod.new(make_pod("p").obj(), 0.0)
    for name, value in fields.items():
        setattr(queued, name, value)
    return queued


@pytest.mark.parametrize(
    ("answer", "gating", "reasons"),
    [
        (None, "", ()),
        (Status(), "", ()),
        ("not yet", "G", ("not yet",)),
        (Status.unresolvable("no"), "G", ("no",)),
        (Status.pending("later"), "G", ("later",)),
        (Status.error("broken"), "G", ("broken",)),
        (Status.skip(), "G", ()),
        (42, "G", ("BadAnswerError: returned int; return None, a reason (str) or a Status",)),
    ],
)
def test_anything_but_success_holds_the_pod_back(answer: Any, gating: str, reasons: tuple[str, ...]) -> None:
    queued = make_queued()
    assert Gates({PROFILE: {"G": lambda _: answer}}, QueueCounters()).check(queued) is (gating == "")
    assert (queued.gating_plugin, queued.gating_reasons) == (gating, reasons)
    assert queued.unschedulable_plugins == ({gating} if gating else set())


@pytest.mark.parametrize(
    ("last", "first_holds", "second_holds", "gating", "asked"),
    [
        ("", False, False, "", ["A", "B"]),
        ("", True, True, "A", ["A"]),
        ("", False, True, "B", ["A", "B"]),
        ("B", True, True, "B", ["B"]),
        ("B", True, False, "A", ["B", "A"]),
        ("B", False, False, "", ["B", "A"]),
        ("gone", True, False, "A", ["A"]),
    ],
)
def test_the_plugin_that_held_it_back_is_asked_first(
    last: str, first_holds: bool, second_holds: bool, gating: str, asked: list[str]
) -> None:
    order: list[str] = []

    def gate(name: str, holds: bool) -> Any:
        def pre_enqueue(pod: Pod) -> str | None:
            order.append(name)
            return "no" if holds else None

        return pre_enqueue

    queued = make_queued(gating_plugin=last)
    Gates({PROFILE: {"A": gate("A", first_holds), "B": gate("B", second_holds)}}, QueueCounters()).check(queued)
    assert (queued.gating_plugin, order) == (gating, asked)


def test_a_gate_that_breaks_holds_the_pod_back_and_is_reported() -> None:
    reports: list[tuple[str, str, str]] = []

    def broken(_: Pod) -> None:
        raise ValueError("oops")

    gates = Gates(
        {PROFILE: {"G": broken}},
        QueueCounters(),
        lambda plugin, point, pod, error: reports.append((plugin, point, str(error))),
    )
    queued = make_queued()
    assert not gates.check(queued)
    (reason,) = queued.gating_reasons
    assert reason.endswith(" in broken: ValueError: oops")
    assert reports == [("G", "pre_enqueue", "oops")]


def test_a_pod_is_counted_once_for_a_gate() -> None:
    counters = QueueCounters()
    gates = Gates({PROFILE: {"G": Gate("p")}}, counters)
    queued = make_queued(unschedulable_plugins=frozenset({"Fit"}))
    gates.check(queued)
    gates.check(queued)
    assert counters.rejected == {("G", PROFILE): 1}
    assert queued.unschedulable_plugins == {"Fit", "G"}


def test_other_profiles_have_other_gates() -> None:
    gates = Gates({"other": {"G": Gate("p")}}, QueueCounters())
    assert gates.check(make_queued())
    assert not gates.check(make_queued(profile="other"))
