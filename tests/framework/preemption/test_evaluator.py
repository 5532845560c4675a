"""The evaluator: pods that may not preempt, and pods that plugins protect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.config import default_config, load_config
from mooring.framework import Plugin
from mooring.loading import plugin_spec
from mooring.loading.circuit_breaker import Guards
from mooring.loading.plugin_options import PluginOptions
from mooring.observe.plugin_metrics import PluginHealth
from mooring.scheduler.attempt_results import FailedAttempt
from mooring.scheduler.cache import Cache
from mooring.scheduler.engine import Engine
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_node, make_pod


def test_a_pod_that_may_not_preempt():
    cache = Cache()
    cache.put(make_node("a").capacity(cpu="1", pods="10").obj())
    cache.put(make_pod("low").req(cpu="1").node("a").obj())
    cycle = Profiles(default_config(), cache).first
    pod = make_pod("polite").req(cpu="1").priority(9).preemption_policy("Never").obj()
    decision = schedule_pod(cycle, pod)
    assert decision.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Protect}]}}
"""


class World:
    """Two full nodes, each with a pod of low priority, and a plugin with a rule."""

    def __init__(self, rule: Callable[[Any, Any], Any], policy: Any = "Fail", *, filters: bool = False) -> None:
        members: dict[str, Any] = {"may_evict": lambda _self, pod, victim: rule(pod, victim)}
        if filters:  # without what_if, so that nodes are simulated one by one
            members["filter"] = lambda _self, _state, _pod, _node: None
        plugin = type("Protect", (Plugin,), members)
        config = load_config(CONFIG, source="test", plugins={"Protect": plugin_spec(plugin)})
        self.now = 1000.0
        self.logged: list[dict[str, Any]] = []
        self.engine = Engine(
            config,
            plugins={"Protect": plugin},
            clock=lambda: self.now,
            options={"Protect": PluginOptions(failure_threshold=2, failure_policy=policy)},
            warn=lambda event, **details: self.logged.append({"event": event, **details}),
        )
        for name in "ab":
            self.engine.put(make_node(name).capacity(cpu="1", pods="10").obj())
            self.engine.put(make_pod(f"low-{name}").uid(f"low-{name}").req(cpu="1").node(name).obj())
        self.engine.put(make_pod("urgent").req(cpu="1").priority(9).obj())

    def attempt(self) -> tuple[str, ...]:
        self.engine.queue.activate(["default/urgent"])
        result = self.engine.schedule_one()
        assert isinstance(result, FailedAttempt)
        self.engine.preempting.clear()
        return result.victims

    @property
    def health(self) -> PluginHealth:
        guards: Guards = self.engine.guards
        return guards.health


@pytest.mark.parametrize("filters", [False, True], ids=["together", "one by one"])
@pytest.mark.parametrize(
    ("protected", "victims"), [((), 1), (("low-a",), ("low-b",)), (("low-b",), ("low-a",)), (("low-a", "low-b"), ())]
)
def test_plugins_protect_pods_from_preemption(protected: tuple[str, ...], victims: Any, *, filters: bool) -> None:
    asked = []

    def rule(pod: Any, victim: Any) -> bool:
        asked.append((pod.name, victim.name))
        return victim.name not in protected

    found = World(rule, filters=filters).attempt()
    assert found == victims if isinstance(victims, tuple) else len(found) == victims
    assert set(asked) == {("urgent", "low-a"), ("urgent", "low-b")}


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (lambda _pod, _victim: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda _pod, _victim: "no", "BadAnswerError: may_evict returned str; return True or False"),
        (lambda _pod, _victim: None, "BadAnswerError: may_evict returned NoneType; return True or False"),
    ],
)
def test_a_failure_is_a_refusal_and_is_reported(rule: Any, error: str) -> None:
    world = World(rule)
    assert [world.attempt() for _ in range(3)] == [(), (), ()]
    assert world.health.failures["Protect", "may_evict"] == 4, "two victims, two attempts until the breaker opens"
    assert world.health.open == {"Protect"}
    assert error in next(each["error"] for each in world.logged if each["event"] == "plugin failed")


def test_a_plugin_whose_failures_are_ignored_protects_nothing_once_it_is_switched_off() -> None:
    world = World(lambda _pod, _victim: 1 / 0, "Ignore")
    assert [len(world.attempt()) for _ in range(3)] == [0, 0, 1]


def test_without_such_a_plugin_nothing_is_asked() -> None:
    cycle = Profiles(default_config(), Cache()).first
    assert not cycle.restricts_evictions
    assert cycle.may_evict(make_pod("a").obj(), make_pod("b").obj())
