"""kube-scheduler and Mooring on the same random clusters: same nodes, messages, nominations, victims and events.

`MOORING_DIFFERENTIAL=100:400` plays the scenarios of other seeds than the usual ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane import ControlPlane, free_port
from tests.e2e.differential.duel import Decisions, Duel, Outcome
from tests.e2e.differential.scenarios import generate
from tests.e2e.differential.side import Side
from tests.e2e.mooring_process import mooring_command

_FIRST, _, _LAST = os.environ.get("MOORING_DIFFERENTIAL", "0:30").partition(":")
#: The less a pod has to wait before it may be tried again, the less depends on when it was tried last.
BRIEF_BACKOFF = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
SEEDS = range(int(_FIRST), int(_LAST or int(_FIRST) + 1))


@pytest.fixture(scope="module")
def duel(built: None) -> Iterator[Duel]:
    """Two control planes, one for each scheduler."""
    with ControlPlane() as theirs, ControlPlane() as ours:
        theirs.start_kube_scheduler(BRIEF_BACKOFF)
        port, config = free_port(), ours.scheduler_config(BRIEF_BACKOFF, name="mooring")
        ours.run("mooring", mooring_command(ours, "--config", str(config), port=port), wait=False)
        decisions = Decisions(f"https://127.0.0.1:{port}", ours.users["admin"].token)
        yield Duel(Side("kube-scheduler", theirs), Side("mooring", ours), decisions)


def test_both_decide_alike(duel: Duel) -> None:
    outcomes: list[Outcome] = [duel.play(generate(seed)) for seed in SEEDS]
    differences = [each for outcome in outcomes for each in outcome.differences]
    totals = {
        name: sum(getattr(outcome, name) for outcome in outcomes)
        for name in ("pods", "bound", "pending", "victims", "events")
    }
    ties = [outcome.tie for outcome in outcomes if outcome.tie]
    print(f"{len(outcomes)} clusters, {totals}, {len(ties)} ended by a tie")
    assert not differences, "\n".join(differences)
    assert totals["pods"] >= 10 * len(outcomes), "too many ties: the comparison says little"
