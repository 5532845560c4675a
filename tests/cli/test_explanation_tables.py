"""Explanations as text."""

from __future__ import annotations

import pytest

from mooring.cli.explanation_tables import format_amount, gang_parts, pod_parts
from mooring.cli.output import plain
from mooring.controllers.gang_explanation import GangExplanation, Room
from mooring.observe.explanation import (
    CandidateView,
    DecisionView,
    Explanation,
    PreemptionView,
    VerdictView,
    WaitingView,
    WakeView,
)


def text(explained: Explanation) -> str:
    return "\n".join(plain(part) for part in pod_parts(explained))


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("bound", "Pod a/b is on node n."),
        ("binding", "Pod a/b is being bound to node n. There was no scheduling attempt yet."),
        ("gated", "Pod a/b is gated; it is not scheduled until its scheduling gates are removed."),
        ("gone", "Pod a/b was deleted. There was no scheduling attempt yet."),
        ("pending", "Pod a/b is pending. There was no scheduling attempt yet."),
    ],
)
def test_the_first_line_is_the_state(state: str, line: str) -> None:
    assert text(Explanation(pod="a/b", state=state, node="n")) == line


def test_a_placed_pod_shows_the_scores_of_the_best_nodes() -> None:
    decision = DecisionView(
        pod="a/b", time="now", profile="p", outcome="bound", attempt=2, node="n1", evaluated_nodes=9, feasible_nodes=5,
        candidates=[CandidateView(node="n1", total=30, scores={"X": 10, "Y": 20})], seconds={"filter": 0.0000021},
    )  # fmt: skip
    shown = text(Explanation(pod="a/b", state="bound", node="n1", decision=decision))
    assert "Attempt 2 by p at now." in shown
    assert "Chosen: n1; 9 node(s) evaluated, 5 feasible." in shown
    assert "NODE  TOTAL   X   Y\nn1       30  10  20\n... and 4 more feasible node(s)" in shown
    assert "Time: filter 2 us" in shown


def test_a_pending_pod_shows_verdicts_preemption_and_the_next_attempt() -> None:
    verdict = VerdictView(plugin="Fit", code="UnschedulableAndUnresolvable", reasons=["no"], nodes=3, examples=["n1"])
    decision = DecisionView(
        pod="a/b", time="now", profile="p", outcome="unschedulable", message="0/3 nodes", verdicts=[verdict],
        preemption=PreemptionView(nominated_node="n2", victims=["a/c"]),
    )  # fmt: skip
    waiting = WaitingView(queue="unschedulable", attempts=1, woken_by=[WakeView(plugin="Fit", events=["Node added"])])
    shown = text(Explanation(pod="a/b", state="pending", decision=decision, waiting=waiting))
    assert "Fit         3  no (evicting pods would not help)  n1 (+2)" in shown
    assert "Preempting pods on n2\n  evicting a/c" in shown
    assert "Retried for Fit on\n  Node added" in shown


def test_a_gang_shows_its_gate_and_the_missing_resources() -> None:
    room = Room("cpu", needed=4000, allocated=1000, capability=4000, cluster=9000)
    why = GangExplanation("quota", "the queue is full", members={"Pending": 2}, min_member=2, room=(room,))
    shown = "\n".join(plain(part) for part in gang_parts(why))
    assert "It is waiting at the quota gate: the queue is full" in shown
    assert "Pods: 2 Pending; at least 2 must start together." in shown
    assert "Insufficient cpu" in shown
    assert gang_parts(None) == ["It is not waiting."]


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    [("cpu", 1500, "1500m"), ("memory", 2 << 30, "2Gi"), ("gpu", 3, "3"), ("x", None, "-")],
)
def test_amounts_are_quantities(resource: str, amount: int | None, shown: str) -> None:
    assert format_amount(resource, amount) == shown
