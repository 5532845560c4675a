"""Sets of CPUs: integers in which bit N stands for CPU N."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_NUMBER: Final = re.compile(r"\+?[0-9]{1,9}")
#: CPUs with a higher number are invalid: a set must stay small, whoever wrote it.
MAX_CPU: Final = 65_535


def parse_cpus(text: str) -> int:
    """Parse a list such as ``0-3,8``; the set is empty if it is invalid, as in Volcano."""
    cpus = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        low, high = parse_cpu(first), parse_cpu(last if dash else first)
        if low is None or high is None or low > high:
            return 0
        cpus |= (1 << high + 1) - (1 << low)
    return cpus


def parse_cpu(text: str) -> int | None:
    """Parse the number of a CPU; None if it is invalid."""
    number = int(text) if _NUMBER.fullmatch(text) else MAX_CPU + 1
    return number if number <= MAX_CPU else None


def members(cpus: int) -> Iterator[int]:
    """Yield the numbers of the CPUs in a set, in order."""
    while cpus:
        lowest = cpus & -cpus
        yield lowest.bit_length() - 1
        cpus ^= lowest


def union(sets: Iterable[int]) -> int:
    """Return the CPUs that are in any of the sets."""
    whole = 0
    for cpus in sets:
        whole |= cpus
    return whole


def format_cpus(cpus: int) -> str:
    """Format a set as a list such as ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in members(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
