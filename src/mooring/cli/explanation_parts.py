"""An explanation as tables and lists for people."""

from __future__ import annotations

from mooring.observe.explanation import DecisionView, Explanation, PreemptionView, VerdictView, WaitingView
from mooring.simulate.report import Column, Grid, Listing, Part


def parts(explained: Explanation) -> list[Part]:
    """Everything to be shown, in order."""
    found: list[Part] = [_headline(explained)]
    decision, waiting = explained.decision, explained.waiting
    if explained.note:
        found.append(explained.note)
    if decision is not None:
        if decision.node:
            found += _placement(decision)
        else:
            found += _failure(decision)
    if waiting is not None:
        found.append(_waiting(waiting))
    if decision is not None and decision.seconds:
        took = ", ".join(f"{name} {_duration(seconds)}" for name, seconds in decision.seconds.items())
        found.append(f"Time: {took}")
    return found


def _headline(explained: Explanation) -> str:
    pod, decision = explained.pod, explained.decision
    match explained.state:
        case "bound":
            text = f"Pod {pod} is on node {explained.node}."
        case "binding":
            text = f"Pod {pod} is being bound to node {explained.node}."
        case "gated":
            text = f"Pod {pod} is held back; it is not tried until its gates are gone."
        case "gone":
            text = f"Pod {pod} is gone."
        case _:
            text = f"Pod {pod} waits for a node."
    if decision is None:
        return text if explained.state in ("gated", "bound") else f"{text} It has not been tried yet."
    if not decision.attempt:
        return text
    return f"{text} Attempt {decision.attempt} by {decision.profile} at {decision.time}."


def _placement(decision: DecisionView) -> list[Part]:
    text = f"Chosen: {decision.node}; {decision.evaluated_nodes} node(s) evaluated, {decision.feasible_nodes} feasible."
    if decision.was_nominated:
        return [f"{text} Room had been made there before, so it was looked at first."]
    if decision.message:  # a session decided about the pod, together with others
        return [f"Chosen: {decision.node}, {decision.message}; {decision.evaluated_nodes} node(s) evaluated."]
    if not decision.candidates:
        alone = f"{text} No scores were needed." if decision.feasible_nodes == 1 else text
        return [alone, *_verdicts("Turned down by extenders", decision.verdicts)]
    plugins = list(decision.candidates[0].scores)
    columns = (
        Column("Node"), Column("Total", "right"), *(Column(plugin, "right") for plugin in plugins)
    )  # fmt: skip
    rows = [
        (each.node, str(each.total), *(str(each.scores[plugin]) for plugin in plugins)) for each in decision.candidates
    ]
    left_out = decision.feasible_nodes - len(rows)
    footer = f"... and {left_out} more feasible node(s)" if left_out > 0 else ""
    scores = Grid("Scores, weighted: the chosen node and the next best", columns, list(rows), footer)
    return [text, scores, *_verdicts("Turned down by extenders", decision.verdicts)]


def _verdicts(title: str, verdicts: list[VerdictView]) -> list[Part]:
    columns = (Column("Plugin"), Column("Nodes", "right"), Column("Reason"), Column("Such as"))
    return [Grid(title, columns, [_verdict(each) for each in verdicts])] if verdicts else []


def _failure(decision: DecisionView) -> list[Part]:
    found: list[Part] = [decision.message, *_verdicts("Verdicts", decision.verdicts)]
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


def _preemption(preemption: PreemptionView) -> Listing:
    if preemption.nominated_node:
        items = [(f"Room is being made on {preemption.nominated_node}", _victims(preemption.victims))]
    else:
        items = [("No room can be made", preemption.message or "no plugin found any")]
    return Listing("Preemption", items)


def _victims(victims: list[str]) -> str:
    return f"evicting {', '.join(victims)}" if victims else "by pods that are leaving already"


def _waiting(waiting: WaitingView) -> Listing:
    items: list[tuple[str, str]] = []
    if waiting.gated_by:
        gates = f"; gates: {', '.join(waiting.gates)}" if waiting.gates else ""
        items.append((f"Held back by {waiting.gated_by}", f"{'; '.join(waiting.gate_reasons) or 'no reason'}{gates}"))
    place = f"{waiting.queue}, after {waiting.attempts} attempt(s)" if waiting.attempts else waiting.queue
    items.append(("Queue", place))
    if waiting.nominated_node:
        items.append(("Nominated node", waiting.nominated_node))
    items += [(f"Tried again for {wake.plugin} when", "; ".join(wake.events) or "never") for wake in waiting.woken_by]
    if waiting.backoff_ends:
        items.append(("Back-off ends", waiting.backoff_ends))
    if waiting.retried_by:
        items.append(("Tried again at the latest", f"about {waiting.retried_by}"))
    return Listing("Waiting", items)


def _duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
