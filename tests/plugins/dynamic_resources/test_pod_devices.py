"""PodDevices: which claims of a pod are to be allocated."""

from __future__ import annotations

from mooring.plugins.dynamic_resources.extended_resources import special_claim
from mooring.plugins.dynamic_resources.pod_devices import PodDevices
from mooring.testing import make_pod
from tests.plugins.device_world import allocated, claim


def test_allocated_claims_are_not_allocated_again() -> None:
    found = PodDevices([claim(name="a", status=allocated("gpu-0")), claim(name="b")], None)
    assert (found.to_allocate, found.special, found.has_user_claims) == ([1], None, True)


def test_the_claim_for_extended_resources_is_the_last() -> None:
    special = special_claim(make_pod("p").obj(), "uid")
    found = PodDevices([claim()], special)
    assert (found.special, found.to_allocate, found.left_over) == (1, [0, 1], False)
    assert not PodDevices([], special).has_user_claims
