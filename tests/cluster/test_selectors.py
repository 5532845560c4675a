"""Label and field selectors."""

import pytest

from mooring.cluster.errors import ApiError
from mooring.cluster.selectors import parse_label_selector


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": "1"}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a notin (1)", {"a": "1"}, False),
        ("a>3", {"a": "4"}, True),
        ("a<3", {"a": "4"}, False),
        ("a=1,b in (x),!c", {"a": "1", "b": "x"}, True),
        ("a=", {"a": ""}, True),
        ("ex.io/k=v", {"ex.io/k": "v"}, True),
        ("", {}, True),
        ("in in (notin)", {"in": "notin"}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], matches: bool) -> None:
    """As they stand in a query."""
    assert parse_label_selector(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a in 1", "a b", "a=1,", "=1", "a in (", "a>x", "a=b c"])
def test_bad_label_selectors(text: str) -> None:
    """Are refused."""
    with pytest.raises(ApiError):
        parse_label_selector(text)
