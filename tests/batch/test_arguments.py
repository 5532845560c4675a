"""Arguments are read as leniently as Volcano reads them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.arguments import Arguments


@pytest.mark.parametrize(
    ("method", "value", "default", "expected", "warned"),
    [
        ("integer", 3, 1, 3, False),
        ("integer", 3.0, 1, 1, True),
        ("integer", "3", 1, 1, True),
        ("integer", True, 1, 1, True),
        ("number", 3, 1.0, 3.0, False),
        ("number", 2.5, 1.0, 2.5, False),
        ("number", "2.5", 1.0, 1.0, True),
        ("boolean", True, False, True, False),
        ("boolean", "true", False, True, False),
        ("boolean", "F", True, False, False),
        ("boolean", "yes", False, False, True),
        ("boolean", 1, False, False, True),
        ("text", "x", "", "x", False),
        ("text", 5, "d", "d", True),
    ],
)
def test_values(method: str, value: Any, default: Any, expected: Any, warned: bool) -> None:
    arguments = Arguments({"key": value}, owner="mine")
    assert getattr(arguments, method)("key", default) == expected
    assert bool(arguments.warnings) is warned
    if warned:
        assert arguments.warnings[0].startswith(f"mine: key: {value!r} is not ")


def test_missing_values_have_their_default_without_a_warning() -> None:
    arguments = Arguments()
    assert (arguments.integer("a", 7), arguments.boolean("b", True), arguments.mapping("c")) == (7, True, {})
    assert arguments.warnings == []


def test_mappings() -> None:
    assert Arguments({"m": {1: "x"}}).mapping("m") == {"1": "x"}
    wrong = Arguments({"m": [1]})
    assert wrong.mapping("m") == {}
    assert len(wrong.warnings) == 1
    assert dict(Arguments({"a": 1})) == {"a": 1}
