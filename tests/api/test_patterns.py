"""Patterns have the syntax of Go, and no pattern or value takes long."""

import time

import pytest

from mooring.api.patterns import PatternIssue, compile_pattern, found
from mooring.cluster.custom_resources.schema_validation import schema_errors

#: Patterns that take an engine with backtracking exponential or polynomial time.
HOSTILE = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "a*a*a*a*a*a*a*b"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_patterns_take_linear_time(pattern: str) -> None:
    started = time.process_time()
    (error,) = schema_errors("a" * 100_000 + "!", {"type": "string", "pattern": pattern}, "spec.p")
    assert time.process_time() - started < 5.0
    assert f"should match '{pattern}'" in str(error)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^x+$", "xx", True),
        ("^x+$", "xxy", False),
        ("x", "axb", True),
        (r"^\d{3}$", "123", True),
        (r"^\d$", "\u0661", False),
        (r"^[[:alpha:]]+$", "abc", True),
        (r"^\pL+$", "\u00e4\u00f6", True),
        ("^a$", "a\n", False),
        ("(?i)^abc$", "ABC", True),
        ("^.$", "\U0001f600", True),
        (r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?([0-9]+)))?$", "1.5Gi", True),
    ],
)
def test_matching(pattern: str, text: str, expected: bool) -> None:
    assert found(pattern, text) == expected


@pytest.mark.parametrize(
    "pattern", ["(", "[", "(?=a)", r"(a)\1", "a{1001}", "((a{100}){100}){100}", "\ud800", "a" * 20_001, "*"]
)
def test_invalid_patterns(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    started = time.process_time()
    with pytest.raises(PatternIssue) as caught:
        compile_pattern(pattern)
    assert time.process_time() - started < 5.0
    assert 0 < len(str(caught.value)) < 300
    assert capfd.readouterr() == ("", "")
