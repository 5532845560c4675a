"""Tables and lists that explain the decisions about pods and gangs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mooring.api.resources import format_amount
from mooring.cli.output import table
from mooring.framework.waiting_pods import go_duration
from mooring.observe.explanation import (
    DecisionView,
    DeviceRejectionView,
    Explanation,
    HoldView,
    PreemptedView,
    PreemptionView,
    SuggestionView,
    VerdictView,
    WaitingView,
)
from mooring.simulation.report import Column, Grid, Listing, Part

if TYPE_CHECKING:
    from mooring.controllers.gang_explanation import GangExplanation


def pod_parts(explained: Explanation) -> list[Part]:
    """Return the explanation of a pod as text, tables and lists."""
    found: list[Part] = [_headline(explained)]
    decision, waiting = explained.decision, explained.waiting
    if explained.note:
        found.append(explained.note)
    if explained.held_by:
        found.append(_held(explained.held_by))
    if decision is not None:
        if decision.preempted is not None and explained.state != "gone":
            found.append(_preempted("It", decision.preempted))
        if decision.node:
            found += _placement(decision)
        elif decision.outcome != "gated":
            found += _failure(decision)
        found += _history(explained, decision)
    found += suggestion_parts(explained.suggestions)
    if waiting is not None:
        found.append(_waiting(waiting))
    if decision is not None and decision.seconds:
        took = ", ".join(f"{name} {_duration(seconds)}" for name, seconds in decision.seconds.items())
        found.append(f"Time: {took}")
    return found


def suggestion_parts(suggestions: Sequence[SuggestionView]) -> list[Part]:
    """Return suggestions as a list; nothing if there are none."""
    return [Listing("Suggestions", [(each.text, _effect(each)) for each in suggestions])] if suggestions else []


def _effect(found: SuggestionView) -> str:
    if found.pods > 1:
        nodes = f"node {found.node}" if found.nodes == 1 else f"{found.nodes} nodes, such as {found.node}"
        return f"then {found.pods} pods would go to {nodes}"
    return f"then it would go to node {found.node}"


def _headline(explained: Explanation) -> str:
    pod, decision = explained.pod, explained.decision
    match explained.state:
        case "bound":
            text = f"Pod {pod} is on node {explained.node}."
        case "binding":
            text = f"Pod {pod} is being bound to node {explained.node}."
        case "held":
            text = f"Pod {pod} is held at Permit, with node {explained.node} reserved for it."
        case "gated":
            plugin = explained.waiting.gated_by if explained.waiting is not None else ""
            text = f"Pod {pod} is gated: the PreEnqueue plugin {plugin} holds it."
        case "gone":
            text = _gone(explained)
        case _:
            text = f"Pod {pod} is pending."
    if decision is None:
        return text if explained.state in ("gated", "bound") else f"{text} There was no scheduling attempt yet."
    if not decision.attempt:
        return text
    return f"{text} Attempt {decision.attempt} by {decision.profile} at {decision.time}."


def _gone(explained: Explanation) -> str:
    pod, decision = explained.pod, explained.decision
    if decision is not None and decision.preempted is not None:
        return _preempted(f"Pod {pod}", decision.preempted)
    if decision is not None and decision.outcome == "gated":
        plugin = decision.verdicts[0].plugin if decision.verdicts else ""
        return f"Pod {pod} was deleted while it was gated: the PreEnqueue plugin {plugin} held it: {decision.message}"
    return f"Pod {pod} was deleted."


def _preempted(subject: str, found: PreemptedView) -> str:
    by = f"pod {found.by} ({found.plugin})" if found.plugin else f"pod {found.by}"
    return f"{subject} was preempted by {by} on node {found.node} at {found.time}."


def _held(holds: list[HoldView]) -> Listing:
    items = []
    for each in holds:
        until = f"until {each.until}, then it is rejected"
        if each.allowed_at and each.allowed_at <= each.until:
            until = f"until {each.allowed_at}, then the plugin allows it"
        items.append((f"Held by {each.plugin}", f"{until} (timeout {go_duration(each.timeout_seconds)})"))
    return Listing("Permit", items)


def _history(explained: Explanation, decision: DecisionView) -> list[Part]:
    """Return the waits at Permit of the attempt, and the victims of all attempts, unless they are shown already."""
    found: list[Part] = []
    if decision.permit and not explained.held_by:
        waits = ", ".join(f"{each.plugin} (timeout {go_duration(each.timeout_seconds)})" for each in decision.permit)
        found.append(f"At Permit it {'waited' if decision.attempt else 'would wait'} for {waits}.")
    shown = decision.preemption.victims if decision.preemption is not None else []
    if set(decision.victims) - set(shown):
        found.append(Listing("Preemption", [("Evicted for this pod", ", ".join(decision.victims))]))
    return found


def _placement(decision: DecisionView) -> list[Part]:
    if not decision.evaluated_nodes and not decision.attempt:
        return []  # only the preemption of the pod is recorded
    text = f"Chosen: {decision.node}; {decision.evaluated_nodes} node(s) evaluated, {decision.feasible_nodes} feasible."
    if decision.was_nominated:
        return [f"{text} It was the nominated node, so it was evaluated first."]
    if decision.message:  # a session decided about the pod, together with others
        feasible = f", {decision.feasible_nodes} feasible" if decision.feasible_nodes else ""
        text = f"Chosen: {decision.node}, {decision.message}; {decision.evaluated_nodes} node(s) evaluated{feasible}."
    if not decision.candidates:
        alone = f"{text} No scoring was needed." if decision.feasible_nodes == 1 else text
        return [alone, *_verdicts("Rejected by extenders", decision.verdicts)]
    plugins = list(decision.candidates[0].scores)
    rows = [
        (each.node, str(each.total), *(str(each.scores[plugin]) for plugin in plugins)) for each in decision.candidates
    ]
    more = decision.feasible_nodes - len(rows)
    footer = f"... and {more} more feasible node(s)" if more > 0 else ""
    title = "Weighted scores of the chosen node and the next best nodes"
    columns = (Column("Node"), Column("Total", "right"), *(Column(each, "right", is_name=True) for each in plugins))
    scores = Grid(title, columns, list(rows), footer, can_swap=True)
    return [text, scores, *_verdicts("Rejected by extenders", decision.verdicts)]


def _verdicts(title: str, verdicts: list[VerdictView]) -> list[Part]:
    titles = ("Plugin", "Nodes", "Reason", "Examples")
    return [table(title, titles, map(_verdict, verdicts), right={"Nodes"})] if verdicts else []


def _failure(decision: DecisionView) -> list[Part]:
    found: list[Part] = [decision.message, *_verdicts("Verdicts", decision.verdicts)]
    if decision.devices:
        titles = ("Node", "Claim", "Request", "Reason", "Devices")
        found.append(table("Devices that were not allocated", titles, map(_device, decision.devices)))
    if decision.preemption is not None:
        found.append(_preemption(decision.preemption))
    return found


def _verdict(verdict: VerdictView) -> tuple[str, ...]:
    more = verdict.nodes - len(verdict.examples)
    names = ", ".join(verdict.examples) + (f" (+{more})" if more > 0 and verdict.examples else "")
    reason = "; ".join(verdict.reasons) or "-"
    if verdict.code == "UnschedulableAndUnresolvable":
        reason += " (evicting pods would not help)"
    return verdict.plugin or "-", str(verdict.nodes) if verdict.nodes else "-", reason, names or "-"


def _device(found: DeviceRejectionView) -> tuple[str, ...]:
    more = found.count - len(found.examples)
    names = ", ".join(found.examples) + (f" (+{more})" if more > 0 else "")
    return found.node, found.claim, found.request, found.reason, names


def _preemption(preemption: PreemptionView) -> Listing:
    if preemption.nominated_node:
        items = [(f"Preempting pods on {preemption.nominated_node}", _victims(preemption.victims))]
    else:
        items = [("Preemption does not help", preemption.message or "no plugin found a node")]
    return Listing("Preemption", items)


def _victims(victims: list[str]) -> str:
    return f"evicting {', '.join(victims)}" if victims else "waiting for pods that are already terminating"


def _waiting(waiting: WaitingView) -> Listing:
    items: list[tuple[str, str]] = []
    if waiting.gated_by:
        gates = f"; gates: {', '.join(waiting.gates)}" if waiting.gates else ""
        items.append((f"Gated by {waiting.gated_by}", f"{'; '.join(waiting.gate_reasons) or 'no reason'}{gates}"))
    place = f"{waiting.queue}, after {waiting.attempts} attempt(s)" if waiting.attempts else waiting.queue
    items.append(("Queue", place))
    if waiting.nominated_node:
        items.append(("Nominated node", waiting.nominated_node))
    items += [(f"Retried for {wake.plugin} on", "; ".join(wake.events) or "never") for wake in waiting.woken_by]
    if waiting.backoff_ends:
        items.append(("Backoff ends", waiting.backoff_ends))
    if waiting.retried_by:
        items.append(("Retried at the latest", f"about {waiting.retried_by}"))
    return Listing("Waiting", items)


def _duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def gang_parts(why: GangExplanation | None) -> list[Part]:
    """Return why a gang is waiting, with amounts, as text, tables and lists."""
    if why is None:
        return ["It is not waiting."]
    parts: list[Part] = [f"It is waiting at the {why.gate} gate: {why.text}"]
    if why.members or why.min_member:
        there = ", ".join(f"{count} {phase}" for phase, count in sorted(why.members.items())) or "none yet"
        parts.append(f"Pods: {there}; at least {why.min_member} must start together.")
    if why.room:
        titles = ("Requested", "Allocated", "Deserved", "Capability", "Allocatable")
        rows = [
            (
                room.resource,
                *(
                    optional_amount(room.resource, each)
                    for each in (room.needed, room.allocated, room.deserved, room.capability, room.cluster)
                ),
            )
            for room in why.room
        ]
        parts.append(table("Resources", ("Resource", *titles), rows, right=titles, footer=why.remark))
    if why.reasons:
        items = [
            (f"{count} {'pod' if count == 1 else 'pods'}", reason)
            for reason, count in sorted(why.reasons.items(), key=lambda each: -each[1])
        ]
        parts.append(Listing("Reasons", items))
    return parts


def optional_amount(resource: str, amount: int | None) -> str:
    """Return an amount of a resource as a Kubernetes quantity; a dash without one."""
    return "-" if amount is None else format_amount(resource, amount)
