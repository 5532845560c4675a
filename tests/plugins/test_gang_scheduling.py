"""GangScheduling: whether enough pods of a group are scheduled."""

from __future__ import annotations

import pytest

from mooring.api.scheduling import GangSchedulingPolicy, NativePodGroup, NativePodGroupSpec, PodGroupSchedulingPolicy
from mooring.framework import Code, PlacementProgress
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.scheduler.answers import feasible_answer
from mooring.testing import PluginHarness


@pytest.mark.parametrize(
    ("minimum", "scheduled", "remaining", "code", "message"),
    [
        (3, 3, 0, Code.SUCCESS, ""),
        (3, 1, 2, Code.WAIT, "minCount (3) is not yet satisfied: 1 scheduled, 2 remaining"),
        (3, 1, 1, Code.UNSCHEDULABLE, "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"),
        (None, 1, 5, Code.SUCCESS, ""),
        (None, 0, 1, Code.WAIT, "minCount (1) is not yet satisfied: 0 scheduled, 1 remaining"),
        (None, 0, 0, Code.UNSCHEDULABLE, "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining"),
    ],
)
def test_placement_feasible(minimum: int | None, scheduled: int, remaining: int, code: Code, message: str) -> None:
    gang = None if minimum is None else GangSchedulingPolicy(min_count=minimum)
    group = NativePodGroup(spec=NativePodGroupSpec(scheduling_policy=PodGroupSchedulingPolicy(gang=gang)))
    plugin = PluginHarness(GangScheduling).plugin
    status = feasible_answer(plugin.placement_feasible(group, PlacementProgress(scheduled, remaining)))
    assert (status.code, status.message) == (code, message)
