"""Merge patches."""

from mooring.cluster.patching import merge_patch


def test_merge_patches() -> None:
    """RFC 7386: null removes, objects merge, the rest replaces."""
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [2]}) == {
        "a": {"c": 2, "e": 3},
        "d": [2],
    }
