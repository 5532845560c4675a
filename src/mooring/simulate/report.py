"""An outcome as tables and lists that are worth reading; how they look on a screen is left to the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from mooring.simulate.outcome import NodeOutcome, Outcome, PodOutcome, State, Use
from mooring.simulate.scenario import Workload

#: How many nodes, and how many pods of one reason, the short form names.
_NODES, _NAMES = 12, 5
#: Resources that have a column of their own.
_COLUMNS: Final = ("pods", "cpu", "memory")


class Bar(msgspec.Struct, frozen=True):
    """A share to be drawn, with a text behind it."""

    share: float
    text: str


Cell: TypeAlias = str | Bar


class Column(msgspec.Struct, frozen=True):
    """A column's heading, and the side its cells stand on."""

    title: str
    align: Literal["left", "right"] = "left"


class Grid(msgspec.Struct, frozen=True):
    """A table."""

    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    #: A line under the table.
    footer: str = ""


class Listing(msgspec.Struct, frozen=True):
    """Headings, each with a text under it."""

    title: str
    items: list[tuple[str, str]]


Part: TypeAlias = Grid | Listing | str


def report(outcome: Outcome, *, wide: bool = False) -> list[Part]:
    """Everything to be shown, in order."""
    parts: list[Part] = [summary(outcome)]
    if outcome.pods:
        parts.append(workloads(outcome))
    parts.append(nodes(outcome, wide=wide))
    if wide and outcome.pods:
        parts.append(pods(outcome))
    if outcome.of(State.PENDING, State.GATED):
        parts.append(pending(outcome, wide=wide))
    if outcome.of(State.EVICTED):
        parts.append(evicted(outcome))
    return parts


def summary(outcome: Outcome) -> str:
    """The numbers in two lines."""
    names = ", ".join(outcome.profiles)
    given = f"{_plural(len(outcome.nodes), 'node')}, {_plural(len(outcome.pods), 'pod')}"
    made = f"profile{'s' if len(outcome.profiles) > 1 else ''} {names}; seed {outcome.seed}"
    counts = [
        f"{outcome.count(state):,} {state.value}" for state in State if outcome.count(state) or state is State.PLACED
    ]
    effort = f"{_plural(outcome.attempts, 'attempt')}, {outcome.seconds:,.0f} s simulated"
    return f"{given}; {made}\n{', '.join(counts)}; {effort}"


def workloads(outcome: Outcome) -> Grid:
    """Where the pods of each workload went."""
    zones = {node.name: node.zone for node in outcome.nodes}
    groups: dict[Workload | None, list[PodOutcome]] = {}
    for pod in outcome.pods:
        groups.setdefault(pod.workload, []).append(pod)
    rows: list[tuple[Cell, ...]] = []
    for workload, members in groups.items():
        placed = [pod for pod in members if pod.state in (State.PLACED, State.RUNNING)]
        rows.append(
            (
                workload_name(workload),
                str(len(members)),
                str(len(placed)),
                _count(members, State.PENDING, State.GATED),
                _count(members, State.EVICTED),
                str(len({pod.node for pod in placed})) if placed else "",
                _where(placed, zones),
            )
        )
    columns = (
        Column("workload"),
        *(Column(title, "right") for title in ("pods", "on nodes", "pending", "evicted", "nodes")),
        Column("where"),
    )
    return Grid("Workloads", columns, rows)


def workload_name(workload: Workload | None) -> str:
    """What to call a workload; the namespace is left out where it is ``default``."""
    if workload is None:
        return "pods of no workload"
    prefix = "" if workload.namespace == "default" else f"{workload.namespace}/"
    return f"{workload.kind} {prefix}{workload.name}"


def _where(pods: Sequence[PodOutcome], zones: dict[str, str]) -> str:
    """The nodes if they are few, else the zones."""
    on = Counter(pod.node or "" for pod in pods)
    if len(on) > 3:
        on = Counter(zones.get(pod.node or "", "") or "no zone" for pod in pods)
        if len(on) > 6:
            return f"{len(on)} zones"
    return ", ".join(
        f"{name} {count}" if count > 1 or len(pods) > len(on) else name for name, count in sorted(on.items())
    )


