"""The volume plugins on random, changing storage, compared with looking at every volume and pod."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from mooring.api.pod import Pod
from mooring.framework import Code, CycleState, Nodes, Status
from mooring.framework.node_info import WhatIfNode
from mooring.framework.nodes import WhatIfNodes
from mooring.framework.status import SKIP, SUCCESS
from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.plugins.volume_zone import VolumeZone
from mooring.testing import check_what_if
from mooring.testing.harness import statuses
from tests.plugins import volume_world as world
from tests.plugins.reference import node_volume_limits, volume_binding, volume_restrictions, volume_zone


def objects() -> st.SearchStrategy[object]:
    running = st.sampled_from(("p1", "p2", "p3", "p4")).flatmap(world.placed)
    kinds = (world.claims(), world.volumes(), world.classes(), world.csi_nodes(), running, running, world.nodes())
    return st.one_of(*kinds, world.capacities, world.drivers, world.attachments)


class VolumeMachine(RuleBasedStateMachine):
    """Events and questions in any order; every answer must be the references'."""

    def __init__(self) -> None:
        super().__init__()
        self.world = world.VolumeWorld(VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
        self.plain = self.world.plain
        self.restrictions, self.limits, self.binding, self.zone = self.world.plugins
        self.reserved: list[tuple[CycleState, Pod, str]] = []

    @rule(items=st.lists(objects(), min_size=1, max_size=8))
    def put(self, items):
        for item in items:
            self.world.put(item)

    @rule(which=st.integers(0, 1000))
    def remove(self, which):
        known = self.world.everything()
        if known:
            self.world.remove(known[which % len(known)])

    def ask(self, plugin, pod) -> tuple[Status, CycleState, dict[str, Status]]:
        """What a plugin says: of all nodes at once, which must be what it says of each alone."""
        state = CycleState()
        table = self.world.harness.table
        verdict = plugin.pre_filter(state, pod, Nodes(table)) or SUCCESS
        verdict = SKIP if verdict.code is Code.SKIP else verdict
        if not verdict.is_success:
            return verdict, state, {}
        nodes = Nodes(table)
        found = dict(zip(nodes.names, statuses(plugin.filter_nodes(state, pod, nodes), len(nodes)), strict=True))
        for row, name in enumerate(found):
            alone = plugin.filter_nodes(state, pod, Nodes(table, np.array([row])))
            assert statuses(alone, 1) == [found[name]]
            imagined = plugin.filter_nodes(state, pod, WhatIfNodes(WhatIfNode(table.nodes[row])))
            assert statuses(imagined, 1) == [found[name]]
        return verdict, state, found

    def check_victims(self, plugin, pod):
        victims = {name: [other.uid for other in self.world.pods_on(name)] for name in self.plain.nodes}
        harness = self.world.harness
        harness.plugin = plugin
        check_what_if(harness, pod, victims, trials=3)

    @rule(pod=world.pods("new"))
    def ask_restrictions(self, pod):
        verdict, state, found = self.ask(self.restrictions, pod)
        attempt = volume_restrictions.Attempt(self.plain, pod)
        assert verdict == attempt.status
        for name, status in found.items():
            there = self.plain.on(name)
            assert status == attempt.filter(there)
            gone = there[:1]
            uids = [other.uid for other in gone]
            imagined = self.imagine(self.restrictions, state, pod, name, without=uids)
            assert imagined == attempt.filter(there[1:], removed=gone)
            twice = [world.replace(other, metadata=world.NEW) for other in gone]
            imagined = self.imagine(self.restrictions, state, pod, name, with_pods=twice)
            assert imagined == attempt.filter(there, added=twice)
        self.check_victims(self.restrictions, pod)

    def imagine(self, plugin, state, pod, node, **changes) -> Status:
        self.world.harness.plugin = plugin
        return self.world.harness.filter_what_if(state, pod, node, **changes)

    @rule(pod=world.pods("new"))
    def ask_limits(self, pod):
        verdict, _, found = self.ask(self.limits, pod)
        assert verdict == node_volume_limits.pre_filter(pod)
        for name, status in found.items():
            assert status == node_volume_limits.filter(self.plain, pod, name, self.world.pods_on(name))
        if all(status.code.title != "Error" for status in found.values()):
            self.check_victims(self.limits, pod)

    @rule(pod=world.pods("new"))
    def ask_zone(self, pod):
        verdict, _, found = self.ask(self.zone, pod)
        expected, labels = volume_zone.pre_filter(self.plain, pod)
        assert verdict == expected
        for name, status in found.items():
            assert status == volume_zone.filter(labels, self.plain.nodes[name])
        if verdict is not SKIP:
            self.check_victims(self.zone, pod)

    @rule(pod=world.pods("new"), place=st.booleans(), which=st.integers(0, 3))
    def ask_binding(self, pod, place, which):
        verdict, state, found = self.ask(self.binding, pod)
        attempt = volume_binding.Attempt(self.plain, pod)
        assert verdict == attempt.status
        expected = {name: attempt.filter(self.plain.nodes[name]) for name in found}
        assert found == {name: each.status for name, each in expected.items()}
        feasible = [name for name, status in found.items() if status.is_success]
        if place and feasible:
            name = feasible[which % len(feasible)]
            self.reserve(state, pod, name, expected[name])

    def reserve(self, state, pod, name, expected):
        assert self.binding.reserve(state, pod, name) is None
        for volume, claim in expected.pairs:
            chosen = self.binding._volumes.get(volume.name)
            assert chosen.spec.claim_ref.uid == claim.uid
            if chosen is not volume:
                self.plain.assumed_volumes[volume.name] = chosen
        for claim in expected.to_make:
            chosen = self.binding._assumptions.claims.get(claim.name, claim.namespace)
            assert chosen.annotations[volume_binding.SELECTED] == name
            self.plain.assumed_claims[claim.namespace, claim.name] = chosen
        self.reserved.append((state, pod, name))

    @rule()
    def unreserve(self):
        if self.reserved:
            state, pod, name = self.reserved.pop()
            before = {**self.plain.assumed_volumes}, {**self.plain.assumed_claims}
            self.binding.unreserve(state, pod, name)
            for volume in before[0]:
                if self.binding._volumes.get(volume) is self.plain.volumes[volume]:
                    del self.plain.assumed_volumes[volume]
            for namespace, claim in before[1]:
                if self.binding._assumptions.claims.get(claim, namespace) is self.plain.claims[namespace, claim]:
                    del self.plain.assumed_claims[namespace, claim]


TestVolumes = VolumeMachine.TestCase
TestVolumes.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
