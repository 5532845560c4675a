"""Candidates: which node is chosen."""

from __future__ import annotations

import pytest

from mooring.config import default_config
from mooring.scheduler.cache import Cache
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_node, make_pod


@pytest.mark.parametrize(
    ("victims", "winner"),
    [
        ({"a": [(5, "10:00")], "b": [(3, "10:00")]}, "b"),  # lowest top priority
        ({"a": [(3, "10:00"), (2, "10:00")], "b": [(3, "10:00")]}, "b"),  # smallest sum
        ({"a": [(3, "10:00")], "b": [(3, "11:00")]}, "b"),  # latest start
        ({"a": [(-5, "10:00"), (-9, "10:00")], "b": [(-5, "10:00")]}, "b"),  # negative priorities count as pods
    ],
)
def test_which_node_is_chosen(victims, winner):
    cache = Cache()
    for name, pods in victims.items():
        cache.put(make_node(name).capacity(cpu="1", memory="4Gi", pods="10").obj())
        for number, (priority, clock) in enumerate(pods):
            pod = make_pod(f"{name}{number}").req(cpu="500m").priority(priority).node(name)
            cache.put(pod.started(f"2026-01-01T{clock}:00Z").obj())
    cycle = Profiles(default_config(), cache).first
    decision = schedule_pod(cycle, make_pod("vip").req(cpu="1").priority(100).obj())
    assert decision.result.nominated_node == winner
