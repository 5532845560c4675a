"""usage: measured load."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.conf import read_conf
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import open_session
from mooring.batch.session import NodeUsage, Session
from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, gang, node, opened, tasks_of


def measured(arguments: str, **usage: tuple[float, float, float]) -> Session:
    """CPU, memory and age of the measurement of each node."""
    cluster, _, _ = opened(conf(("gang",)), *(node(name) for name in usage), gang("g", 1))
    now = cluster.handle.clock()
    cluster.usage = {name: NodeUsage(cpu, memory, now - age) for name, (cpu, memory, age) in usage.items()}
    session = cluster.session(read_conf(conf(("usage",), usage=arguments), actions=ACTIONS, plugins=PLUGINS))
    open_session(session)
    return session


@pytest.mark.parametrize(
    ("arguments", "cpu", "memory", "reason"),
    [
        ("", 80, 80, ""),
        ("", 81, 0, "the CPU load of the node exceeds the upper limit."),
        ("", 0, 81, "the memory load of the node exceeds the upper limit."),
        ("", 81, 81, "the CPU load of the node exceeds the upper limit."),
        ("{thresholds: {cpu: 50}}", 51, 0, "the CPU load of the node exceeds the upper limit."),
        ("{thresholds: {mem: 95}}", 0, 94, ""),
        ("{thresholds: {cpu: high}}", 1, 0, "the CPU load of the node exceeds the upper limit."),
    ],
)
def test_thresholds(arguments: str, cpu: float, memory: float, reason: str) -> None:
    session = measured(arguments, a=(cpu, memory, 0))
    (predicate,) = session.all("predicate")
    verdicts = predicate.function(tasks_of(session)["g-task-0"], SessionNodes(session))
    (code,) = verdicts.codes.tolist()
    assert (verdicts.status(code).message if code else "") == reason


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", [325.0, 0.0]),
        ("{usage.weight: 1}", [65.0, 0.0]),
        ("{usage.weight: 1, cpu.weight: 3}", [57.5, 0.0]),
    ],
)
def test_scores(arguments: str, expected: list[float]) -> None:
    """Half of the CPU and a fifth of the memory are in use; an old measurement is ignored."""
    session = measured(arguments, a=(50, 20, 300), b=(99, 99, 301))
    scores = session.total_scores(tasks_of(session)["g-task-0"], SessionNodes(session))
    assert scores is not None
    assert np.allclose(scores, expected)


def test_without_measurements_there_are_no_callbacks() -> None:
    session = measured("", a=(99, 99, 301))
    assert session.all("predicate") == []
    assert session.all("node_order") == []
