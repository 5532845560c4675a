"""What actions that evict share."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.batch.eviction import curable_nodes, suffices
from mooring.batch.fit_errors import Everywhere, FitErrors
from mooring.framework.status import Status
from tests.batch.cases import conf, gang, jobs_of, node, running, session_of, tasks_of


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
