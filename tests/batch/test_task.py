"""A pod as a task of a session."""

from __future__ import annotations

import pytest

from mooring.api.codec import decode_object
from mooring.api.pod import Pod
from mooring.batch.task import (
    TaskInfo,
    has_only_queue_gate,
    parse_bool,
    pod_index,
    pod_status,
    precedes,
    revocable_zone,
    task_status,
)
from tests.batch.cases import Object, annotated, pod, task


def decoded(made: Object) -> Pod:
    item = decode_object(made)
    assert isinstance(item, Pod)
    return item


@pytest.mark.parametrize(
    ("phase", "on", "deleting", "status"),
    [
        ("Pending", "", False, "Pending"),
        ("Pending", "a", False, "Bound"),
        ("Pending", "", True, "Releasing"),
        ("Running", "a", False, "Running"),
        ("Running", "a", True, "Releasing"),
        ("Succeeded", "a", False, "Succeeded"),
        ("Failed", "a", True, "Failed"),
        ("Unknown", "a", False, "Unknown"),
    ],
)
def test_status_of_a_pod(phase: str, on: str, deleting: bool, status: str) -> None:
    made = pod("p", "g", on=on, phase=phase)
    if deleting:
        made["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert pod_status(decoded(made)) == status


@pytest.mark.parametrize(
    ("phase", "assumed", "evicting", "status"),
    [
        ("Pending", True, False, "Binding"),
        ("Running", False, True, "Releasing"),
        ("Running", False, False, "Running"),
        ("Succeeded", False, True, "Succeeded"),
    ],
)
def test_binds_and_evictions_in_flight(phase: str, assumed: bool, evicting: bool, status: str) -> None:
    assert task_status(decoded(pod("p", "g", on="a", phase=phase)), assumed=assumed, evicting=evicting) == status


@pytest.mark.parametrize(
    ("name", "index"),
    [("job-worker-3", 3), ("job-worker-+3", 3), ("worker-3", None), ("a-b-c", None), ("a-b-", None), ("a-b--1", 1)],
)
def test_the_index_is_the_number_at_the_end_of_a_name_with_three_parts(name: str, index: int | None) -> None:
    assert pod_index(name) == index


def test_tasks_without_a_plugin_s_order_go_by_index_then_age_then_uid() -> None:
    old, new = task("g-w-2"), task("g-w-1")
    assert precedes(new, old)
    plain, newer = task("x"), task("y")
    assert precedes(plain, newer)
    assert not precedes(newer, plain)
    newer.created = plain.created
    assert precedes(plain, newer) is (plain.uid < newer.uid)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("T", True), ("true", True), ("False", False), ("f", False), ("yes", None), ("", None)],
)
def test_booleans_are_those_of_go(text: str, value: bool | None) -> None:
    assert parse_bool(text) is value


@pytest.mark.parametrize(
    ("annotations", "zone"),
    [
        ({}, ""),
        ({"volcano.sh/revocable-zone": "*"}, "*"),
        ({"volcano.sh/revocable-zone": "zone-1"}, ""),
        ({"volcano.sh/preemptable": "true"}, "*"),
        ({"volcano.sh/preemptable": "true", "volcano.sh/revocable-zone": "x"}, ""),
        ({"volcano.sh/preemptable": "false"}, ""),
    ],
)
def test_revocable_zone(annotations: dict[str, str], zone: str) -> None:
    assert revocable_zone(annotations) == zone


def built(made: Object) -> TaskInfo:
    from mooring.batch.resource import pod_request

    item = decoded(made)
    return TaskInfo(item, pod_request(item))


@pytest.mark.parametrize(
    ("annotation", "label", "preemptable"),
    [(None, None, True), ("true", None, True), ("false", None, False), ("junk", None, False), (None, "false", False),
     ("true", "false", True)],
)  # fmt: skip
def test_pods_are_preemptable_unless_they_say_otherwise(
    annotation: str | None, label: str | None, preemptable: bool
) -> None:
    """The annotation goes before the label."""
    key = "volcano.sh/preemptable"
    made = annotated(pod("p", "g"), labels={} if label is None else {key: label})
    if annotation is not None:
        made["metadata"]["annotations"][key] = annotation
    assert built(made).preemptable is preemptable


@pytest.mark.parametrize(
    ("annotation", "priority", "expected"),
    [(None, None, 1), (None, 7, 7), ("3", 7, 3), ("-3", 7, -3), ("x", 7, 7), ("99999999999", 7, 7)],
)
def test_priority(annotation: str | None, priority: int | None, expected: int) -> None:
    made = pod("p", "g", **({} if priority is None else {"priority": priority}))
    if annotation is not None:
        made["metadata"]["annotations"]["volcano.sh/task-priority"] = annotation
    assert built(made).priority == expected


def test_the_role_is_the_annotation_or_the_label() -> None:
    key = "volcano.sh/task-spec"
    assert built(annotated(pod("p", "g"), labels={key: "ps"})).role == "ps"
    both = annotated(pod("p", "g"), labels={key: "ps"})
    both["metadata"]["annotations"][key] = "worker"
    assert built(both).role == "worker"


@pytest.mark.parametrize(
    ("gates", "only"),
    [
        ([], False),
        (["scheduling.volcano.sh/queue-allocation-gate"], True),
        (["scheduling.volcano.sh/queue-allocation-gate", "mine"], False),
        (["mine"], False),
    ],
)
def test_has_only_queue_gate(gates: list[str], only: bool) -> None:
    made = decoded(pod("p", "g", schedulingGates=[{"name": name} for name in gates]))
    assert has_only_queue_gate(made) is only


def test_outcome_is_the_last_transaction() -> None:
    one = task()
    one.status, one.node_name = "Pipelined", "a"
    one.save_outcome()
    one.status, one.node_name = "Pending", ""
    assert (one.outcome.status, one.outcome.node_name) == ("Pipelined", "a")
    one.last = None
    assert one.outcome.status == "Pending"
