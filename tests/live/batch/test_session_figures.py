"""The figures that metrics show of a session's queues and jobs."""

from __future__ import annotations

import pytest

from mooring.batch.run import close_session, run_actions
from mooring.live.batch.session_figures import set_figures
from mooring.observe.session_metrics import SessionMetrics
from tests.batch.actions.test_preempt import TEXT as PREEMPTING
from tests.batch.actions.test_preempt import important
from tests.batch.cases import conf, gang, node, opened, queue, running


def figures(text: str) -> SessionMetrics:
    """The metrics after a session: queue q runs a pod of one core and waits for 20; preempting does not help."""
    objects = [
        node("a", "10"),
        queue("q", weight=3, deserved={"cpu": "4"}, capability={"cpu": "8"}),
        running("x", ["a"], queue="q"),
        gang("wide", 2, queue="q", cpu="10"),
    ]
    _, session, plugins = opened(text, *objects)
    run_actions(session)
    metrics = SessionMetrics()
    set_figures(metrics, session, plugins, close_session(session, [(each, None) for each in plugins]))
    return metrics


@pytest.mark.parametrize(("plugin", "deserved"), [("proportion", 8000.0), ("capacity", 4000.0)])
def test_queues(plugin: str, deserved: float) -> None:
    found = figures(conf(("gang",), (plugin,))).queues["q"]
    assert (found.allocated["cpu"], found.request["cpu"]) == (1000.0, 21000.0)
    assert (found.deserved["cpu"], found.weight) == (deserved, 3)
    # With proportion, one of three pods is the greater part.
    assert found.share == (1 / 3 if plugin == "proportion" else 0.25)
    assert found.overused is False
    assert found.capacity.get("cpu") == (8000.0 if plugin == "capacity" else None)
    assert found.real_capacity.get("cpu") == (8000.0 if plugin == "capacity" else None)


def test_without_a_plugin_for_queues_only_facts_of_the_queue_are_known() -> None:
    found = figures(conf(("gang",))).queues["q"]
    assert (found.allocated["cpu"], found.weight, found.share, found.overused) == (1000.0, 3, None, None)
    assert found.deserved == {}


def test_shares_of_jobs() -> None:
    assert figures(conf(("gang", "drf"))).job_shares == {("default", "x"): 0.1, ("default", "wide"): 0.0}


def test_preemption_is_counted() -> None:
    objects = [node("a", "4"), running("old", ["a"] * 4, 1), important("new", 1, cpu="2")]
    _, session, plugins = opened(PREEMPTING, *objects)
    run_actions(session)
    metrics = SessionMetrics()
    set_figures(metrics, session, plugins, close_session(session, [(each, None) for each in plugins]))
    assert (metrics.preemption_attempts, metrics.preemption_victims) == (1, 2)
