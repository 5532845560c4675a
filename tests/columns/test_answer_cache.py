"""Columns of answers are patched row by row, and the cache of them is bounded."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from mooring.columns.answer_cache import AnswerCache, AnswerColumn, CachedAnswers
from mooring.columns.table import NodeTable
from mooring.testing import make_node


@pytest.mark.parametrize(
    ("start", "rows", "answers", "expected"),
    [
        (True, [1], [True], True),
        (True, [1], [False], [True, False, True, True]),
        (True, [0, 1, 2], [True, True, True], True),
        (True, [0, 1, 2], [True, False, True], [True, False, True, True]),
        (True, [0, 3], False, [False, True, True, False]),
        (7, [2], 7, 7),
        (7, [2], np.array([7]), 7),
        (7, [1, 2, 3], np.array([7, 8, 9]), [7, 7, 8, 9]),
        ([1, 2, 3, 4], [], [], [1, 2, 3, 4]),
        ([1, 2, 3, 4], [3], [0], [1, 2, 3, 0]),
        ([1, 2, 3, 4], [0, 1, 3], 0, [0, 0, 3, 0]),
    ],
)
def test_patch(start: Any, rows: list[int], answers: Any, expected: Any) -> None:
    """A column stays a single value for as long as all rows have it."""
    column = AnswerColumn(np.array(start) if isinstance(start, list) else start)
    column.patch(rows, answers, 4)
    values = column.values
    assert (values.tolist() if isinstance(values, np.ndarray) else values) == expected
    assert isinstance(values, np.ndarray) == isinstance(expected, list)


def test_a_shared_array_is_copied_before_it_is_written() -> None:
    owner = np.array([1, 2])
    column = AnswerColumn()
    column.replace(owner, shared=True)
    column.patch([0], [9], 2)
    assert (owner.tolist(), column.values.tolist()) == ([1, 2], [9, 2])
    first = column.values
    column.patch([1], [9], 2)
    assert column.values is first, "once is enough"


def test_refresh_evaluates_only_rows_that_changed() -> None:
    table = NodeTable()
    for number in range(16):
        table.add_node(make_node(f"n{number}").obj())
    cursor, column = table.cursor(), AnswerColumn()
    evaluated: list[list[int] | None] = []

    def evaluate(rows: list[int] | None) -> Any:
        evaluated.append(rows)
        return np.full(16 if rows is None else len(rows), len(evaluated))

    def refresh() -> list[int]:
        column.refresh(cursor, 16, evaluate)
        return column.values.tolist()

    assert refresh() == [1] * 16
    assert refresh() == [1] * 16
    for row in (3, 5, 3):
        table.changes.mark(row)
    assert refresh() == [1, 1, 1, 2, 1, 2, *[1] * 10]
    for row in range(8):
        table.changes.mark(row)
    assert refresh() == [3] * 16, "many rows are evaluated together with all others"
    assert evaluated == [None, [3, 5], None]


def test_a_failed_evaluation_is_repeated() -> None:
    table = NodeTable()
    table.add_node(make_node("n").obj())
    cursor, column = table.cursor(), AnswerColumn()

    def fail(rows: list[int] | None) -> Any:
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        column.refresh(cursor, 1, fail)
    column.refresh(cursor, 1, lambda rows: np.array([5]))
    assert column.values.tolist() == [5]


def test_the_cache_drops_the_kinds_that_were_used_least_recently() -> None:
    made: list[Hashable] = []

    def make(key: Hashable) -> CachedAnswers:
        made.append(key)
        return CachedAnswers(key)

    cache = AnswerCache(make, lambda: 100, budget_bytes=0)  # room for 16 kinds
    entries = [cache.of(number) for number in range(16)]
    assert cache.of(0) is entries[0]
    cache.used(entries[1])
    cache.of("new")
    assert [entry.alive for entry in entries[:4]] == [True, True, False, True]
    cache.of(2)
    assert made == [*range(16), "new", 2]


def test_a_larger_budget_holds_more_kinds() -> None:
    cache = AnswerCache(CachedAnswers, lambda: 36, budget_bytes=34 * 100 * 20)  # 20 kinds of 100 rows
    entries = [cache.of(number) for number in range(21)]
    assert [entry.alive for entry in entries] == [False, *[True] * 20]
