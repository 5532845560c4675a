"""The comparison with another scheduler: agreement, ties, races, and reasons of differences."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import Condition
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler.shadow import Judgement, Shadow, Verdict
from mooring.testing import make_node, make_pod

_replace = msgspec.structs.replace


class Other:
    """Another scheduler, and the shadow that watches it."""

    def __init__(self, *cpus: int) -> None:
        self.judged: list[Judgement] = []
        self.shadow = Shadow(default_config(), report=self.judged.append, clock=lambda: 0.0)
        for number, cpu in enumerate(cpus):
            self.shadow.start_with(None, make_node(f"n{number}").capacity({"cpu": cpu, "pods": 10}).obj())
        self._time = 0.0

    def create(self, name: str, cpu: int = 1, **spec: Any) -> Pod:
        pod = make_pod(name).uid(name).req({"cpu": cpu}).obj()
        pod = _replace(pod, spec=_replace(pod.spec, **spec))
        self._change(None, pod)
        return pod

    def bind(self, pod: Pod, node: str) -> Pod:
        bound = _replace(pod, spec=_replace(pod.spec, node_name=node))
        self._change(pod, bound)
        return bound

    def delete(self, pod: Pod) -> None:
        self._change(pod, None)

    def reject(self, pod: Pod) -> None:
        condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
        self._change(pod, _replace(pod, status=_replace(pod.status, conditions=(condition,))))

    def _change(self, old: Pod | None, new: Pod | None) -> None:
        self._time += 1
        self.shadow.changed(old, new, self._time)

    def verdicts(self) -> dict[str, Verdict]:
        self.shadow.judge(float("inf"))
        return {each.pod.partition("/")[2]: each.verdict for each in self.judged}


def test_a_choice_agrees_or_is_a_tie() -> None:
    other = Other(4, 8, 8)
    first = other.create("first")
    other.bind(first, "n1")
    second = other.create("second")
    other.bind(second, "n2")
    assert other.verdicts() == {"first": Verdict.TIE, "second": Verdict.AGREES}
    assert other.judged[0].best == 2


def test_a_difference_names_the_plugins_or_the_filter() -> None:
    other = Other(2, 64)
    other.bind(other.create("worse"), "n0")
    other.bind(other.create("impossible", cpu=3), "n0")
    assert other.verdicts() == {"worse": Verdict.DIFFERS, "impossible": Verdict.DIFFERS}
    worse, impossible = other.judged
    assert (worse.theirs, worse.ours) == ("n0", "n1")
    assert "n0 has " in worse.why
    assert "NodeResourcesFit" in worse.why
    assert impossible.why == "NodeResourcesFit rejects n0: Insufficient cpu"


def test_binds_that_arrive_in_another_order_than_they_were_decided_are_races() -> None:
    """The first pod takes the larger node, and only then the second one prefers the other node."""
    other = Other(8, 9)
    first, second = other.create("first", cpu=4), other.create("second", cpu=4)
    other.bind(second, "n0")
    other.bind(first, "n1")
    assert other.verdicts() == {"second": Verdict.RACE, "first": Verdict.AGREES}
    assert other.judged[0].why.startswith("it was decided in the order of the queue (n0 has ")
    assert other.shadow.counts[Verdict.DIFFERS] == 0


def test_a_pod_that_was_deleted_after_the_decision_is_a_race() -> None:
    other = Other(4, 5)
    big = other.bind(other.create("big", cpu=4), "n1")
    late = other.create("late", cpu=3)
    other.delete(big)
    other.bind(late, "n0")
    assert other.verdicts()["late"] is Verdict.RACE
    assert other.judged[-1].why.startswith("it was decided before Pod default/big was deleted")


def test_the_state_is_the_observed_one_after_a_search_for_races() -> None:
    other = Other(8, 9)
    other.bind(other.create("wrong", cpu=1), "n0")
    other.bind(other.create("a", cpu=4), "n1")
    other.bind(other.create("b", cpu=4), "n0")
    assert other.verdicts() == {"wrong": Verdict.DIFFERS, "a": Verdict.AGREES, "b": Verdict.AGREES}


def test_a_pod_that_was_bound_and_deleted_is_gone_after_a_search_for_races() -> None:
    other = Other(8, 9, 2)
    wrong = other.create("wrong", cpu=1)
    other.delete(other.bind(other.create("short", cpu=6), "n1"))
    other.bind(wrong, "n2")  # no state explains it
    other.bind(other.create("large", cpu=9), "n1")  # it fits only without the deleted pod
    assert other.verdicts() == {"short": Verdict.AGREES, "wrong": Verdict.DIFFERS, "large": Verdict.AGREES}


def test_pods_without_a_feasible_node_are_judged_too() -> None:
    other = Other(2)
    other.reject(other.create("huge", cpu=5))
    other.reject(other.create("small", cpu=1))
    assert other.verdicts() == {"huge": Verdict.AGREES, "small": Verdict.DIFFERS}
    assert other.judged[1].why == "n0 passes all filters"
    assert other.shadow.judged == 0


def test_pods_of_schedulers_without_a_profile_are_not_judged() -> None:
    other = Other(2)
    other.bind(other.create("theirs", scheduler_name="volcano"), "n0")
    assert other.verdicts() == {}
