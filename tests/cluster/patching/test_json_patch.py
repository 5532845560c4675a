"""JSON patches."""

from typing import Any

import pytest

from mooring.cluster.errors import ApiError
from mooring.cluster.patching.json_patch import json_patch, merge_patch


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/l/0", "value": 0}], {"l": [0, 1, 2], "a/b": {"~": 3}}),
        ([{"op": "add", "path": "/l/-", "value": 3}], {"l": [1, 2, 3], "a/b": {"~": 3}}),
        ([{"op": "remove", "path": "/a~1b/~0"}], {"l": [1, 2], "a/b": {}}),
        ([{"op": "replace", "path": "/l/1", "value": 9}], {"l": [1, 9], "a/b": {"~": 3}}),
        ([{"op": "replace", "path": "/new", "value": 4}], {"l": [1, 2], "a/b": {"~": 3}, "new": 4}),
        ([{"op": "replace", "path": "/no/new", "value": 4}], None),
        ([{"op": "copy", "from": "/l", "path": "/m"}], {"l": [1, 2], "a/b": {"~": 3}, "m": [1, 2]}),
        ([{"op": "test", "path": "/l", "value": [1, 2]}, {"op": "remove", "path": "/l"}], {"a/b": {"~": 3}}),
        ([{"op": "test", "path": "/l", "value": 5}], None),
        ([{"op": "remove", "path": "/nope"}], None),
        ([{"op": "replace", "path": "/l/7", "value": 1}], None),
        ([{"op": "frob", "path": "/l"}], None),
        ([{"op": "add", "path": "/l"}], None),
        ({}, None),
    ],
)
def test_json_patches(operations: Any, expected: Any) -> None:
    """All operations, and what fails fails whole."""
    target = {"l": [1, 2], "a/b": {"~": 3}}
    if expected is None:
        with pytest.raises(ApiError):
            json_patch(target, operations)
    else:
        assert json_patch(target, operations) == expected
    assert target == {"l": [1, 2], "a/b": {"~": 3}}


def test_merge_patches() -> None:
    """RFC 7386: null removes, objects merge, the rest replaces."""
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [2]}) == {
        "a": {"c": 2, "e": 3},
        "d": [2],
    }
