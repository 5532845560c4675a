"""ClaimRelease: which claims are freed for a group that cannot be scheduled. For pods, see test_plugin.py."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.codec import fit
from mooring.api.pod import PodSchedulingGroup
from mooring.api.scheduling import NativePodGroup
from mooring.framework import CycleState
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.releases import V1_37, with_gates
from mooring.testing import PluginHarness, make_node, make_pod
from tests.plugins.device_world import allocated, claim
from tests.plugins.dynamic_resources.test_claim_binder import Server

NODES = [make_node("n0").obj(), make_node("n1").obj()]
CLAIMING = make_pod("p").resource_claim("gpu", "c").obj()
GROUP_USER = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}


@pytest.mark.parametrize(
    ("status", "is_active", "answer", "written"),
    [
        # Nobody uses the claim: it is deallocated for the pod.
        (allocated("gpu-0", pool="gone"), False, "deallocation and deletion of ResourceClaims completed", []),
        (
            {**allocated("gpu-0", pool="gone"), "reservedFor": [GROUP_USER]},
            False,
            "deallocation of PodGroup ResourceClaim completed",
            [],
        ),
        # A claim that all nodes can use is only given up.
        (
            {
                "allocation": {"devices": allocated("gpu-0")["allocation"]["devices"]},
                "reservedFor": [GROUP_USER],
            },
            False,
            "ResourceClaim unreserved for PodGroup",
            [],
        ),
        (
            {**allocated("gpu-0", pool="gone"), "reservedFor": [GROUP_USER]},
            True,
            "deallocation and deletion of ResourceClaims completed",
            ["g"],
        ),
        (
            {
                **allocated("gpu-0", pool="gone"),
                "reservedFor": [GROUP_USER, {"resource": "pods", "name": "x", "uid": "x"}],
            },
            False,
            "ResourceClaim unreserved for PodGroup",
            ["x"],
        ),
    ],
)
def test_claims_of_a_group_that_cannot_be_scheduled(
    status: Any, is_active: bool, answer: str, written: list[str]
) -> None:
    release, _ = with_gates(V1_37, {"GenericWorkload": True, "DRAWorkloadResourceClaims": True})
    shared = claim(status=status)
    body = {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}}
    entries = [{"name": "gpu", "resourceClaimName": "c"}]
    group = fit({**body, "spec": {"resourceClaims": entries}}, NativePodGroup)
    pod = msgspec.structs.replace(
        CLAIMING,
        spec=msgspec.structs.replace(CLAIMING.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")),
    )
    world = PluginHarness(DynamicResources, nodes=NODES, objects=[shared, group], release=release)
    server = world.plugin.handle.claims = Server(shared)
    state = CycleState()
    world.pre_filter(state, pod)
    world.filter(state, pod, world.nodes())
    found = world.plugin.post_filter_group(group, [(pod, state)], is_active=is_active)
    assert found.message == answer
    assert [user.name for user in server.stored.status.reserved_for] == written
    assert (server.stored.status.allocation is None) == ("deallocation" in answer and not is_active)
