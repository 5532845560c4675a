"""The report of an outcome as tables and lists; the command line renders them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from mooring.simulation.outcome import GangOutcome, NodeOutcome, Outcome, PodOutcome, State, Use
from mooring.simulation.scenario import Workload

#: The maximum numbers of nodes, and of pods per reason, in the short form.
_NODES, _NAMES = 12, 5
#: The maximum number of gangs in the short form.
_GANGS = 20
#: The resources that always have a column.
_COLUMNS: Final = ("pods", "cpu", "memory")


class Bar(msgspec.Struct, frozen=True):
    """A share that is drawn as a bar, followed by a text."""

    share: float
    text: str


Cell: TypeAlias = str | Bar


class Column(msgspec.Struct, frozen=True):
    """The heading and the alignment of a column."""

    title: str
    align: Literal["left", "right"] = "left"
    #: If there is not enough room, columns with the highest rank are omitted first; rank 0 is never omitted.
    rank: int = 0
    #: Whether the heading is a name, which is not written in upper case.
    is_name: bool = False


class Grid(msgspec.Struct, frozen=True):
    """A table."""

    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    #: A line under the table.
    footer: str = ""
    #: Whether rows and columns can be swapped if there is not enough room.
    can_swap: bool = False


class Listing(msgspec.Struct, frozen=True):
    """A list of headings, each with a text."""

    title: str
    items: list[tuple[str, str]]


Part: TypeAlias = Grid | Listing | str


def report(outcome: Outcome, *, wide: bool = False) -> list[Part]:
    """Return all parts of the report, in order."""
    parts: list[Part] = [summary(outcome)]
    if outcome.pods:
        parts.append(workloads(outcome))
    if outcome.session_names:
        parts += [gangs(outcome, wide=wide), queues(outcome)]
    parts.append(nodes(outcome, wide=wide))
    if wide and outcome.pods:
        parts.append(pods(outcome))
    if outcome.of(State.PENDING, State.GATED):
        parts.append(pending(outcome, wide=wide))
    if any(gang.waits for gang in outcome.gangs):
        parts.append(waiting_gangs(outcome))
    if outcome.of(State.EVICTED):
        parts.append(evicted(outcome))
    return parts


def summary(outcome: Outcome) -> str:
    """Return a summary in two lines."""
    names = ", ".join(outcome.profiles)
    given = f"{_plural(len(outcome.nodes), 'node')}, {_plural(len(outcome.pods), 'pod')}"
    made = f"profile{'s' if len(outcome.profiles) > 1 else ''} {names}; seed {outcome.seed}"
    if outcome.session_names:
        made = f"{made}; sessions for {', '.join(outcome.session_names)}"
    counts = [
        f"{outcome.count(state):,} {state.value}" for state in State if outcome.count(state) or state is State.PLACED
    ]
    effort = f"{_plural(outcome.attempts, 'attempt')}, {outcome.seconds:,.0f} s simulated"
    if outcome.session_names:
        effort = f"{_plural(outcome.sessions, 'session')}, {effort}"
    return f"{given}; {made}\n{', '.join(counts)}; {effort}"


def workloads(outcome: Outcome) -> Grid:
    """Return the table of workloads, with the nodes or zones of their pods."""
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
        *(
            Column(title, "right", rank)
            for title, rank in (("pods", 0), ("on nodes", 0), ("pending", 1), ("evicted", 2), ("nodes", 3))
        ),
        Column("where"),
    )
    return Grid("Workloads", columns, rows)


def workload_name(workload: Workload | None) -> str:
    """Return the name of a workload; the namespace ``default`` is omitted."""
    if workload is None:
        return "pods of no workload"
    prefix = "" if workload.namespace == "default" else f"{workload.namespace}/"
    return f"{workload.kind} {prefix}{workload.name}"


def _where(pods: Sequence[PodOutcome], zones: dict[str, str]) -> str:
    """Return the nodes if there are few, otherwise the zones."""
    on = Counter(pod.node or "" for pod in pods)
    if len(on) > 3:
        on = Counter(zones.get(pod.node or "", "") or "no zone" for pod in pods)
        if len(on) > 6:
            return f"{len(on)} zones"
    return ", ".join(
        f"{name} {count}" if count > 1 or len(pods) > len(on) else name for name, count in sorted(on.items())
    )


def gangs(outcome: Outcome, *, wide: bool) -> Grid:
    """Return the table of gangs: all of them, or the waiting ones and the first others."""
    shown = outcome.gangs if wide else sorted(outcome.gangs, key=lambda gang: not gang.waits)[:_GANGS]
    rest = len(outcome.gangs) - len(shown)
    rows: list[tuple[Cell, ...]] = [
        (_gang_name(gang), gang.queue, gang.phase, str(gang.min_member), str(gang.pods), str(gang.placed))
        for gang in shown
    ]
    columns = (
        Column("gang"),
        Column("queue"),
        Column("phase"),
        *(Column(title, "right") for title in ("minimum", "pods", "on nodes")),
    )
    return Grid("Gangs", columns, rows, f"{rest} more; -o wide shows all" if rest else "")


def _gang_name(gang: GangOutcome) -> str:
    """Return the PodGroup, or the workload whose controller created it, because such a PodGroup is named by a UID."""
    return f"PodGroup {_short(gang.key)}" if gang.workload is None else workload_name(gang.workload)


def waiting_gangs(outcome: Outcome) -> Listing:
    """Return the reasons why gangs wait."""
    return Listing(
        "Waiting gangs",
        [(f"{_gang_name(gang)} (queue {gang.queue})", gang.message) for gang in outcome.gangs if gang.waits],
    )


def queues(outcome: Outcome) -> Grid:
    """Return the table of queues, with their allocated and deserved resources."""
    rows: list[tuple[Cell, ...]] = [
        (
            queue.name,
            str(queue.weight),
            str(queue.gangs),
            str(queue.waiting) if queue.waiting else "",
            *(f"{queue.allocated.get(name, '0')}/{queue.deserved.get(name, '-')}" for name in ("cpu", "memory")),
            Bar(queue.share, f"{100 * queue.share:3.0f}%"),
        )
        for queue in outcome.queues
    ]
    columns = (
        Column("queue"),
        *(Column(title, "right") for title in ("weight", "gangs", "waiting", "cpu", "memory")),
        Column("share"),
    )
    return Grid("Queues", columns, rows, "cpu and memory: allocated/deserved; share: the largest of any resource")


def nodes(outcome: Outcome, *, wide: bool) -> Grid:
    """Return the table of nodes and their use: all of them in order, or the fullest."""
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
        Column("zone", rank=1),
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
    """Return the table of all pods."""
    columns = (
        Column("namespace"),
        Column("pod"),
        Column("node"),
        Column("state"),
        Column("profile", rank=3),
        Column("priority", "right", rank=2),
        Column("attempts", "right", rank=1),
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
    """Return the reasons why pods have no node: each message once, with its pods."""
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
    """Return the table of evicted pods and their preemptors."""
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
            (
                _short(pod.key),
                str(pod.priority),
                pod.node or "",
                _short(winner) or pod.message,
                str(priorities.get(winner, "")),
            )
        )
    return Grid("Evicted", columns, rows)


def _short(key: str) -> str:
    return key.removeprefix("default/")


def _count(pods: Iterable[PodOutcome], *states: State) -> str:
    found = sum(pod.state in states for pod in pods)
    return str(found) if found else ""


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
