"""Explanations as text."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cli.explanation_tables import gang_parts, optional_amount, pod_parts
from mooring.cli.output import plain
from mooring.controllers.gang_explanation import GangExplanation, Room
from mooring.observe.explanation import (
    CandidateView,
    DecisionView,
    Explanation,
    HoldView,
    PreemptedView,
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
        ("held", "Pod a/b is held at Permit, with node n reserved for it. There was no scheduling attempt yet."),
        ("gone", "Pod a/b was deleted. There was no scheduling attempt yet."),
        ("pending", "Pod a/b is pending. There was no scheduling attempt yet."),
    ],
)
def test_the_first_line_is_the_state(state: str, line: str) -> None:
    assert text(Explanation(pod="a/b", state=state, node="n")) == line


def decided(outcome: str, **fields: Any) -> DecisionView:
    return DecisionView(pod="a/b", time="now", profile="p", outcome=outcome, **fields)


def test_a_gated_pod_names_its_plugin_and_the_message() -> None:
    waiting = WaitingView(queue="gated", gated_by="Approval", gate_reasons=["not approved yet"])
    shown = text(Explanation(pod="a/b", state="gated", waiting=waiting))
    assert shown.startswith("Pod a/b is gated: the PreEnqueue plugin Approval holds it.\n")
    assert "Gated by Approval\n  not approved yet" in shown


def test_a_deleted_pod_that_was_gated() -> None:
    verdict = VerdictView(plugin="Approval", reasons=["not approved yet"])
    decision = decided("gated", message="not approved yet", verdicts=[verdict])
    assert text(Explanation(pod="a/b", state="gone", decision=decision)) == (
        "Pod a/b was deleted while it was gated: the PreEnqueue plugin Approval held it: not approved yet"
    )


@pytest.mark.parametrize(
    ("hold", "line"),
    [
        (HoldView(plugin="Gang", timeout_seconds=90, until="T2"), "until T2, then it is rejected (timeout 1m30s)"),
        (
            HoldView(plugin="Gang", timeout_seconds=7, until="T2", allowed_at="T1"),
            "until T1, then the plugin allows it (timeout 7s)",
        ),
    ],
)
def test_a_pod_at_permit_names_the_plugins_and_the_times(hold: HoldView, line: str) -> None:
    decision = decided("placed", attempt=1, node="n", evaluated_nodes=1, feasible_nodes=1, permit=[hold])
    shown = text(Explanation(pod="a/b", state="held", node="n", decision=decision, held_by=[hold]))
    assert shown.startswith("Pod a/b is held at Permit, with node n reserved for it. Attempt 1 by p at now.")
    assert f"PERMIT\nHeld by Gang\n  {line}" in shown
    assert "At Permit it waited" not in shown


@pytest.mark.parametrize(("attempt", "line"), [(1, "it waited for Gang (timeout 7s)"), (0, "it would wait for Gang")])
def test_a_wait_at_permit_stays_in_the_record(attempt: int, line: str) -> None:
    hold = HoldView(plugin="Gang", timeout_seconds=7, until="T2")
    decision = decided("bound", attempt=attempt, node="n", evaluated_nodes=1, feasible_nodes=1, permit=[hold])
    assert f"At Permit {line}" in text(Explanation(pod="a/b", state="bound", node="n", decision=decision))


PREEMPTED = PreemptedView(by="a/vip", plugin="DefaultPreemption", node="n", time="T")


@pytest.mark.parametrize(
    ("state", "decision", "lines"),
    [
        (
            "gone",
            decided("preempted", node="n", preempted=PREEMPTED),
            ["Pod a/b was preempted by pod a/vip (DefaultPreemption) on node n at T."],
        ),
        (
            "bound",
            decided("preempted", node="n", preempted=PREEMPTED),
            ["Pod a/b is on node n.", "It was preempted by pod a/vip (DefaultPreemption) on node n at T."],
        ),
    ],
)
def test_a_preempted_pod_names_its_preemptor(state: str, decision: DecisionView, lines: list[str]) -> None:
    assert text(Explanation(pod="a/b", state=state, node="n", decision=decision)).splitlines() == lines


def test_a_preemptor_names_its_victims_after_it_was_placed() -> None:
    decision = decided(
        "bound", attempt=2, node="n", evaluated_nodes=1, feasible_nodes=1, was_nominated=True, victims=["a/c", "a/d"]
    )
    shown = text(Explanation(pod="a/b", state="bound", node="n", decision=decision))
    assert "PREEMPTION\nEvicted for this pod\n  a/c, a/d" in shown


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
    remark = "Insufficient cpu in addition to what the queue has allocated."
    why = GangExplanation(
        "quota", "the queue is full", members={"Pending": 2}, min_member=2, room=(room,), remark=remark
    )
    shown = "\n".join(plain(part) for part in gang_parts(why))
    assert "It is waiting at the quota gate: the queue is full" in shown
    assert "Pods: 2 Pending; at least 2 must start together." in shown
    assert remark in shown
    assert gang_parts(None) == ["It is not waiting."]


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    [("cpu", 1500, "1500m"), ("memory", 2 << 30, "2Gi"), ("gpu", 3, "3"), ("x", None, "-")],
)
def test_amounts_are_quantities(resource: str, amount: int | None, shown: str) -> None:
    assert optional_amount(resource, amount) == shown
