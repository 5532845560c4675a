"""SimulationResult: the result of a simulation for programs and notebooks, as records and as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, TypeAlias

from mooring.api.resources import amount
from mooring.simulation.outcome import Outcome, PodOutcome, State
from mooring.simulation.report import Bar, Cell, Grid, Listing, Part, pending, queues, summary, waiting_gangs, workloads
from mooring.simulation.scenario import Workload

#: A row. Every value is text or a number, and all rows of a list have the same columns with the same types.
Record: TypeAlias = dict[str, Any]
_NAN: Final = float("nan")
#: The maximum number of rows of a table, and of reasons, in the HTML summary.
_ROWS: Final = 15


class SimulationResult:
    """The result of a simulation: placements, the utilization of nodes, and the reasons why pods are pending.

    Each list of records can be passed to ``pandas.DataFrame`` or ``polars.DataFrame``. Missing text is "", and a
    missing number is NaN. Amounts of cpu are cores, amounts of other resources are bytes or units.
    """

    def __init__(self, outcome: Outcome) -> None:
        #: The complete outcome, with the node of every pod.
        self.outcome = outcome

    @property
    def summary(self) -> Record:
        """The numbers of nodes, of pods by state, and of attempts."""
        found: Record = self.outcome.as_dict()["summary"]
        return found

    @property
    def placements(self) -> list[Record]:
        """One record for each pod: its state and node."""
        zones = {node.name: node.zone for node in self.outcome.nodes}
        return [
            {
                **_pod(pod),
                "node": pod.node or "",
                "zone": zones.get(pod.node or "", ""),
                "profile": pod.profile,
                "priority": pod.priority,
                "attempts": pod.attempts,
                "gang": pod.gang or "",
                "nominated_node": pod.nominated_node or "",
                "evicted_by": pod.evicted_by or "",
            }
            for pod in self.outcome.pods
        ]

    @property
    def utilization(self) -> list[Record]:
        """One record for each resource of each node: the requested and the allocatable amount."""
        return [
            {
                "node": node.name,
                "zone": node.zone,
                "resource": resource,
                "requested": _units(resource, use.requested),
                "allocatable": _units(resource, use.allocatable),
                "share": use.share,
            }
            for node in self.outcome.nodes
            for resource, use in node.uses.items()
        ]

    @property
    def reasons(self) -> list[Record]:
        """One record for each pod without a node: the reason."""
        waiting = self.outcome.of(State.PENDING, State.GATED)
        return [
            {**_pod(pod), "profile": pod.profile, "gang": pod.gang or "", "message": pod.message} for pod in waiting
        ]

    @property
    def gangs(self) -> list[Record]:
        """One record for each PodGroup: how many of its pods are on nodes, and why it waits."""
        return [
            {
                "namespace": gang.namespace,
                "gang": gang.name,
                **_workload(gang.workload),
                "queue": gang.queue,
                "phase": gang.phase,
                "min_member": gang.min_member,
                "pods": gang.pods,
                "placed": gang.placed,
                "message": gang.message,
            }
            for gang in self.outcome.gangs
        ]

    @property
    def queues(self) -> list[Record]:
        """One record for each resource of each queue: the allocated and deserved amounts, and the capability."""
        return [
            {
                "queue": queue.name,
                "parent": queue.parent,
                "weight": queue.weight,
                "gangs": queue.gangs,
                "waiting": queue.waiting,
                "share": float(queue.share),
                "resource": resource,
                "allocated": _quantity(resource, queue.allocated, 0.0),
                "deserved": _quantity(resource, queue.deserved),
                "capability": _quantity(resource, queue.capability),
            }
            for queue in self.outcome.queues
            for resource in sorted({"cpu", "memory", *queue.allocated, *queue.deserved, *queue.capability})
        ]

    @property
    def notes(self) -> list[str]:
        """Notes about the input, such as objects that were ignored."""
        return list(self.outcome.notes)

    @property
    def plugin_failures(self) -> list[Record]:
        """One record for each plugin that raised: the number of failures, and the first one."""
        return [
            {"plugin": each.plugin, "count": each.count, "first": each.first, "traceback": each.traceback}
            for each in self.outcome.plugin_failures
        ]

    def __repr__(self) -> str:
        text = summary(self.outcome)
        failed = [f"plugin {each['plugin']} failed: {each['first']}" for each in self.plugin_failures]
        return "\n".join([text, *failed])

    def _repr_html_(self) -> str:
        """Return a summary for notebooks."""
        parts: list[Part] = [repr(self)]
        if self.outcome.pods:
            parts.append(workloads(self.outcome))
        if self.outcome.session_names:
            parts.append(queues(self.outcome))
        if self.outcome.of(State.PENDING, State.GATED):
            parts.append(pending(self.outcome, wide=False))
        if any(gang.waits for gang in self.outcome.gangs):
            parts.append(waiting_gangs(self.outcome))
        return f'<div class="mooring-simulation">{"".join(map(_html, parts))}</div>'


def _pod(pod: PodOutcome) -> Record:
    return {"namespace": pod.namespace, "pod": pod.name, "state": pod.state.value, **_workload(pod.workload)}


def _workload(workload: Workload | None) -> Record:
    return {
        "workload_kind": "" if workload is None else workload.kind,
        "workload": "" if workload is None else workload.name,
    }


def _units(resource: str, number: int) -> float:
    """Return cores for cpu, which is counted in millicores, and units for other resources."""
    return number / 1000 if resource == "cpu" else float(number)


def _quantity(resource: str, amounts: Mapping[str, str], missing: float = _NAN) -> float:
    return _units(resource, amount(resource, amounts[resource])) if resource in amounts else missing


# HTML. All text is escaped, because names and messages come from manifests and plugins


def _html(part: Part) -> str:
    match part:
        case str():
            return f"<p>{'<br>'.join(map(escape, part.splitlines()))}</p>"
        case Grid():
            return _html_table(part)
        case Listing():
            return _html_list(part)


def _html_table(grid: Grid) -> str:
    head = "".join(f'<th style="text-align:{each.align}">{escape(each.title)}</th>' for each in grid.columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align:{column.align}">{escape(_text(cell))}</td>'
            for cell, column in zip(row, grid.columns, strict=True)
        )
        + "</tr>"
        for row in grid.rows[:_ROWS]
    )
    caption = f"<caption><b>{escape(grid.title)}</b></caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{_more(grid.rows)}"


def _html_list(listing: Listing) -> str:
    items = "".join(f"<dt>{escape(head)}</dt><dd>{escape(body)}</dd>" for head, body in listing.items[:_ROWS])
    return f"<p><b>{escape(listing.title)}</b></p><dl>{items}</dl>{_more(listing.items)}"


def _more(rows: Sequence[object]) -> str:
    return f"<p>... and {len(rows) - _ROWS} more</p>" if len(rows) > _ROWS else ""


def _text(cell: Cell) -> str:
    return cell.text.strip() if isinstance(cell, Bar) else cell
