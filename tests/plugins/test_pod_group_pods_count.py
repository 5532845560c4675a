"""PodGroupPodsCount: placements that take more pods score higher."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.framework.placements import Placements, ProposedPlacements
from mooring.plugins.pod_group_pods_count import PodGroupPodsCount
from mooring.testing import make_pod
from tests.scheduler.test_pod_group_cycle import TOPOLOGY, World, group, racks


@pytest.mark.parametrize(
    ("scheduled", "placed", "scores"), [(0, [1, 2, 3], [33, 66, 100]), (3, [0, 2, 3], [50, 83, 100])]
)
def test_scores(scheduled: int, placed: list[int], scores: list[int]) -> None:
    world = World(release=TOPOLOGY)
    racks(world, "1", "1", "1")
    table = world.engine.cache.table
    plugin = world.engine.profiles.runners["default-scheduler"].profile.plugins["PodGroupPodsCount"]
    assert isinstance(plugin, PodGroupPodsCount)
    placements = Placements(table, ["a", "b", "c"], np.arange(3), np.arange(3))
    running = [make_pod(f"p{index}").node("r0-0").obj() for index in range(scheduled)]
    pods = {table.template(make_pod("x").obj()): np.array(placed)}
    found = plugin.score_placements(ProposedPlacements(group(1), running, placements, pods))
    assert found.tolist() == scores
