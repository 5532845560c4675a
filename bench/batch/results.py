"""Results of the batch benchmark, and their table."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bench.live.results import Rate, aligned, compare

#: Results of Volcano's vc-scheduler 1.15.1 on two shared cores: gang size -> binds per second.
VOLCANO_BINDS_PER_S = {1: 65.0, 10: 102.0, 100: 60.0}
#: Its CPU time per pod in milliseconds.
VOLCANO_CPU_MS = (11.0, 14.0)

_HEADINGS = (
    "gangs of", "scheduler", "bound", "binds/s", "x Volcano", "x null", "CPU ms/pod", "peak MiB", "first bind s",
    "sessions", "mean ms", "longest ms", "server ms/pod", "other CPU",
)  # fmt: skip


class Sessions(msgspec.Struct):
    """Statistics of the sessions of one measurement."""

    count: int = 0
    mean_ms: float = 0.0
    #: The histogram bucket of the longest session.
    longest_ms: float = 0.0


class BatchRate(msgspec.Struct, kw_only=True):
    """The result of one scheduler with gangs of one size."""

    gang: int
    rate: Rate
    sessions: Sessions
    rate_to_volcano: float | None = None


def finished(results: Iterable[BatchRate]) -> list[BatchRate]:
    """Return the results with their ratios."""
    found = list(results)
    compare(each.rate for each in found)
    for each in found:
        theirs = VOLCANO_BINDS_PER_S.get(each.gang)
        each.rate_to_volcano = None if theirs is None else round(each.rate.binds_per_s / theirs, 2)
    return found


def table(results: Iterable[BatchRate]) -> str:
    """Return all results as an aligned text table."""
    return aligned(_HEADINGS, [_row(each) for each in results])


def _row(each: BatchRate) -> list[str]:
    rate, sessions = each.rate, each.sessions
    return [
        str(each.gang),
        rate.scheduler,
        f"{rate.bound:,}" if rate.bound == rate.pods else f"{rate.bound:,} of {rate.pods:,}",
        f"{rate.binds_per_s:,.0f}",
        "-" if each.rate_to_volcano is None else f"{each.rate_to_volcano:.1f}",
        "-" if rate.rate_to_null is None else f"{rate.rate_to_null:.2f}",
        f"{rate.cpu_ms_per_pod:.2f}",
        f"{rate.peak_mib:,.0f}",
        f"{rate.first_bind_s:.1f}",
        str(sessions.count) if sessions.count else "-",
        f"{sessions.mean_ms:,.0f}" if sessions.count else "-",
        f"{sessions.longest_ms:,.0f}" if sessions.count else "-",
        f"{rate.server_cpu_ms_per_pod:.2f}",
        f"{rate.foreign_cpu:.0%}",
    ]
