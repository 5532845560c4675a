"""Compatibility groups: which devices can be in use together."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import Device
from mooring.plugins.dynamic_resources.allocator import Usage
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.compatibility_groups import CompatibilityGroups
from mooring.plugins.dynamic_resources.pools import DeviceContent, DeviceContents
from mooring.releases import V1_37, with_gates
from tests.plugins.device_world import DRIVER, claim, exactly, gpu_slice, names, pools, search

RELEASE, _ = with_gates(V1_37, {"DRADeviceCompatibilityGroups": True})
CONTENTS = DeviceContents(allocator_features(V1_37))


def consumes(*groups: str, counter_set: str = "s") -> dict[str, Any]:
    return {"counterSet": counter_set, "counters": {"m": {"value": "1"}}, "compatibilityGroups": list(groups)}


def content(*groups: str, **fields: Any) -> DeviceContent:
    return CONTENTS.of(DRIVER, fit({"consumesCounters": [consumes(*groups, **fields)]}, Device))


@pytest.mark.parametrize(
    ("allocated", "added", "fits"),
    [
        ([], ["a"], True),
        ([[]], [], True),
        ([[]], ["a"], False),
        ([["a"]], [], False),
        ([["a", "b"]], ["b", "c"], True),
        ([["a", "b"], ["b", "c"]], ["a"], False),
        ([["a", "b"], ["b", "c"]], ["b"], True),
        ([["a"], ["b"]], ["a"], False),
        ([["a"], ["b"]], [], False),
        ([["a"], []], ["a"], True),
    ],
)
def test_devices_need_a_group_in_common(allocated: list[list[str]], added: list[str], fits: bool) -> None:
    groups = CompatibilityGroups([content(*each) for each in allocated])
    undo = groups.add(content(*added))
    assert (undo is not None) is fits


def test_undo_restores_what_was_in_common() -> None:
    groups = CompatibilityGroups([content("a", "b")])
    undo = groups.add(content("a"))
    assert undo is not None
    assert groups.add(content("b")) is None
    undo()
    assert groups.add(content("b")) is not None


def test_other_counter_sets_are_independent() -> None:
    groups = CompatibilityGroups([content("a")])
    assert groups.add(content("b", counter_set="t")) is not None


def test_the_search_obeys_the_gate() -> None:
    shared = {"pool": {"resourceSliceCount": 2}}
    sets = [{"name": "s", "counters": {"m": {"value": "9"}}}]
    counters = gpu_slice(name="c", devices=[], sharedCounters=sets, **shared)
    devices = gpu_slice(
        devices=[
            {"name": name, "consumesCounters": [consumes(*groups)]}
            for name, groups in (("d0", "a"), ("d1", "b"), ("d2", "ab"), ("d3", "a"))
        ],
        **shared,
    )
    found = pools(counters, devices, release=RELEASE)
    assert names(found, search(found, claim(exactly(2)), release=RELEASE)) == [["d0", "d2"]]
    used = Usage({(DRIVER, "n0", "d1"): 1}, {}, {})
    assert names(found, search(found, claim(), usage=used, release=RELEASE)) == [["d2"]]
    off = pools(counters, devices, release=V1_37)
    assert [pool.is_incomplete for pool in off] == [True]
