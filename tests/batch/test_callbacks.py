"""How the answers of several plugins are combined."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.callbacks import ABSTAIN, PERMIT, REJECT, Callbacks, Invalid, first_error
from mooring.batch.conf import read_conf


class Named:
    """Stands for a task where only its identity matters."""

    held = ""

    def __init__(self, uid: str) -> None:
        self.uid = uid

    def __repr__(self) -> str:
        return self.uid


A, B, C = Named("a"), Named("b"), Named("c")


def callbacks(kind: str, *tiers: dict[str, Any], flags: str = "") -> Callbacks:
    """Callbacks of one kind by tier and plugin."""
    lines = ['actions: "enqueue"', "tiers:"]
    for tier in tiers:
        lines.append("- plugins:")
        lines += [f"  - {{name: {name}{flags if name == 'off' else ''}}}" for name in tier]
    found = Callbacks(read_conf("\n".join(lines), actions=ACTIONS, plugins=[n for tier in tiers for n in tier]))
    for tier in tiers:
        for name, answer in tier.items():
            found.opening = name
            found.register(kind, answer if callable(answer) else lambda *_, answer=answer: answer)
    return found


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([{"p": ([A, B], PERMIT), "q": ([B, C], PERMIT)}], [B]),
        ([{"p": ([A], PERMIT), "q": ([], ABSTAIN)}], [A]),
        ([{"p": ([A], PERMIT), "q": ([], PERMIT)}, {"r": ([C], PERMIT)}], [C]),
        ([{"p": ([A], PERMIT), "q": ([], REJECT)}, {"r": ([C], PERMIT)}], [C]),
        ([{"p": ([A], REJECT)}], [A]),
        ([{"p": ([A], PERMIT), "q": ([B], PERMIT), "r": ([C], PERMIT)}], [C]),
        ([{"p": ([A], PERMIT), "q": ([B], PERMIT)}, {"r": ([C], PERMIT)}], [C]),
        ([{"p": ([], ABSTAIN)}], []),
    ],
    ids=["both", "abstain", "empty", "rejected", "a vote is nothing", "anew", "none in common", "nobody"],
)
def test_victims_are_those_that_a_tier_agrees_on(tiers: list[dict[str, Any]], expected: list[Named]) -> None:
    assert callbacks("preemptable", *tiers).preemptable(A, [A, B, C]) == expected  # type: ignore[arg-type,comparison-overlap]


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], True),
        ([{"p": ABSTAIN}, {"q": ABSTAIN}], True),
        ([{"p": PERMIT, "q": REJECT}], False),
        ([{"p": PERMIT}, {"q": REJECT}], True),
        ([{"p": ABSTAIN}, {"q": REJECT}], False),
    ],
)
def test_a_vote_is_decided_by_the_first_tier_with_an_opinion(tiers: list[dict[str, Any]], expected: bool) -> None:
    assert callbacks("job_enqueueable", *tiers).job_enqueueable(A) is expected  # type: ignore[arg-type]
    assert callbacks("job_pipelined", *tiers).job_pipelined(A) is expected  # type: ignore[arg-type]


def test_starving_is_for_the_first_tier_to_say_and_all_of_it() -> None:
    assert not callbacks("job_starving").job_starving(A)  # type: ignore[arg-type]
    assert callbacks("job_starving", {"p": True}, {"q": False}).job_starving(A)  # type: ignore[arg-type]
    assert not callbacks("job_starving", {"p": True, "q": False}).job_starving(A)  # type: ignore[arg-type]


def test_tasks_that_should_go_are_those_that_any_of_a_tier_names() -> None:
    tiers = [{"p": [A], "q": [B, A]}, {"r": [C]}]
    assert callbacks("victim_tasks", *tiers).victim_tasks([]) == [A, B]  # type: ignore[comparison-overlap]
    assert callbacks("victim_tasks", {"p": []}, {"r": [C]}).victim_tasks([]) == [C]  # type: ignore[comparison-overlap]


def test_a_flag_takes_a_plugin_s_say_away_in_either_spelling() -> None:
    for flags in (", enabledOverused: false", ", enableOverused: false"):
        found = callbacks("overused", {"off": True}, flags=flags)
        assert not found.overused(A)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([{"p": 0}, {"q": -1}], -1),
        ([{"p": 0, "q": 1}, {"r": -1}], 1),
        ([{"p": 5}, {"q": -1}], 5),
        ([{"p": 0}], 0),
        ([], 0),
    ],
)
def test_the_first_order_that_is_not_zero_decides(tiers: list[dict[str, Any]], expected: int) -> None:
    assert callbacks("job_order", *tiers).compare_jobs(A, B) == expected  # type: ignore[arg-type]


class Aged(Named):
    """Stands for a job or a queue with an age."""

    def __init__(self, uid: str, created: float) -> None:
        super().__init__(uid)
        self.name, self.created = uid, created


@pytest.mark.parametrize("kind", ["job", "queue"])
@pytest.mark.parametrize(
    ("answer", "left", "right", "less"),
    [
        (0, Aged("b", 1), Aged("a", 2), True),
        (0, Aged("a", 2), Aged("b", 1), False),
        (0, Aged("a", 1), Aged("b", 1), True),
        (0, Aged("a", 1), Aged("a", 1), False),
        (-1, Aged("b", 2), Aged("a", 1), True),
        (1, Aged("a", 1), Aged("b", 2), False),
    ],
)
def test_without_an_order_the_older_comes_first(kind: str, answer: int, left: Any, right: Any, less: bool) -> None:
    found = callbacks(f"{kind}_order", {"p": answer})
    assert getattr(found, f"{kind}_less")(left, right) is less


@pytest.mark.parametrize(("answer", "less"), [(-1, True), (1, False), (0, False)])
def test_victims_come_from_the_last_queue_by_default(answer: int, less: bool) -> None:
    older, newer = Aged("a", 1), Aged("b", 2)
    found = callbacks("victim_queue_order", {"p": answer})
    assert found.victim_queue_less(older, newer, older) is less  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "arguments", "neutral"),
    [
        ("overused", (A,), False),
        ("preemptive", (A, []), True),
        ("allocatable", (A, B), True),
        ("job_ready", (A,), True),
    ],
)
def test_conjunctions_and_disjunctions(kind: str, arguments: tuple[Any, ...], neutral: bool) -> None:
    """The default holds without plugins; one plugin of any tier that says otherwise decides."""
    assert getattr(callbacks(kind), kind)(*arguments) is neutral
    assert getattr(callbacks(kind, {"p": neutral}, {"q": neutral}), kind)(*arguments) is neutral
    assert getattr(callbacks(kind, {"p": neutral}, {"q": not neutral}), kind)(*arguments) is not neutral


def test_the_first_problem_makes_a_job_invalid() -> None:
    first, second = Invalid("First", ""), Invalid("Second", "")
    assert callbacks("job_valid", {"p": None}, {"q": first, "r": second}).job_valid(A) == first  # type: ignore[arg-type]
    assert callbacks("job_valid", {"p": None}).job_valid(A) is None  # type: ignore[arg-type]


def test_all_plugins_are_notified_of_admission() -> None:
    seen: list[str] = []
    tiers = [{name: lambda job, name=name: seen.append(name)} for name in "pq"]
    callbacks("job_enqueued", *tiers).job_enqueued(A)  # type: ignore[arg-type]
    assert seen == ["p", "q"]


def test_the_first_error_stops() -> None:
    assert first_error([lambda: None, lambda: "", lambda: "bad", lambda: 1 / 0]) == "bad"
    assert first_error([]) == ""


def test_a_second_registration_replaces_the_first_and_unregister_removes_it() -> None:
    found = callbacks("overused", {"p": True, "q": False})
    found.opening = "p"
    found.register("overused", lambda queue: False)
    assert not found.overused(A)  # type: ignore[arg-type]
    assert [name for name, _ in found.named("overused")] == ["p", "q"]
    found.unregister("p")
    assert len(found.all("overused")) == 1
    assert len(found.by_tier("overused")) == 1
