"""VolumeIndex: free and claimed volumes; Reach and NodeGroups: the nodes that can access a volume."""

from __future__ import annotations

import pytest

from mooring.api.storage import PersistentVolume
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_binding.volume_index import NodeGroups, VolumeIndex, reach_of, storage_of
from mooring.testing import PluginHarness, make_node, make_pv, make_pvc

GI = 2**30 * 10**9


def volume(name: str, size: str = "1Gi", storage_class: str = "s") -> PersistentVolume:
    return make_pv(name, storage_class=storage_class, size=size).obj()


def index_of(*volumes: PersistentVolume) -> VolumeIndex:
    index = VolumeIndex()
    for each in volumes:
        index.set(each.name, each)
    return index


def free(index: VolumeIndex, at_least: int = 0) -> list[str]:
    return [entry.name for entry in index.free("s", at_least)]


def test_free_volumes_are_sorted_by_size_then_name() -> None:
    index = index_of(volume("c", "2Gi"), volume("b"), volume("a"), volume("other", storage_class="t"))
    assert free(index) == ["a", "b", "c"]
    assert free(index, GI + 1) == ["c"]
    assert free(index, 3 * GI) == []


def test_volumes_that_are_claimed_released_or_deleted_are_not_free() -> None:
    claim = make_pvc("data").obj()
    claimed = make_pv("claimed", storage_class="s").claimed(claim).obj()
    released = make_pv("released", storage_class="s").phase("Released").obj()
    deleted = make_pv("deleted", storage_class="s").terminating().obj()
    index = index_of(claimed, released, deleted)
    assert free(index) == []
    assert [entry.name for entry in index.claimed("s", "default", "data")] == ["claimed"]
    assert list(index.claimed("s", "other", "data")) == []


def test_a_changed_volume_replaces_the_old_version() -> None:
    index = index_of(volume("a"), volume("b", "2Gi"))
    index.set("a", volume("a", "3Gi"))
    assert free(index) == ["b", "a"]
    index.set("b", make_pv("b", storage_class="s").claimed(make_pvc("data").obj()).obj())
    assert free(index) == ["a"]
    index.set("b", None)
    assert list(index.claimed("s", "default", "data")) == []


@pytest.mark.parametrize(("amounts", "billionths"), [({}, 0), ({"storage": "1"}, 10**9), ({"storage": "1m"}, 10**6)])
def test_storage_amounts_are_exact(amounts: dict[str, str], billionths: int) -> None:
    assert storage_of(amounts) == billionths


def affinity(*terms: tuple[str, ...]) -> PersistentVolume:
    made = make_pv("v")
    for term in terms:
        made = made.node_affinity(term)
    return made.obj()


def test_equal_affinities_share_one_reach() -> None:
    first, second = (reach_of(affinity(("zone", "In", "a")).spec.node_affinity) for _ in range(2))
    assert first is second
    assert first is not None
    assert (first.key, first.values) == ("zone", frozenset({"a"}))
    assert (first.covers({"zone": "a"}), first.covers({"zone": "b"}), first.covers({})) == (True, False, False)
    assert reach_of(None) is None


@pytest.mark.parametrize("keys", [["zone"], ["disk", "zone"]])
def test_groups_cover_the_nodes_that_a_volume_can_reach(keys: list[str]) -> None:
    nodes = [
        make_node("n1").label(zone="a", disk="ssd").obj(),
        make_node("n2").label(zone="b", disk="ssd").obj(),
        make_node("n3").label(disk="hdd").obj(),
    ]
    groups = NodeGroups(PluginHarness(VolumeBinding, nodes=nodes).nodes(), keys)

    def reached(*expression: str) -> list[bool]:
        found = groups.within(reach_of(affinity(expression).spec.node_affinity))
        return [bool(each) for each in groups.spread(found)]

    assert reached("zone", "In", "a") == [True, False, False]
    assert reached("zone", "In", "a", "b") == [True, True, False]
    assert reached("zone", "NotIn", "a") == [False, True, True]
    assert reached("zone", "DoesNotExist") == [False, False, True]
    assert list(groups.spread(groups.within(None))) == [True] * 3
