"""Placed pods in columns: dense entries, growth, and start times."""

from __future__ import annotations

import math

import pytest

from mooring.api.pod import Pod
from mooring.columns.pod_columns import start_of, starts_of
from mooring.columns.table import NodeTable
from mooring.testing import make_node, make_pod


def test_removing_a_pod_moves_the_last_one_into_its_place() -> None:
    table = NodeTable()
    table.add_node(make_node("n").obj())
    infos = [table.add_pod(make_pod(name).priority(i).node("n").obj()) for i, name in enumerate("abc")]
    columns = table.pod_columns
    table.remove_pod(infos[0].pod.uid)
    assert [info.name for info in columns.infos] == ["c", "b"]
    assert columns.priorities[:2].tolist() == [2, 1]
    assert [info.index for info in infos] == [-1, 1, 0]


def test_columns_grow_with_pods_and_resources() -> None:
    table = NodeTable()
    table.add_node(make_node("n").capacity({f"example.com/r{number}": "99" for number in range(12)}).obj())
    for number in range(300):
        table.add_pod(make_pod(f"p{number}").req({f"example.com/r{number % 12}": "2"}).node("n").obj())
    columns = table.pod_columns
    assert len(columns) == 300
    slots = [table.slots[f"example.com/r{number % 12}"] for number in range(300)]
    assert [int(columns.amounts[number, slot]) for number, slot in enumerate(slots)] == [2] * 300


def test_start_times() -> None:
    assert start_of(make_pod("p").obj()) == math.inf
    assert start_of(make_pod("p").started("1970-01-01T00:01:00Z").obj()) == 60


_TIMES = (
    "2026-01-31T12:00:00Z",
    "1969-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "0000-02-29T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-01-31T12:00:00.5Z",
    "2026-01-31T12:00:00+01:00",
)


@pytest.mark.parametrize("times", [_TIMES[:5], _TIMES, _TIMES[:1], (), (*_TIMES[:2], None)])
def test_the_start_times_of_several_pods_are_those_of_each(times):
    pods = [make_pod(f"p{number}").started(time).obj() if time else Pod() for number, time in enumerate(times)]
    assert starts_of(pods) == list(map(start_of, pods))


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-31 12:00:00Z", "2026-02-30T12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:00:60Z",
        "2026-13-31T12:00:00Z", "2026-00-31T12:00:00Z", "2026-01-31T12:00:00", "tomorrow", "2026-01-3\u0661T12:00:00Z",
    ],
)  # fmt: skip
def test_an_invalid_start_time_is_reported_also_among_several(time):
    pods = [make_pod("p").started("2026-01-31T12:00:00Z").obj(), make_pod("q").started(time).obj()]
    with pytest.raises(ValueError, match="is not a timestamp"):
        start_of(pods[1])
    with pytest.raises(ValueError, match="is not a timestamp"):
        starts_of(pods)
