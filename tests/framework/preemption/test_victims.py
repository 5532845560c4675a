"""Victims: the order of importance, and groups that are disrupted as a whole."""

from __future__ import annotations

from mooring.framework.preemption.victims import PodVictims
from mooring.testing import make_pod
from tests.scheduler.test_pod_group_cycle import World, group, grouped
from tests.scheduler.test_pod_group_preemption import WHOLE


def test_victims_and_their_order() -> None:
    world = World("9", "9")
    world.add(group(None, "whole", priority=3, disruption_mode=WHOLE), group(None, "each", priority=3))
    for name, of, node in (("w0", "whole", "n0"), ("w1", "whole", "n1"), ("e0", "each", "n0")):
        world.add(grouped(make_pod(name).node(node).priority(3), of))
    world.add(make_pod("single").node("n0").priority(3).obj(), make_pod("high").node("n0").priority(4).obj())
    victims = PodVictims(world.engine.profiles.runners["default-scheduler"].handle)
    found = sorted(victims.of(world.engine.cache.table.nodes[0].pods), key=lambda victim: victim.importance)
    assert [[info.name for info in victim.pods] for victim in found] == [["high"], ["w0", "w1"], ["e0"], ["single"]]
    assert victims.rows_with_groups() == [0, 1]
