"""Faults of every kind while pods and gangs are scheduled; `python -m tests.e2e.faults --count 2000` runs longer."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.faults.soak import soak


def test_nothing_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    plan = soak(cluster, tmp_path, count=120)
    assert len({kind for _, kind in plan.happened}) >= 8
