"""Sets of CPUs: parsed as Volcano does, formatted, and bounded."""

from __future__ import annotations

import pytest

from mooring.batch.cpu_sets import MAX_CPU, format_cpus, members, parse_cpu, parse_cpus, union


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("0", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("8,0-1", [0, 1, 8]),
        ("+2", [2]),
        ("3-1", []),
        ("1-", []),
        ("-1", []),
        ("0,,1", []),
        ("0, 1", []),
        ("a", []),
        ("0-1000000000", []),
        ("0-" + "9" * 5000, []),
    ],
)
def test_parse(text: str, cpus: list[int]) -> None:
    assert list(members(parse_cpus(text))) == cpus, "an invalid list is empty, also one that is too long"


@pytest.mark.parametrize(("text", "cpu"), [("0", 0), (str(MAX_CPU), MAX_CPU), (str(MAX_CPU + 1), None), ("x", None)])
def test_one_cpu(text: str, cpu: int | None) -> None:
    assert parse_cpu(text) == cpu


@pytest.mark.parametrize("text", ["", "0", "0-3,8", "1,3,5-6"])
def test_format(text: str) -> None:
    assert format_cpus(parse_cpus(text)) == text


def test_union() -> None:
    assert union([0b1, 0b100]) == 0b101
    assert union([]) == 0
