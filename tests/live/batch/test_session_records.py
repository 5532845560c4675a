"""Records of sessions: what was said of nodes is grouped."""

from __future__ import annotations

import numpy as np

from mooring.batch.fit_errors import Everywhere, FitErrors
from mooring.framework import Status
from mooring.live.batch.session_records import fit_verdicts
from mooring.observe.decision_records import Verdict


def test_what_was_said_of_nodes_is_grouped() -> None:
    small = Everywhere(np.array([True, True, True, True, False]), (Status.unschedulable("Insufficient cpu"),))
    closed = Everywhere(np.array([False, False, False, False, True]), (Status.unresolvable("node is closed"),))
    assert fit_verdicts(FitErrors([small, closed]), ["a", "b", "c", "d", "e"]) == (
        Verdict("", "Unschedulable", ("Insufficient cpu",), 4, ("a", "b", "c")),
        Verdict("", "UnschedulableAndUnresolvable", ("node is closed",), 1, ("e",)),
    )
