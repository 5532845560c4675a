"""Counts by code, sparse and dense."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.columns.counts import Counts, ImageIndex, PortIndex
from mooring.testing import make_node

CODES = np.array([0, 1, 0, -1, 1, 2] * 20, dtype=np.int32)


@pytest.mark.parametrize("size", [5, 100], ids=["sparse", "dense"])
def test_counts_regrouped_by_other_codes(size):
    counts = Counts()
    for code in range(size):
        counts.add(code, code + 1)
    within = np.arange(len(CODES)) % 2 == 0
    for mask in (None, within):
        expected: dict[int, int] = {}
        for code in range(size):
            if CODES[code] >= 0 and (mask is None or mask[code]):
                expected[int(CODES[code])] = expected.get(int(CODES[code]), 0) + code + 1
        grouped = counts.grouped(CODES, mask)
        assert dict(grouped.items()) == expected
        assert grouped.total == sum(expected.values())
        grouped.add(70, 1)  # goes on as any other
        assert grouped.get(70) == 1


@pytest.mark.parametrize("size", [5, 100], ids=["sparse", "dense"])
def test_counts_added_to_a_vector(size):
    counts, vector = Counts(), np.ones(size + 1, dtype=np.int64)
    for code in range(size):
        counts.add(code, code)
    counts.add_to(vector, -2)
    assert vector.tolist() == [*(1 - 2 * code for code in range(size)), 1]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (("0.0.0.0", "TCP", 80), [True, True, False]),
        (("10.0.0.1", "TCP", 80), [True, True, False]),
        (("10.0.0.2", "TCP", 80), [True, False, False]),
        (("0.0.0.0", "UDP", 80), None),
    ],
)
def test_host_ports_conflict_by_address(wanted: tuple[str, str, int], expected: list[bool] | None) -> None:
    index = PortIndex()
    index.add([("0.0.0.0", "TCP", 80)], 0, 1)
    index.add([("10.0.0.1", "TCP", 80)], 1, 1)
    conflicts = index.conflicts([wanted], 3)
    assert (None if conflicts is None else conflicts.tolist()) == expected


def test_a_freed_port_leaves_nothing_behind() -> None:
    index = PortIndex()
    index.add([("0.0.0.0", "TCP", 80)], 0, 1)
    index.add([("0.0.0.0", "TCP", 80)], 0, -1)
    assert index.snapshot() == {}


def test_images_have_their_first_size_and_all_rows() -> None:
    index = ImageIndex()
    first, second = make_node("a").image("x:1", size=10).obj(), make_node("b").image("x:1", size=99).obj()
    index.add_node(0, first)
    index.add_node(1, second)
    assert index.snapshot() == {"x:1": (10, [(0, 1), (1, 1)])}
    index.remove_node(0, first)
    index.remove_node(1, second)
    assert index.get("x:1") is None
