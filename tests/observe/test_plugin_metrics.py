"""Counting and timing of plugin calls."""

from __future__ import annotations

import asyncio

import pytest

from mooring.framework import Code, Status
from mooring.observe.plugin_metrics import PluginTimes, status_of


def test_every_call_is_counted_and_one_cycle_in_ten_is_timed():
    times = PluginTimes()
    call = times.wrap(lambda x: x, "P", "Score", "profile")
    for number in range(40):
        times.begin()
        assert call(number) == number
    assert list(times.calls()) == [("P", "Score", "profile", 40)]
    assert sum(times.durations.child("P", "Score", "Success").counts) == 4


def test_the_mean_of_a_plugin_is_that_of_its_timed_calls_at_all_points():
    times = PluginTimes()
    times.wrap(lambda: None, "Idle", "Score", "profile")
    for point, status, seconds in (("Filter", "Success", 1e-6), ("Filter", "Error", 3e-6), ("Score", "Success", 5e-6)):
        times.durations.child("P", point, status).observe(seconds)
    assert times.mean_micros() == {"P": pytest.approx(3.0)}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (None, "Success"),
        ("no", "Unschedulable"),
        (Status.skip(), "Skip"),
        (7, "Success"),
        ((None, Status.unschedulable("x")), "Unschedulable"),
        ((Status.wait("x"), 3.0), "Wait"),
    ],
)
def test_what_an_answer_is_called(answer, status):
    assert status_of(answer) == status


def test_a_plugin_that_raises_is_timed_as_an_error():
    times = PluginTimes()
    times.begin()

    def broken():
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        times.wrap(broken, "P", "Filter", "profile")()
    assert sum(times.durations.child("P", "Filter", "Error").counts) == 1


async def test_what_is_awaited_is_timed_to_its_end():
    times = PluginTimes()
    times.begin()

    async def slow():
        await asyncio.sleep(0.02)
        return Status.error("x")

    assert (await times.wrap(slow, "P", "Bind", "profile")()).code is Code.ERROR
    assert times.durations.child("P", "Bind", "Error").total >= 0.02


def test_what_is_declared_of_a_method_stays_declared():
    from mooring.framework.plugin import dependence, depends_on

    class P:
        @depends_on("node")
        def filter(self):
            return None

    assert dependence(PluginTimes().wrap(P().filter, "P", "Filter", "profile")) == "node"
