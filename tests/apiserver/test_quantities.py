"""Canonical quantities."""

from typing import Any

import pytest

from mooring.apiserver.quantities import QuantityTextError, canonical_quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        (2, "2"),
        (1.5, "1500m"),
        ("1e3", "1e3"),
        ("0.5Gi", "512Mi"),
        ("1536Mi", "1536Mi"),
        ("100k", "100k"),
        ("1E", "1E"),
        ("0", "0"),
        ("1000", "1k"),
        ("12345", "12345"),
        ("512Ki", "512Ki"),
        ("-1", "-1"),
        ("1u", "1u"),
    ],
)
def test_quantities_are_written_as_kubernetes_writes_them(text: Any, expected: str) -> None:
    """The largest unit that loses nothing."""
    assert canonical_quantity(text) == expected


@pytest.mark.parametrize("text", ["", "1x", "abc", "1 Gi", None, [], "1.2.3"])
def test_what_is_no_quantity(text: Any) -> None:
    """Is refused in Kubernetes' words."""
    with pytest.raises((QuantityTextError, TypeError), match=r"quantities must match|unhashable"):
        canonical_quantity(text)
