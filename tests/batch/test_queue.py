"""A queue in a session."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import decode_object
from mooring.batch.queue import QueueInfo
from tests.batch.cases import queue


def info(**spec: Any) -> QueueInfo:
    return QueueInfo(decode_object(queue("q", **spec)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("spec", "parent"), [({}, "root"), ({"parent": ""}, "root"), ({"parent": "eng"}, "eng")])
def test_the_root_is_the_default_parent(spec: dict[str, Any], parent: str) -> None:
    assert info(**spec).parent == parent


@pytest.mark.parametrize(("value", "expected"), [(True, True), (False, False), (None, True)])
def test_queues_are_reclaimable_unless_they_say_otherwise(value: bool | None, expected: bool) -> None:
    assert info(reclaimable=value).reclaimable is expected


@pytest.mark.parametrize(("state", "is_open"), [("Open", True), ("Closed", False), ("Closing", False), ("", False)])
def test_only_open_queues_are_open(state: str, is_open: bool) -> None:
    assert info(state=state).is_open is is_open


def test_hierarchy_annotations() -> None:
    made = queue("q", 7, priority=3)
    made["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/q", "volcano.sh/hierarchy-weights": "1/2"}
    one = QueueInfo(decode_object(made))  # type: ignore[arg-type]
    assert (one.uid, one.weight, one.priority, one.hierarchy, one.hierarchy_weights) == ("q", 7, 3, "root/q", "1/2")
