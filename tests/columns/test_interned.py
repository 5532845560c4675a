"""Columns of interned values: codes, their reuse, and lookups."""

from __future__ import annotations

import pytest

from mooring.api.node_selectors import NodeRequirement
from mooring.columns.interned import ABSENT, LabelColumn


def column_of(*values: str | None) -> LabelColumn:
    column = LabelColumn(len(values))
    for row, value in enumerate(values):
        column.set(row, value)
    return column


def test_equal_values_share_a_code() -> None:
    column = column_of("a", "b", "a", None)
    assert column.codes.tolist() == [0, 1, 0, ABSENT]
    assert column.values == ["a", "b"]
    assert column.distinct == 2


def test_a_code_is_reused_when_no_row_has_its_value() -> None:
    column = column_of("a", "b")
    version = column.version
    column.set(0, "c")
    assert column.code_of == {"b": 1, "c": 0}
    assert column.size == 2
    assert column.version > version


def test_setting_the_same_value_changes_nothing() -> None:
    column = column_of("a", "b")
    version = column.version
    column.set(1, "b")
    assert column.version == version


def test_growing_keeps_the_codes() -> None:
    column = column_of("a", "b")
    column.grow(4)
    assert column.codes.tolist() == [0, 1, ABSENT, ABSENT]


def test_a_lookup_is_indexed_with_codes() -> None:
    column = column_of("a", "b", None)
    table = column.lookup(lambda value: value == "b", absent=True)
    assert table[column.codes].tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["3", "9"], [True, False, False]),
        ("NotIn", ["3"], [False, True, True]),
        ("Exists", [], [True, True, False]),
        ("DoesNotExist", [], [False, False, True]),
        ("Gt", ["4"], [False, True, False]),
        ("Lt", ["4"], [True, False, False]),
    ],
)
def test_requirements(operator: str, values: list[str], expected: list[bool]) -> None:
    column = column_of("3", "5", None)
    requirement = NodeRequirement("key", operator, frozenset(values))
    assert column.requirement(requirement)[column.codes].tolist() == expected
