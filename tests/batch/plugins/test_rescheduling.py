"""rescheduling: pods of overloaded nodes that the action shuffle evicts."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.evaluate import evaluate
from mooring.batch.run import open_session, run_actions
from tests.batch.cases import Object, conf, group, node, opened, pod, queue

#: Thresholds of 40 and 60 per cent, at every session.
ARGUMENTS = (
    "{interval: 1ms, metricsPeriod: 10m, strategies: [{name: lowNodeUtilization, params: "
    "{thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 60, memory: 60}}}]}"
)
ACTIONS = "shuffle"


def running(name: str, on: str, cpu: str = "1", priority: int | None = None, **limits: str) -> Object:
    made = pod(name, "g", cpu=cpu, on=on)
    if priority is not None:
        made["spec"]["priority"] = priority
    if limits:
        made["spec"]["containers"][0]["resources"]["limits"] = limits
    return made


def evicted(
    usage: dict[str, Any], *pods: Object, arguments: str = ARGUMENTS, nodes: tuple[Object, ...] = ()
) -> list[str]:
    """Two nodes of 4 CPUs, unless others are given."""
    objects = [queue("default"), *(nodes or (node("a"), node("b"))), group("g", 0, phase="Running"), *pods]
    text = conf(("rescheduling",), actions=ACTIONS, rescheduling=arguments)
    found = evaluate({"conf": text, "objects": objects, "usage": usage})["evicted"]
    return [name.partition("/")[2] for name in found]


PODS = [running(f"p{number}", "a") for number in range(4)]


def load(cpu: float, memory: float = 0) -> dict[str, float]:
    return {"cpu": cpu, "memory": memory}


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [
        (load(90), load(10), 2),
        (load(61), load(39), 1),
        (load(60), load(10), 0),
        (load(90), load(40), 0),
        (load(30, 90), load(10, 10), 2),
        (load(30), load(10), 0),
        (load(90), load(90), 0),
    ],
    ids=["to the target", "just above", "not above", "nowhere to go", "memory", "all low", "all high"],
)
def test_thresholds(a: dict[str, float], b: dict[str, float], count: int) -> None:
    """Each pod is a quarter of the CPU, and, with memory, of the memory of its node."""
    pods = [running(f"p{number}", "a") for number in range(4)]
    for made in pods:
        made["spec"]["containers"][0]["resources"]["requests"]["memory"] = "8Gi"
    assert len(evicted({"a": a, "b": b}, *pods)) == count


def test_lowest_priority_and_quality_of_service_first() -> None:
    pods = [
        running("guaranteed", "a", cpu="1", priority=1, memory="1Gi"),
        running("burstable", "a", cpu="1", priority=1),
        running("none", "a", cpu="1"),
        running("high", "a", cpu="1", priority=9),
    ]
    pods[0]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert evicted({"a": load(80), "b": load(0)}, *pods) == ["none"]
    assert evicted({"a": load(100), "b": load(0)}, *pods) == ["burstable", "none"]
    assert evicted({"a": load(120), "b": load(0)}, *pods) == ["burstable", "guaranteed", "none"]


def test_a_cordoned_node_takes_no_pods() -> None:
    closed = node("b")
    closed["spec"] = {"unschedulable": True}
    assert evicted({"a": load(90), "b": load(0)}, *PODS, nodes=(node("a"), closed)) == []


def test_the_fullest_node_first_and_no_more_than_there_is_room_for() -> None:
    """The free node takes 60 per cent of 4 CPUs less its load: exactly two pods."""
    pods = [running(f"{name}{number}", name, cpu="1") for name in "ab" for number in range(3)]
    nodes = (node("a"), node("b"), node("c"))
    usage = {"a": load(85), "b": load(95), "c": load(10)}
    assert evicted(usage, *pods, nodes=nodes) == ["b0", "b1"]


def test_nodes_without_measurements_are_left_out() -> None:
    assert evicted({"a": load(90)}, *PODS) == []


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("{interval: 1ms, metricsPeriod: 10m}", 1),
        ("{interval: 1ms, metricsPeriod: 10m, strategies: []}", 1),
        ("{interval: 1ms, metricsPeriod: 10m, strategies: [{name: other}]}", 0),
        (ARGUMENTS.replace("10m", "5m"), 0),
        (ARGUMENTS.replace("interval: 1ms, ", ""), 0),
        (ARGUMENTS.replace("interval: 1ms", "interval: soon"), 0),
        (ARGUMENTS.replace("{cpu: 40, memory: 40}", "low"), 1),
        (ARGUMENTS.replace("{cpu: 60, memory: 60}", "low"), 1),
        (ARGUMENTS.replace("{cpu: 60, memory: 60}", "{cpu: 70, pods: 5}"), 2),
    ],
    ids=[
        "100 per cent",
        "no strategies",
        "unknown",
        "period",
        "interval",
        "not a time",
        "first invalid",
        "second invalid",
        "one",
    ],
)
def test_arguments(arguments: str, count: int) -> None:
    usage = {"a": load(110), "b": load(10)}
    assert len(evicted(usage, *PODS, arguments=arguments)) == count


def test_interval() -> None:
    """The first time after the interval since the start, then once per interval."""
    text = conf(("rescheduling",), actions=ACTIONS, rescheduling=ARGUMENTS.replace("1ms", "1m"))
    cluster, session, _ = opened(text, queue("default"), node("a"), node("b"), [group("g", 0, phase="Running"), *PODS])
    assert session.all("victim_tasks") == []
    now = cluster.handle.clock()
    times = iter([now + 30, now + 60, now + 90, now + 121])
    chosen = []
    for moment in times:
        cluster.handle.clock = lambda moment=moment: moment  # type: ignore[method-assign]
        later = cluster.session(session.conf)
        open_session(later)
        run_actions(later)
        chosen.append(bool(later.all("victim_tasks")))
    assert chosen == [False, True, False, True]


def test_without_a_measured_period_a_warning_says_what_to_do() -> None:
    text = conf(("rescheduling",), actions=ACTIONS, rescheduling="{interval: 1ms}")
    _, session, _ = opened(text, queue("default"), node("a"))
    assert any("set the argument metricsPeriod to 10m" in each for each in session.warnings)
