"""Results of the live benchmark, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


class Rate(msgspec.Struct, kw_only=True):
    """The result of one contender with one workload."""

    workload: str
    scheduler: str
    nodes: int
    pods: int
    #: The number of bound pods; fewer than all if the contender failed.
    bound: int
    binds_per_s: float
    #: Pods bound and reported by their event per second.
    done_per_s: float
    #: The time from the start of the process to the first bind.
    first_bind_s: float
    #: The usage of the contender, from its start until it has sent its events.
    cpu_ms_per_pod: float
    #: The part of it until the first bind, and the rest for each pod.
    start_cpu_s: float
    bind_cpu_ms_per_pod: float
    peak_mib: float
    #: The usage of the API server and etcd in the same time.
    server_cpu_ms_per_pod: float
    #: The writes that the API server answered.
    writes_per_pod: float
    events: int
    #: The time from the last bind to the last event.
    events_after_s: float
    #: The share of the machine that processes outside the benchmark used.
    foreign_cpu: float
    #: Set by `compare`.
    rate_to_kube: float | None = None
    rate_to_null: float | None = None
    #: To the client that decides nothing and sends the same events: binds, and binds with their events.
    rate_to_null_events: float | None = None
    done_to_null_events: float | None = None
    #: Binds with their events, to the client that decides nothing, sends the same events and watches pods.
    done_to_null_watch: float | None = None
    cpu_to_kube: float | None = None
    bind_cpu_to_kube: float | None = None
    memory_to_kube: float | None = None


class Startup(msgspec.Struct, kw_only=True):
    """The time to the first bind in a full cluster."""

    scheduler: str
    nodes: int
    running_pods: int
    first_bind_s: float
    cpu_s: float
    peak_mib: float
    foreign_cpu: float


class Latency(msgspec.Struct, kw_only=True):
    """The time from the creation to the binding of a single pod in an idle cluster."""

    scheduler: str
    nodes: int
    pods: int
    p50_ms: float
    p99_ms: float
    foreign_cpu: float


class Load(msgspec.Struct, kw_only=True):
    """The time from the creation to the binding of pods that are created at half the highest rate."""

    scheduler: str
    nodes: int
    #: Pods created, bound and reported per second if all are created as fast as the server allows.
    highest_per_s: float
    #: Half that rate, the pods that were created at it in each round, and the rounds.
    per_s: float
    pods: int
    rounds: int
    #: Medians of the rounds, and the highest.
    p50_ms: float
    p99_ms: float
    worst_p99_ms: float
    foreign_cpu: float


class Results(msgspec.Struct):
    """All results of one run."""

    rates: list[Rate] = []
    startups: list[Startup] = []
    latencies: list[Latency] = []
    loads: list[Load] = []


def compare(rates: Iterable[Rate]) -> None:
    """Set the ratios to contenders that were measured with the same workload."""
    rates = list(rates)
    by_key = {(each.workload, each.scheduler): each for each in rates}
    for each in rates:
        kube = by_key.get((each.workload, "kube-scheduler"))
        null = by_key.get((each.workload, "null"))
        null_events = by_key.get((each.workload, "null+events"))
        null_watch = by_key.get((each.workload, "null+watch"))
        if kube is not None:
            each.rate_to_kube = _ratio(each.binds_per_s, kube.binds_per_s)
            each.cpu_to_kube = _ratio(each.cpu_ms_per_pod, kube.cpu_ms_per_pod)
            each.bind_cpu_to_kube = _ratio(each.bind_cpu_ms_per_pod, kube.bind_cpu_ms_per_pod)
            each.memory_to_kube = _ratio(each.peak_mib, kube.peak_mib)
        if null is not None:
            each.rate_to_null = _ratio(each.binds_per_s, null.binds_per_s)
        if null_events is not None:
            each.rate_to_null_events = _ratio(each.binds_per_s, null_events.binds_per_s)
            each.done_to_null_events = _ratio(each.done_per_s, null_events.done_per_s)
        if null_watch is not None:
            each.done_to_null_watch = _ratio(each.done_per_s, null_watch.done_per_s)


def table(results: Results) -> str:
    """Return all results as aligned text, with one table for each measurement."""
    compare(results.rates)
    parts = []
    if results.rates:
        parts.append(aligned(_RATE_HEADINGS, [_rate_row(each) for each in results.rates]))
    if results.startups:
        parts.append(aligned(_STARTUP_HEADINGS, [_startup_row(each) for each in results.startups]))
    if results.latencies:
        parts.append(aligned(_LATENCY_HEADINGS, [_latency_row(each) for each in results.latencies]))
    if results.loads:
        parts.append(aligned(_LOAD_HEADINGS, [_load_row(each) for each in results.loads]))
    return "\n\n".join(parts)


_RATE_HEADINGS = (
    "workload", "scheduler", "bound", "binds/s", "x kube", "x null", "x null+events", "with events", "and watch",
    "CPU ms/pod", "x kube CPU", "bind ms/pod", "x kube bind", "peak MiB", "x kube mem", "start CPU s", "first bind s",
    "events", "after s", "server ms/pod", "writes/pod", "other CPU",
)  # fmt: skip
_STARTUP_HEADINGS = ("start-up", "nodes", "running pods", "first bind s", "CPU s", "peak MiB", "other CPU")
_LATENCY_HEADINGS = ("single pod", "nodes", "pods", "p50 ms", "p99 ms", "other CPU")
_LOAD_HEADINGS = (
    "half load", "nodes", "highest pods/s", "pods/s", "rounds", "p50 ms", "p99 ms", "worst p99 ms", "other CPU"
)  # fmt: skip


def _rate_row(each: Rate) -> list[str]:
    return [
        each.workload,
        each.scheduler,
        f"{each.bound:,}" if each.bound == each.pods else f"{each.bound:,} of {each.pods:,}",
        f"{each.binds_per_s:,.0f}",
        _shown(each.rate_to_kube),
        _shown(each.rate_to_null),
        _shown(each.rate_to_null_events),
        _shown(each.done_to_null_events),
        _shown(each.done_to_null_watch),
        f"{each.cpu_ms_per_pod:.2f}",
        _shown(each.cpu_to_kube),
        f"{each.bind_cpu_ms_per_pod:.2f}",
        _shown(each.bind_cpu_to_kube),
        f"{each.peak_mib:,.0f}",
        _shown(each.memory_to_kube),
        f"{each.start_cpu_s:.1f}",
        f"{each.first_bind_s:.1f}",
        f"{each.events:,}",
        f"{each.events_after_s:.1f}",
        f"{each.server_cpu_ms_per_pod:.2f}",
        f"{each.writes_per_pod:.2f}",
        f"{each.foreign_cpu:.0%}",
    ]


def _startup_row(each: Startup) -> list[str]:
    return [
        each.scheduler,
        f"{each.nodes:,}",
        f"{each.running_pods:,}",
        f"{each.first_bind_s:.1f}",
        f"{each.cpu_s:.1f}",
        f"{each.peak_mib:,.0f}",
        f"{each.foreign_cpu:.0%}",
    ]


def _latency_row(each: Latency) -> list[str]:
    return [
        each.scheduler,
        f"{each.nodes:,}",
        f"{each.pods:,}",
        f"{each.p50_ms:.1f}",
        f"{each.p99_ms:.1f}",
        f"{each.foreign_cpu:.0%}",
    ]


def _load_row(each: Load) -> list[str]:
    return [
        each.scheduler,
        f"{each.nodes:,}",
        f"{each.highest_per_s:,.0f}",
        f"{each.per_s:,.0f}",
        str(each.rounds),
        f"{each.p50_ms:.1f}",
        f"{each.p99_ms:.1f}",
        f"{each.worst_p99_ms:.1f}",
        f"{each.foreign_cpu:.0%}",
    ]


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table with names on the left and numbers on the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    names = 2 if headings[1] == "scheduler" else 1
    lines = []
    for row in (headings, *rows):
        cells = [
            cell.ljust(width) if number < names else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _ratio(value: float, other: float) -> float | None:
    return round(value / other, 3) if other else None
