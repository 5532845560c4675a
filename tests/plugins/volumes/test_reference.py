"""The volume plugins on random, changing storage, compared with looking at every volume and pod."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.columns.node_info import WhatIfNode
from mooring.columns.nodes import WhatIfNodes
from mooring.framework import Code, CycleState, Nodes, Status
from mooring.framework.status import SKIP, SUCCESS
from mooring.plugins.node_volume_limits.plugin import NodeVolumeLimits
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.plugins.volume_zone import VolumeZone
from mooring.testing import check_what_if
from mooring.testing.harness import statuses
from tests.plugins.reference import node_volume_limits, volume_binding, volume_restrictions, volume_zone
from tests.plugins.volume_world import Dice, VolumeWorld, replace


class Trial:
    """A cluster around the four plugins; every answer must be the references'."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.world = VolumeWorld(VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
        self.plain = self.world.plain
        self.restrictions, self.limits, self.binding, self.zone = self.world.plugins
        self.reserved: list[tuple[CycleState, Pod, str]] = []
        for item in dice.everything():
            self.world.put(item)

    def change(self) -> None:
        for _ in range(self.dice.some(1, 2, 3)):
            if self.dice.chance(20):
                self.world.remove(self.dice.choice(self.world.everything()))
            else:
                self.world.put(self.dice.anything())

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
            twice = [replace(other, metadata=replace(other.metadata, uid="twin")) for other in gone]
            imagined = self.imagine(self.restrictions, state, pod, name, with_pods=twice)
            assert imagined == attempt.filter(there, added=twice)
        self.check_victims(self.restrictions, pod)

    def imagine(self, plugin, state, pod, node, **changes) -> Status:
        self.world.harness.plugin = plugin
        return self.world.harness.filter_what_if(state, pod, node, **changes)

    def ask_limits(self, pod):
        verdict, _, found = self.ask(self.limits, pod)
        assert verdict == node_volume_limits.pre_filter(pod)
        for name, status in found.items():
            assert status == node_volume_limits.filter(self.plain, pod, name, self.world.pods_on(name))
        if all(status.code.title != "Error" for status in found.values()):
            self.check_victims(self.limits, pod)

    def ask_zone(self, pod):
        verdict, _, found = self.ask(self.zone, pod)
        expected, labels = volume_zone.pre_filter(self.plain, pod)
        assert verdict == expected
        for name, status in found.items():
            assert status == volume_zone.filter(labels, self.plain.nodes[name])
        if verdict is not SKIP:
            self.check_victims(self.zone, pod)

    def ask_binding(self, pod):
        verdict, state, found = self.ask(self.binding, pod)
        attempt = volume_binding.Attempt(self.plain, pod)
        assert verdict == attempt.status
        expected = {name: attempt.filter(self.plain.nodes[name]) for name in found}
        assert found == {name: each.status for name, each in expected.items()}
        feasible = [name for name, status in found.items() if status.is_success]
        if feasible:
            name = self.dice.choice(feasible)
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


@given(seed=st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_columns_say_what_looking_at_everything_says(seed):
    trial = Trial(Dice(seed))
    for _ in range(8):
        trial.ask_restrictions(trial.dice.pod("new"))
        trial.ask_limits(trial.dice.pod("new"))
        trial.ask_zone(trial.dice.pod("new"))
        trial.ask_binding(trial.dice.pod("new"))
        if trial.dice.chance(40):
            trial.unreserve()
        trial.change()
