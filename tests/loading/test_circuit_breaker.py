"""Failing plugins of users: attempts fail with their name, breakers open and close, other plugins are not affected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring.framework import PermitWait, Plugin, Status, Verdicts, depends_on
from mooring.loading import configuration
from mooring.loading.plugin_options import PluginOptions
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """An engine with one user plugin and two nodes."""

    def __init__(self, plugin: type[Plugin], **options: Any) -> None:
        self.clock = Clock()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.engine = Engine(
            configuration(None, plugins={plugin.name: plugin}, source=""),
            plugins={plugin.name: plugin},
            clock=self.clock,
            options={plugin.name: PluginOptions(**options)},
            warn=lambda event, **details: self.told.append((event, details)),
        )
        for name in ("a", "b"):
            self.engine.put(make_node(name).capacity(cpu="4", memory="8Gi", pods=110).obj())
        self.guard = self.engine.guards.of(plugin.name)
        self._pods = 0

    def attempt(self) -> AssumedPod | FailedAttempt:
        self._pods += 1
        self.engine.put(make_pod(f"p{self._pods}").obj())
        outcome = self.engine.schedule_one()
        assert isinstance(outcome, AssumedPod | FailedAttempt)
        return outcome

    def message(self) -> str:
        outcome = self.attempt()
        assert isinstance(outcome, FailedAttempt)
        assert outcome.reason == "SchedulerError"
        return outcome.failure.message


def plugin(**methods: Callable[..., Any]) -> type[Plugin]:
    return type("Mine", (Plugin,), methods)


def raising(*_: Any) -> Any:
    raise KeyError("zone")


BROKEN = [
    ("pre_filter", lambda self, state, pod, nodes: raising(), "KeyError: 'zone'"),
    ("filter", lambda self, state, pod, node: raising(), "KeyError: 'zone'"),
    ("filter_nodes", lambda self, state, pod, nodes: raising(), "KeyError: 'zone'"),
    ("pre_score", None, "KeyError: 'zone'"),
    ("score", lambda self, state, pod, node: raising(), "KeyError: 'zone'"),
    ("score_nodes", lambda self, state, pod, nodes: raising(), "KeyError: 'zone'"),
    ("reserve", lambda self, state, pod, node_name: raising(), "KeyError: 'zone'"),
    ("permit", lambda self, state, pod, node_name: raising(), "KeyError: 'zone'"),
    ("pre_filter", lambda self, state, pod, nodes: 7, "returned int"),
    ("pre_filter", lambda self, state, pod, nodes: Status.error("my disk is full"), "my disk is full"),
    ("reserve", lambda self, state, pod, node_name: 7, "returned int"),
    ("permit", lambda self, state, pod, node_name: 7, "returned int"),
    ("permit", lambda self, state, pod, node_name: PermitWait("soon"), "asked to wait 'soon'"),  # type: ignore[arg-type]
    ("permit", lambda self, state, pod, node_name: (Status.wait("x"), float("nan")), "asked to wait nan"),
    ("permit", lambda self, state, pod, node_name: PermitWait(5, "later"), "asked to wait 'later'"),  # type: ignore[arg-type]
    ("filter", lambda self, state, pod, node: 7, "returned int"),
    ("filter", lambda self, state, pod, node: Status.error("my disk is full"), "my disk is full"),
    ("filter_nodes", lambda self, state, pod, nodes: Verdicts.of([None]), "returned Verdicts of 1"),
    ("filter_nodes", lambda self, state, pod, nodes: [True, False], "returned list of 2"),
    ("score", lambda self, state, pod, node: float("nan"), "nan"),
    ("score", lambda self, state, pod, node: "9", "returned str"),
    ("score", lambda self, state, pod, node: 101, "invalid score 101"),
    ("score", lambda self, state, pod, node: -1, "invalid score -1"),
    ("score_nodes", lambda self, state, pod, nodes: np.full(len(nodes), np.nan), "no numbers"),
    ("score_nodes", lambda self, state, pod, nodes: np.zeros(7), "return 2 numbers"),
    ("score_nodes", lambda self, state, pod, nodes: np.full(len(nodes), 500), "invalid score 500"),
    ("score_nodes", lambda self, state, pod, nodes: [1, 2], "returned list; return 2 numbers in an array"),
    ("normalize_scores", lambda self, state, pod, scores: scores * 1000, "invalid score 1000"),
    ("normalize_scores", lambda self, state, pod, scores: None, "normalize_scores returned NoneType"),
]


@pytest.mark.parametrize(("method", "call", "cause"), BROKEN)
def test_what_is_broken_fails_the_attempt_under_the_plugins_name(method: str, call: Any, cause: str) -> None:
    methods = {method: call}
    if method == "normalize_scores":
        methods["score"] = lambda self, state, pod, node: 1
    if method == "pre_score":
        methods = {
            "pre_score": lambda self, state, pod, nodes: raising(),
            "score": lambda self, state, pod, node: 1,
        }
    world = World(plugin(**methods))
    message = world.message()
    assert "Mine" in message
    assert cause in message
    assert world.guard.failures == 1, "and it is counted"
    (told,) = world.told
    assert told[0] == "plugin failed"
    assert (told[1]["plugin"], told[1]["method"]) == ("Mine", method)
    here = "tests/loading/test_circuit_breaker.py:"
    assert told[1]["error"].startswith(here), "where it failed, or where the method is"
    assert world.guard.last_failure == told[1]["error"]
    assert 'test_circuit_breaker.py", line ' in told[1]["traceback"]
    assert told[1]["traceback"] == world.guard.last_traceback
    assert "src/mooring" not in told[1]["traceback"]
    if "KeyError" in cause or "returned" in cause:
        assert f": {here}" in message


def test_a_post_filter_that_answers_nonsense_is_blamed() -> None:
    mine = plugin(filter=lambda self, state, pod, node: "never", post_filter=lambda self, state, pod, statuses: 7)
    world = World(mine)
    outcome = world.attempt()
    assert isinstance(outcome, FailedAttempt)
    assert "post_filter must return a Status" in outcome.failure.message
    assert world.guard.failures == 1


def bound_to(answer: Any) -> Callable[..., Any]:
    async def answered(self: Any, state: Any, pod: Any, node_name: str) -> Any:
        return answer

    return answered


@pytest.mark.parametrize(
    ("method", "call", "cause"),
    [
        ("pre_bind", lambda self, state, pod, node_name: 7, "returned int"),
        ("pre_bind", bound_to(7), "returned int"),
        ("pre_bind", bound_to(Status.error("my disk is full")), "my disk is full"),
        ("bind", bound_to(7), "returned int"),
        ("pre_bind_pre_flight", lambda self, state, pod, node_name: 7, "returned int"),
        ("pre_bind_pre_flight", lambda self, state, pod, node_name: raising(), "KeyError: 'zone'"),
    ],
)
async def test_what_is_broken_in_the_binding_cycle_is_blamed_too(method: str, call: Any, cause: str) -> None:
    others = {"pre_bind": bound_to(None)} if method == "pre_bind_pre_flight" else {}
    world = World(plugin(**others, **{method: call}))
    decided = world.attempt()
    assert isinstance(decided, AssumedPod)
    # A Bind plugin after the built-in one would never be called.
    profile = decided.runner.profile
    profile.bind = tuple(bound for bound in profile.bind if bound.name == "Mine")
    failed = await world.engine.bind(decided)
    assert isinstance(failed, FailedAttempt)
    assert cause in failed.failure.message
    assert world.engine.guards.health.failures["Mine", method] == 1
    assert [(event, details["method"]) for event, details in world.told] == [("plugin failed", method)]


@pytest.mark.parametrize("budgets", [{}, {"preBind": 0.001}])
async def test_what_waits_is_slow_only_by_a_budget_of_its_own(budgets: dict[str, float]) -> None:
    async def waiting(self: Any, state: Any, pod: Any, node_name: str) -> None:
        await asyncio.sleep(0.003)

    world = World(plugin(pre_bind=waiting), budget=0.001, budgets=budgets)
    decided = world.attempt()
    assert isinstance(decided, AssumedPod)
    await world.engine.bind(decided)
    assert world.engine.guards.health.over_budget["Mine", "pre_bind"] == len(budgets)
    assert world.guard.calls == 1


def test_the_same_failure_is_told_once_a_minute() -> None:
    world = World(plugin(filter=lambda self, state, pod, node: raising()), failure_threshold=1000)
    for _ in range(10):
        world.message()
    assert len(world.told) == 1
    world.clock.now += 61
    world.message()
    assert [details.get("times_since") for _, details in world.told] == [None, 9]
    assert world.engine.guards.health.failures["Mine", "filter"] == 11


class Fickle(Plugin):
    """Fails while its flag is set. Its answer may be cached."""

    broken = True
    calls = 0

    @depends_on("node")
    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        type(self).calls += 1
        if self.broken:
            raise ValueError("no connection")
        return "not here" if node.name == "a" else None


@pytest.fixture
def fickle() -> type[Fickle]:
    return type("Mine", (Fickle,), {"broken": True, "calls": 0})


def test_the_breaker_opens_and_attempts_fail_at_once(fickle: type[Fickle]) -> None:
    world = World(fickle, failure_threshold=3, retry_after=30)
    for _ in range(3):
        assert "ValueError: no connection" in world.message()
    asked = fickle.calls
    message = world.message()
    assert "the plugin is switched off after 3 failures, the last: tests/loading/test_circuit_breaker.py:" in message
    assert message.endswith(" in filter: ValueError: no connection")
    assert fickle.calls == asked
    assert world.engine.guards.health.open == {"Mine"}
    assert world.guard.state.startswith("switched off (Fail): tests/loading/test_circuit_breaker.py:")
    world.clock.now += 31
    assert "ValueError" in world.message(), "it is tried once more"
    assert "switched off after 4" in world.message()
    fickle.broken = False
    world.clock.now += 31
    decided = world.attempt()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "b"
    assert world.guard.state == "running"
    assert not world.engine.guards.health.open
    assert world.told[-1][0] == "plugin works again"


def test_the_breaker_opens_and_the_plugin_is_ignored(fickle: type[Fickle]) -> None:
    world = World(fickle, failure_threshold=2, failure_policy="Ignore", retry_after=30)
    world.message()
    world.message()
    placed = {outcome.node_name for outcome in (world.attempt() for _ in range(8)) if isinstance(outcome, AssumedPod)}
    assert placed == {"a", "b"}
    fickle.broken = False
    world.clock.now += 31
    for _ in range(8):
        decided = world.attempt()
        assert isinstance(decided, AssumedPod)
        assert decided.node_name == "b", "what was answered while it was ignored is not kept"


def test_failures_must_be_in_a_row(fickle: type[Fickle]) -> None:
    world = World(fickle, failure_threshold=2)
    for _ in range(5):
        fickle.broken = True
        world.engine.guards.stale = True
        world.message()
        fickle.broken = False
        world.engine.guards.stale = True
        assert isinstance(world.attempt(), AssumedPod)
    assert not world.engine.guards.health.open


@pytest.mark.parametrize(
    "method",
    ["pre_filter", "filter", "filter_nodes", "score", "score_nodes", "reserve", "permit", "pre_score", "post_filter"],
)
def test_every_point_can_be_ignored(method: str) -> None:
    methods: dict[str, Any] = {method: lambda self, *args: raising()}
    if method == "pre_score":
        methods["score"] = lambda self, state, pod, node: 1
    if method == "post_filter":
        methods["filter"] = lambda self, state, pod, node: "never"
    world = World(plugin(**methods), failure_threshold=1, failure_policy="Ignore")
    assert isinstance(world.attempt(), FailedAttempt)
    assert isinstance(world.attempt(), AssumedPod), "as if the plugin were not there"


def test_a_slow_call_is_counted_and_told_of() -> None:
    slow = plugin(filter=lambda self, state, pod, node: time.sleep(0.003))
    world = World(slow, budget=10.0, budgets={"filter": 0.001})
    world.attempt()
    assert world.engine.guards.health.over_budget["Mine", "filter"] == 2
    (told,) = world.told
    assert (told[0], told[1]["budget"]) == ("plugin is over its budget", "1ms")


def test_hints_that_break_are_counted() -> None:
    from mooring.framework import ActionType, ClusterEvent

    def events(self: Any) -> list[ClusterEvent]:
        return [ClusterEvent("Node", ActionType.ADD, lambda pod, old, new: raising())]

    world = World(plugin(filter=lambda self, state, pod, node: "never", events_to_register=events))
    assert isinstance(world.attempt(), FailedAttempt)
    world.engine.put(make_node("c").obj())
    assert world.engine.guards.health.failures["Mine", "hint"] == 1


def test_a_signature_that_breaks_fails_the_attempt() -> None:
    class Mine(Plugin):
        def signature(self, template: Any) -> Any:
            return ["lists cannot be compared quickly"]

        @depends_on("node")
        def filter(self, state: Any, pod: Any, node: Any) -> None:
            return None

    assert 'asking plugin "Mine" for its signature: TypeError' in World(Mine).message()
