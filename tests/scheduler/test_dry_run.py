"""The dry run of a plugin: it makes the calls of a real attempt, and reports what failed and what was not called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.framework import Code, PermitWait, Plugin, PreFilterResult, StateKey, Status, Verdicts, depends_on
from mooring.scheduler.dry_run import dry_run

WANTED: StateKey[str] = StateKey("test/wanted")


def messages(cls: type[Plugin]) -> list[str]:
    return [fault.message.removeprefix(f"{cls.name}: ") for fault in dry_run(cls).faults]


class Recorded(Plugin):
    """Does everything right, and notes the calls."""

    calls: list[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.calls = []

    def pre_enqueue(self, pod: Any) -> Any:
        self.calls.append("pre_enqueue")

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        self.calls.append("pre_filter")
        state.write(WANTED, "a")

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        self.calls.append("filter")
        assert state.read(WANTED) == "a"

    def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
        self.calls.append("post_filter")

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Any:
        self.calls.append("pre_score")

    def score(self, state: Any, pod: Any, node: Any) -> Any:
        self.calls.append("score")
        assert state.read(WANTED) == "a"
        return 1

    def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
        self.calls.append("normalize_scores")
        return scores

    def reserve(self, state: Any, pod: Any, node_name: str) -> Any:
        self.calls.append("reserve")

    def unreserve(self, state: Any, pod: Any, node_name: str) -> Any:
        self.calls.append("unreserve")

    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        self.calls.append("permit")

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Any:
        self.calls.append("pre_bind")


CYCLE = [
    "pre_enqueue",
    "pre_filter",
    "filter",
    "pre_score",
    "score",
    "normalize_scores",
    "reserve",
    "permit",
    "unreserve",
]
POINTS = ("preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind")


def test_all_points_up_to_permit_are_called_in_their_order() -> None:
    class Right(Recorded):
        """Nothing else."""

    result = dry_run(Right)
    assert result.faults == ()
    assert list(dict.fromkeys(Right.calls)) == CYCLE
    assert result.called == ("preEnqueue", "preFilter", "filter", "preScore", "score", "reserve", "permit")
    assert result.not_called == ("postFilter", "preBind")


#: The point that answers, its answer, and the methods that a real attempt calls then.
ANSWERS = [
    ("pre_enqueue", "not yet", ["pre_enqueue"]),
    ("pre_filter", "no zone", CYCLE[:2]),
    ("pre_filter", Status.unresolvable("no zone"), CYCLE[:2]),
    ("pre_filter", Status(Code.SKIP), [name for name in CYCLE if name != "filter"]),
    ("pre_filter", PreFilterResult.only([]), CYCLE[:2]),
    ("pre_filter", PreFilterResult.only(["node-1"]), [*CYCLE[:3], "reserve", "permit", "unreserve"]),
    ("filter", "no gpu", CYCLE[:3]),
    ("pre_score", Status(Code.SKIP), [name for name in CYCLE if name not in ("score", "normalize_scores")]),
    ("reserve", "taken", [*CYCLE[:7], "unreserve"]),
    ("permit", "no", CYCLE),
    ("permit", PermitWait(5), CYCLE),
]


@pytest.mark.parametrize(("method", "answer", "called"), ANSWERS)
def test_an_answer_has_the_effect_that_it_has_in_an_attempt(method: str, answer: Any, called: list[str]) -> None:
    def answering(self: Recorded, *args: Any) -> Any:
        self.calls.append(method)
        if method != "pre_filter":
            return answer
        # Only what is right if filter and score are not called without the state.
        if not isinstance(answer, Status | str):
            args[0].write(WANTED, "a")
        return answer

    members: dict[str, Any] = {method: answering}
    if isinstance(answer, Status) and answer.code is Code.SKIP and method == "pre_filter":

        def score(self: Recorded, state: Any, pod: Any, node: Any) -> int:
            self.calls.append("score")
            return 1

        members["score"] = score
    cls = type("Answers", (Recorded,), members)
    result = dry_run(cls)
    assert result.faults == ()
    assert list(dict.fromkeys(cls.calls)) == called
    assert {*result.called, *result.not_called} == {*POINTS}
    for point, name in (("filter", "filter"), ("score", "score"), ("permit", "permit")):
        assert (point in result.called) is (name in called)


def test_a_plugin_that_skips_pods_which_do_not_concern_it_is_right() -> None:
    class Zone(Plugin):
        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
            wanted = pod.labels.get("zone")
            if wanted is None:
                return Status(Code.SKIP)
            state.write(WANTED, wanted)
            return None

        @depends_on("node")
        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            wanted = state.read(WANTED)
            return Verdicts.of([None if wanted in node.labels.values() else "another zone" for node in nodes])

        @depends_on("node")
        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            return None if state.read(WANTED) in node.labels.values() else "another zone"

    result = dry_run(Zone)
    assert result.faults == ()
    assert result.called == ("preFilter",)
    assert result.not_called == ("filter",)


def test_a_gang_plugin_that_rejects_pods_without_a_group_is_right() -> None:
    class Gang(Plugin):
        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
            if "group" not in pod.labels:
                return "no group"
            state.write(WANTED, pod.labels["group"])
            return None

        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            return state.read(WANTED)

        def reserve(self, state: Any, pod: Any, node_name: str) -> Any:
            return state.read(WANTED)

    assert dry_run(Gang).faults == ()


def raising(*_: Any) -> Any:
    raise ValueError("my fault")


@pytest.mark.parametrize("method", CYCLE)
def test_a_fault_at_any_point_is_reported_once_and_ends_the_attempt(method: str) -> None:
    def broken(self: Recorded, *args: Any) -> Any:
        self.calls.append(method)
        raise ValueError("my fault")

    cls = type("Broken", (Recorded,), {method: broken})
    assert messages(cls) == [f"{method}: ValueError: my fault"]
    rolled_back = ["unreserve"] if method in ("reserve", "permit") else []
    assert list(dict.fromkeys(cls.calls)) == CYCLE[: CYCLE.index(method) + 1] + rolled_back


@pytest.mark.parametrize("method", ["events_to_register", "signature"])
def test_a_fault_of_a_method_without_guard_is_reported(method: str) -> None:
    class Broken(Plugin):
        @depends_on("node")
        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> None:
            return None

    setattr(Broken, method, raising)
    (message,) = messages(Broken)
    assert message.endswith("ValueError: my fault")


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("score", 1000, "score: invalid score 1000; return 0 to 100"),
        ("permit", 3, "permit: BadAnswerError: returned int; return None, a reason (str) or a Status"),
        ("reserve", Status.error("my disk is full"), "reserve: my disk is full"),
        ("less", 1, "less: BadAnswerError: less returned int; return True or False"),
    ],
)
def test_a_wrong_answer_is_reported(method: str, answer: Any, message: str) -> None:
    assert messages(type("Wrong", (Plugin,), {method: lambda *_: answer})) == [message]


def test_declared_results_are_computed_in_both_forms() -> None:
    """For the second pod of a template an attempt asks about the changed nodes one by one."""
    calls: list[str] = []

    class Both(Plugin):
        @depends_on("node", "pods")
        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> None:
            calls.append("filter_nodes")

        @depends_on("node", "pods")
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            calls.append("filter")

        @depends_on("node", "pods")
        def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            calls.append("score_nodes")
            return np.zeros(len(nodes), dtype=np.int64)

        @depends_on("node", "pods")
        def score(self, state: Any, pod: Any, node: Any) -> int:
            calls.append("score")
            return 0

    assert dry_run(Both).faults == ()
    assert {*calls} == {"filter_nodes", "filter", "score_nodes", "score"}


def test_a_plugin_without_its_arguments_is_not_called() -> None:
    class Needs(Plugin):
        class Args:
            pool: str

        filter = raising

    result = dry_run(Needs)
    assert result.faults == ()
    assert (result.called, result.not_called) == ((), ("filter",))
    assert "pool" in result.reason


def test_a_waiting_pod_is_not_left_behind() -> None:
    class Waits(Plugin):
        def permit(self, state: Any, pod: Any, node_name: str) -> Any:
            assert self.handle.waiting_pods.get(pod.uid) is None
            return Status.wait(), 10

    assert messages(Waits) == []


@pytest.mark.parametrize(
    "member",
    [
        {"score": lambda self, state, pod, node: 0.9 if node.name == "node-1" else 0.1},
        {"score_nodes": lambda self, state, pod, nodes: np.linspace(0.1, 0.9, len(nodes))},
    ],
)
def test_scores_between_0_and_1_produce_a_warning(member: dict[str, Any]) -> None:
    cls = type("Model", (Plugin,), member)
    result = dry_run(cls)
    assert result.faults == ()
    (warning,) = result.warnings
    assert "all scores are between 0 and 1" in warning.message
    assert "declare score_range = (0.0, 1.0)" in warning.message
    declared = type("Model", (Plugin,), {**member, "score_range": (0.0, 1.0)})
    assert dry_run(declared).warnings == ()