def nodes(outcome: Outcome, *, wide: bool) -> Grid:
    """How full the nodes are: all of them in order, or the fullest."""
    shown = list(outcome.nodes)
    footer = ""
    if not wide:
        shown.sort(key=_fullness, reverse=True)
        rest = shown[_NODES:]
        shown = shown[:_NODES]
        if rest:
            empty = sum(not node.uses["pods"].requested for node in rest)
            footer = f"{len(rest)} more{f', {empty} of them empty' if empty else ''}; -o wide shows all"
    others = sorted({name for node in outcome.nodes for name in node.uses} - set(_COLUMNS))
    if not wide:
        others = [name for name in others if outcome.total(name).requested]
    rows = [_node_row(node.name, node.zone, node.uses, others, wide=wide) for node in shown]
    total = {name: outcome.total(name) for name in (*_COLUMNS, *others)}
    rows.append(_node_row(f"all {_plural(len(outcome.nodes), 'node')}", "", total, others, wide=wide))
    columns = (
        Column("node"),
        Column("zone"),
        Column("pods", "right"),
        Column("cpu"),
        Column("memory"),
        *(Column(name, "right") for name in others),
    )
    title = "Nodes" if wide or not footer else f"Nodes, the {_NODES} fullest"
    return Grid(title, columns, rows, footer)


def _fullness(node: NodeOutcome) -> float:
    return max(use.share for use in node.uses.values())


def _node_row(name: str, zone: str, uses: dict[str, Use], others: Iterable[str], *, wide: bool) -> tuple[Cell, ...]:
    cells = [uses.get(other) for other in others]
    return (
        name,
        zone,
        _ratio(uses["pods"], "pods"),
        _bar(uses["cpu"], "cpu", wide=wide),
        _bar(uses["memory"], "memory", wide=wide),
        *("" if use is None else _ratio(use, other) for use, other in zip(cells, others, strict=True)),
    )


def _ratio(use: Use, resource: str) -> str:
    return "/".join(use.texts(resource))


def _bar(use: Use, resource: str, *, wide: bool) -> Bar:
    text = f"{100 * use.share:3.0f}%"
    return Bar(use.share, f"{text} {_ratio(use, resource)}" if wide else text)


def pods(outcome: Outcome) -> Grid:
    """Every pod."""
    columns = (
        Column("namespace"),
        Column("pod"),
        Column("node"),
        Column("state"),
        Column("profile"),
        Column("priority", "right"),
        Column("attempts", "right"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            pod.namespace,
            pod.name,
            pod.node or "",
            pod.state.value,
            pod.profile,
            str(pod.priority),
            str(pod.attempts),
        )
        for pod in outcome.pods
    ]
    return Grid("Pods", columns, rows)


def pending(outcome: Outcome, *, wide: bool) -> Listing:
    """Render why pods have no node: each message once, with its pods."""
    items = []
    for message, concerned in outcome.reasons():
        who = ", ".join(pod.key for pod in concerned) if wide else _who(concerned)
        items.append((f"{_plural(len(concerned), 'pod')}: {who}", message))
    return Listing("Pending", items)


def _who(pods: Sequence[PodOutcome]) -> str:
    counts = Counter(workload_name(pod.workload) if pod.workload else f"Pod {_short(pod.key)}" for pod in pods)
    names = [name if count == 1 else f"{name} ({count})" for name, count in counts.most_common()]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def evicted(outcome: Outcome) -> Grid:
    """Render the evicted pods and their preemptors."""
    priorities = {pod.key: pod.priority for pod in outcome.pods}
    columns = (
        Column("pod"),
        Column("priority", "right"),
        Column("left node"),
        Column("for pod"),
        Column("priority", "right"),
    )
    rows: list[tuple[Cell, ...]] = []
    for pod in outcome.of(State.EVICTED):
        winner = pod.evicted_by or ""
        rows.append(
            (_short(pod.key), str(pod.priority), pod.node or "", _short(winner), str(priorities.get(winner, "")))
        )
    return Grid("Evicted", columns, rows)


def _short(key: str) -> str:
    return key.removeprefix("default/")


def _count(pods: Iterable[PodOutcome], *states: State) -> str:
    found = sum(pod.state in states for pod in pods)
    return str(found) if found else ""


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
