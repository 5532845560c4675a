"""Matching of unbound claims with volumes."""

from __future__ import annotations

import pytest

from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_binding.matching import MatchError, candidates_of, is_bound_to, match_claims
from mooring.plugins.volume_binding.volume_index import VolumeIndex
from mooring.testing import PluginHarness, make_node, make_pv, make_pvc, selector
from mooring.testing.storage_builders import ClaimBuilder, VolumeBuilder


def volume(name: str, size: str = "1Gi") -> VolumeBuilder:
    return make_pv(name, storage_class="s", size=size)


def claim(name: str, size: str = "1Gi") -> ClaimBuilder:
    return make_pvc(name, storage_class="s", size=size)


def index_of(*volumes: PersistentVolume) -> VolumeIndex:
    index = VolumeIndex()
    for each in volumes:
        index.set(each.name, each)
    return index


def matched(claims: list[PersistentVolumeClaim], *volumes: PersistentVolume) -> dict[str, dict[str, str]]:
    """Return the volume of each claim on each node."""
    nodes = PluginHarness(VolumeBinding, nodes=[make_node(zone).zone(zone).obj() for zone in "ab"]).nodes()
    groups, matches = match_claims(claims, index_of(*volumes), nodes)
    found: dict[str, dict[str, str]] = {}
    for match in matches:
        chosen = found[match.claim.name] = {}
        for group, entry in match.volumes.items():
            chosen |= {name: entry.name for name, there in zip("ab", groups.spread([group]), strict=True) if there}
    return found


def test_a_claim_gets_the_smallest_sufficient_volume() -> None:
    volumes = [volume(name, size).obj() for name, size in (("small", "1Gi"), ("large", "3Gi"), ("medium", "2Gi"))]
    assert matched([claim("data", "1500Mi").obj()], *volumes) == {"data": {"a": "medium", "b": "medium"}}


def test_small_claims_choose_first_and_no_volume_is_used_twice() -> None:
    claims = [claim("big", "2Gi").obj(), claim("little").obj()]
    volumes = [volume("v1", "2Gi").obj(), volume("v2", "3Gi").obj()]
    assert matched(claims, *volumes) == {"little": {"a": "v1", "b": "v1"}, "big": {"a": "v2", "b": "v2"}}
    assert matched(claims, volumes[0])["big"] == {}


def test_volumes_are_matched_where_nodes_can_reach_them() -> None:
    zone = "topology.kubernetes.io/zone"
    volumes = [volume(f"in-{name}").node_affinity((zone, "In", name)).obj() for name in "ab"]
    assert matched([claim("data").obj()], *volumes) == {"data": {"a": "in-a", "b": "in-b"}}
    assert matched([claim("data").obj()], volumes[0]) == {"data": {"a": "in-a"}}


def test_a_volume_that_refers_to_the_claim_takes_precedence() -> None:
    data = claim("data").obj()
    reserved = volume("reserved", "5Gi").claimed(data).node_affinity(("topology.kubernetes.io/zone", "In", "a")).obj()
    assert matched([data], reserved, volume("free").obj()) == {"data": {"a": "reserved"}}


@pytest.mark.parametrize(
    ("wanted", "offered", "fits"),
    [
        (claim("c"), volume("v"), True),
        (claim("c", "2Gi"), volume("v"), False),
        (claim("c"), make_pv("v", storage_class="t"), False),
        (claim("c").spec(volume_mode="Block"), volume("v"), False),
        (claim("c").spec(access_modes=("ReadWriteMany",)), volume("v"), False),
        (claim("c").spec(volume_attributes_class_name="fast"), volume("v"), False),
        (claim("c").select({"tier": "gold"}), volume("v"), False),
        (claim("c").select({"tier": "gold"}), volume("v").label(tier="gold"), True),
    ],
)
def test_candidates(wanted: ClaimBuilder, offered: VolumeBuilder, fits: bool) -> None:
    found = candidates_of(wanted.obj(), index_of(offered.obj()))
    assert [entry.name for entry in found.free] == (["v"] if fits else [])


def test_an_invalid_selector_is_an_error() -> None:
    broken = claim("data").select(selector({}, ("tier", "Odd"))).obj()
    with pytest.raises(MatchError, match=r"^error creating internal label selector for claim: default/data: "):
        candidates_of(broken, VolumeIndex())


def test_a_volume_refers_to_a_claim_by_name_and_uid() -> None:
    data = make_pvc("data").uid("1").obj()
    assert is_bound_to(volume("v").claimed(data).obj(), data)
    assert not is_bound_to(volume("v").claimed(make_pvc("data").uid("2").obj()).obj(), data)
    assert not is_bound_to(volume("v").claimed(make_pvc("data", "other").uid("1").obj()).obj(), data)
    assert not is_bound_to(volume("v").obj(), data)
