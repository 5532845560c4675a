"""What actions that evict share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.conf import read_conf
from mooring.batch.evaluate import _objects, offline_cluster
from mooring.batch.eviction import curable_nodes, suffices
from mooring.batch.fit_errors import Everywhere, FitErrors
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import close_session, open_session, run_actions
from mooring.framework.status import Status
from tests.batch.cases import conf, gang, jobs_of, node, queue, running, session_of, tasks_of


@pytest.mark.parametrize(
    ("cpu", "victims", "enough"), [("1", 0, True), ("2", 0, False), ("2", 1, True), ("4", 2, False)]
)
def test_victims_suffice_if_the_task_fits_once_they_are_gone(cpu: str, victims: int, enough: bool) -> None:
    """Three cores, two of them in use."""
    session = session_of(conf(("gang",)), node("a", "3"), running("old", ["a", "a"]), gang("g", 1, cpu=cpu))
    tasks = tasks_of(session)
    chosen = [tasks[f"old-task-{number}"] for number in range(victims)]
    assert suffices(tasks["g-task-0"], session.nodes["a"], chosen) is enough


def test_nodes_that_no_eviction_helps_are_left_out() -> None:
    session = session_of(conf(("gang",)), node("a"), node("b"), gang("g", 1))
    task, job = tasks_of(session)["g-task-0"], jobs_of(session)["g"]
    assert curable_nodes(session, task) is None
    job.fit_errors[task.uid] = FitErrors([Everywhere(np.array([True, False]), (Status.unresolvable("never"),))])
    mask = curable_nodes(session, task)
    assert mask is not None
    assert mask.tolist() == [False, True]


CASES = {
    "preempt": conf(("priority", "gang", "mine"), ("predicates", "proportion"), actions="enqueue, allocate, preempt"),
    "topology-aware": conf(("priority", "gang", "mine"), ("predicates",), actions="enqueue, allocate, preempt")
    + "\nconfigurations:\n- {name: preempt, arguments: {enableTopologyAwarePreemption: true}}\n",
    "reclaim": conf(("gang", "mine"), ("predicates", "proportion"), actions="enqueue, allocate, reclaim"),
    "gangpreempt": conf(("priority", "gang", "mine"), ("predicates", "capacity"), actions="enqueue, gangpreempt"),
    "gangreclaim": conf(("priority", "gang", "capacity", "mine"), ("predicates",), actions="enqueue, gangreclaim"),
}


def evictions(case: str, rule: Any, *, of_engine: bool) -> tuple[list[str], list[str]]:
    """Return the tasks of a full node that a session evicts for a more important gang, and its warnings."""
    text = CASES[case] if not of_engine else CASES[case].replace("  - name: mine\n", "")
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    other = "p" if "reclaim" in case else "default"
    half = {"deserved": {"cpu": "2"}}
    objects = [queue("root"), queue("default", **half), queue("p", **half), node("a", "4"), high]
    objects += running("old", ["a"] * 4, queue=other) + gang("new", 1, priorityClassName="high")

    class Mine:
        def on_session_open(self, session: Any) -> None:
            session.add_may_evict(rule)

    plugins = {**PLUGINS, "mine": Mine}
    cluster = offline_cluster(list(_objects({"objects": objects})))
    session = cluster.session(read_conf(text, actions=ACTIONS, plugins=plugins))
    if of_engine:
        session.eviction_rules = [rule]
    opened = open_session(session, plugins)
    run_actions(session)
    close_session(session, opened)
    return sorted(task.name for task, _ in session.evictions), session.warnings


@pytest.mark.parametrize("of_engine", [False, True], ids=["session plugin", "plugin of a profile"])
@pytest.mark.parametrize("case", CASES)
def test_may_evict_limits_what_sessions_evict(case: str, *, of_engine: bool) -> None:
    asked = set()

    def may_evict(pod: Any, victim: Any) -> bool:
        asked.add((pod.name, victim.name))
        return bool(victim.name == "old-task-2")

    assert evictions(case, may_evict, of_engine=of_engine)[0] == ["old-task-2"]
    assert asked == {("new-task-0", f"old-task-{number}") for number in range(4)}
    assert evictions(case, lambda _pod, _victim: False, of_engine=of_engine)[0] == []


@pytest.mark.parametrize("case", CASES)
def test_a_failing_may_evict_is_a_refusal_and_is_reported(case: str) -> None:
    evicted, warnings = evictions(case, lambda _pod, _victim: 1 / 0, of_engine=False)
    assert evicted == []
    (warning,) = warnings
    assert warning.startswith('plugin "mine" failed in may_evict: tests/batch/test_eviction.py:')
    assert warning.endswith(": ZeroDivisionError: division by zero")
