"""Devices in sessions: gangs get them together, nothing is allocated twice, and what is not bound is given back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from mooring.batch.evaluate import evaluate
from mooring.batch.run import close_session, run_actions
from mooring.batch.search import ErrorCache, find_nodes, pre_predicate
from mooring.batch.session import Session
from mooring.batch.task import PENDING, TaskInfo
from mooring.plugins.dynamic_resources.device_state import device_state
from tests.batch.cases import (
    CLASS,
    DRIVER,
    claim,
    claiming,
    conf,
    decide,
    gang,
    gpus,
    node,
    opened,
    pod,
    queue,
    running,
    tasks_of,
)


def used(session: Session) -> Counter[tuple[str, str, str]]:
    """How often each device is allocated, written or not."""
    view = device_state(session.handle).tracker.usage.view
    return Counter({device: count for device, count in view.allocated.items() if count})


def test_a_gang_gets_distinct_devices_on_nodes_that_have_them() -> None:
    _, session, _ = opened(conf(), node("a"), node("b"), node("c"), CLASS, gpus("a", 1), gpus("b", 2), claiming("g", 3))
    run_actions(session)
    assert Counter(task.node_name for task in session.bindings) == {"a": 1, "b": 2}
    assert used(session) == {(DRIVER, "a", "gpu-0"): 1, (DRIVER, "b", "gpu-0"): 1, (DRIVER, "b", "gpu-1"): 1}


def test_a_gang_that_lacks_a_device_gets_none() -> None:
    _, session, _ = opened(conf(), node("a"), CLASS, gpus("a", 2), claiming("g", 3), claiming("small", 2))
    run_actions(session)
    session.end()
    assert sorted(task.name for task in session.bindings) == ["small-task-0", "small-task-1"]
    assert len(used(session)) == 2


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([CLASS, gpus("a", 1)], 'could not find ResourceClaim "default/g-task-0-gpu"'),
        ([gpus("a", 1), claim("g-task-0-gpu")], "request r: device class gpu does not exist"),
    ],
)
def test_a_pod_whose_claim_cannot_be_allocated_waits(objects: list[Any], message: str) -> None:
    made = [each for each in claiming("g", 1) if each["kind"] != "ResourceClaim"]
    _, session, _ = opened(conf(), node("a"), *objects, made)
    run_actions(session)
    assert not session.bindings
    assert message in close_session(session, []).pods[0].reason.message


def test_devices_of_a_discarded_statement_are_free_again() -> None:
    _, session, _ = opened(conf(), node("a"), CLASS, gpus("a", 1), claiming("g", 2, least=1))
    first, second = (tasks_of(session)[f"g-task-{number}"] for number in range(2))
    statement = session.statement()
    for task in (first, second):
        assert not prepared(session, task)
    assert statement.allocate(first, "a") == ""
    assert statement.allocate(second, "a") != ""  # no device is left
    assert second.status == PENDING
    assert len(used(session)) == 1
    statement.discard()
    assert not used(session)
    assert not session.kube.device_reservations
    assert statement.allocate(second, "a") == ""
    assert len(used(session)) == 1


def prepared(session: Session, task: TaskInfo) -> str:
    """Run PreFilter and Filter for a task. Return an error, or "" on success."""
    error = pre_predicate(session, task)
    if not error:
        find_nodes(session, task, "allocate", ErrorCache(enabled=False))
    return error


def test_a_shared_claim_is_allocated_once() -> None:
    """The second pod waits until the allocation is written, as in Volcano."""
    shared = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "both"}]}
    pods = [pod(f"g-task-{number}", "g", **shared) for number in range(2)]
    objects = [node("a"), CLASS, gpus("a", 2), claim("both"), gang("g", 0, 1)[0], *pods]
    case = {"conf": conf(), "objects": [queue("root"), queue("default"), *objects], "sessions": 2}
    answer = evaluate(case)
    assert len(answer["bound"]) == 1
    assert len(answer["next"]["bound"]) == 1


def test_a_claim_that_was_allocated_after_pre_filter_is_refused() -> None:
    shared = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "both"}]}
    pods = [pod(f"g-task-{number}", "g", **shared) for number in range(2)]
    _, session, _ = opened(conf(), node("a"), CLASS, gpus("a", 2), claim("both"), gang("g", 0, 1)[0], pods)
    first, second = (tasks_of(session)[f"g-task-{number}"] for number in range(2))
    for task in (first, second):
        assert not prepared(session, task)
    statement = session.statement()
    assert statement.allocate(first, "a") == ""
    assert "was allocated for another pod in the meantime" in statement.allocate(second, "a")
    assert len(used(session)) == 1  # the devices of the first pod stay reserved


def test_pipelined_tasks_give_their_devices_back_when_the_session_ends() -> None:
    _, session, _ = opened(conf(), node("a"), CLASS, gpus("a", 1), claiming("g", 1))
    task = tasks_of(session)["g-task-0"]
    assert not prepared(session, task)
    statement = session.statement()
    assert statement.pipeline(task, "a", evicted=False) == ""
    statement.commit()
    assert len(used(session)) == 1
    session.end()
    assert not used(session)


def test_evictions_do_not_help_a_pod_without_devices() -> None:
    victims = running("old", ["a", "a"], queue="low")
    low, high = queue("low"), queue("high", weight=9)
    answer = decide(
        conf(actions="enqueue, allocate, preempt, reclaim"),
        *(node("a", "2"), low, high, CLASS, victims, claiming("g", 1, queue="high")),
    )
    assert answer["evicted"] == []


def test_extended_resources_get_no_devices() -> None:
    """The class provides them, but the release of Volcano's libraries does not allocate for them."""
    provided = {**CLASS, "spec": {"extendedResourceName": "example.com/gpu"}}
    wants = gang("g", 1)
    wants[1]["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    assert decide(conf(), node("a"), provided, gpus("a", 1), wants)["bound"] == {}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    devices=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    gangs=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(1, 2)), min_size=1, max_size=5),
)
def test_no_device_is_allocated_twice(devices: list[int], gangs: list[tuple[int, int, int]]) -> None:
    """Whatever gangs there are, in two sessions: gangs are whole, and what is reserved is what bound pods have."""
    places = [f"n{number}" for number in range(len(devices))]
    objects = [node(place, "3") for place in places] + [gpus(*each) for each in zip(places, devices, strict=True)]
    for number, (pods, least, count) in enumerate(gangs):
        objects += claiming(f"g{number}", pods, min(least, pods), count)
    cluster, session, _ = opened(conf(), CLASS, objects)
    run_actions(session)
    session.end()
    found: Counter[tuple[str, str, str]] = Counter()
    for task in session.bindings:
        for written in cluster.kube.device_reservations[task.uid].written_claims():
            assert written.status.allocation is not None
            for result in written.status.allocation.devices.results:
                assert result.pool == task.node_name
                found[result.driver, result.pool, result.device] += 1
    assert all(count == 1 for count in found.values())
    assert found == used(session)
    assert len(found) <= sum(devices)
    for job in session.jobs.values():
        bound = sum(task.job == job.uid for task in session.bindings)
        assert bound == 0 or bound >= job.group.spec.min_member
