"""CPU time and memory of processes and of the machine, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class Usage:
    """The CPU time and memory of a process and its descendants."""

    cpu_seconds: float
    peak_mib: float

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu_seconds + other.cpu_seconds, self.peak_mib + other.peak_mib)


def usage(pid: int, proc: Path = Path("/proc")) -> Usage:
    """Return the usage of a process and its descendants. The CPU time of terminated children is included."""
    total = _own(pid, proc)
    for child in _children(pid, proc):
        total += usage(child, proc)
    return total


def busy_seconds(proc: Path = Path("/proc")) -> float:
    """Return the total CPU time of all processors since boot."""
    fields = (proc / "stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, interrupts, soft, *_ = map(int, fields)
    return (user + nice + system + interrupts + soft) / _TICKS


def _own(pid: int, proc: Path) -> Usage:
    try:
        # The process name in parentheses may contain anything; the numbers follow it.
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        status = (proc / str(pid) / "status").read_text()
    except OSError:
        return Usage(0.0, 0.0)
    ticks = sum(map(int, fields[11:15]))  # user and system time, including terminated children
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
    return Usage(ticks / _TICKS, peak / 1024)


def _children(pid: int, proc: Path) -> list[int]:
    found: list[int] = []
    for path in (proc / str(pid) / "task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:
            continue
    return found
