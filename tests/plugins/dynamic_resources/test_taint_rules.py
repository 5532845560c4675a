"""DeviceTaintRules: which devices get the taint, and what changes when rules and slices do."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import DeviceTaintRule, ResourceSlice
from mooring.framework import Lister
from mooring.plugins.dynamic_resources.taint_rules import TaintedSlices
from mooring.releases import V1_36, V1_37, Release
from tests.plugins.device_world import DRIVER, gpu_slice


def rule(name: str = "r", effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    spec: dict[str, Any] = {"taint": {"key": name, "effect": effect}}
    if selector:
        spec["deviceSelector"] = {key: value for key, value in selector.items() if value}
    return fit({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


class World:
    def __init__(self, release: Release = V1_37) -> None:
        self.published: Lister[ResourceSlice] = Lister()
        self.rules: Lister[DeviceTaintRule] = Lister()
        self.published.put(gpu_slice("n0"))
        self.tainted = TaintedSlices(self.published, self.rules, release).slices
        self.changes: list[str] = []
        self.tainted.listen(lambda old, new: self.changes.append((new or old).name))  # type: ignore[union-attr]

    def keys(self) -> dict[str, list[str]]:
        """Device -> the keys of its taints."""
        return {
            f"{each.spec.pool.name}/{device.name}": [taint.key for taint in device.taints]
            for each in self.tainted.list()
            for device in each.spec.devices
            if device.taints
        }


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({}, []),  # no selector selects nothing
        ({"driver": "", "pool": "", "device": ""}, ["n0/gpu-0", "n0/gpu-1"]),  # an empty one selects everything
        ({"driver": DRIVER}, ["n0/gpu-0", "n0/gpu-1"]),
        ({"driver": "other"}, []),
        ({"pool": "n1"}, []),
        ({"driver": DRIVER, "pool": "n0", "device": "gpu-1"}, ["n0/gpu-1"]),
        ({"device": "gpu-7"}, []),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector: dict[str, str], tainted: list[str]) -> None:
    world = World()
    world.rules.put(rule("bad", **selector))
    assert world.keys() == {device: ["bad"] for device in tainted}
    assert world.changes == (["slice-n0"] if tainted else [])
    world.rules.remove("bad")
    assert world.keys() == {}


def test_a_rule_without_a_selector_taints_all_devices_in_1_36() -> None:
    world = World(V1_36)
    world.rules.put(rule("bad"))
    assert world.keys() == {"n0/gpu-0": ["bad"], "n0/gpu-1": ["bad"]}
    world.rules.put(rule("bad", driver="other"))
    assert world.keys() == {}
    assert world.changes == ["slice-n0", "slice-n0"]


def test_rules_and_slices_change() -> None:
    world = World()
    world.rules.put(rule("b", device="gpu-0"))
    world.rules.put(rule("a", pool="n0"))
    assert world.keys() == {"n0/gpu-0": ["a", "b"], "n0/gpu-1": ["a"]}
    world.rules.put(rule("a", pool="n1"))
    assert world.keys() == {"n0/gpu-0": ["b"]}
    own = [{"name": "gpu-0", "taints": [{"key": "own", "effect": "NoExecute"}]}]
    world.published.put(gpu_slice("n1", own))
    assert world.keys() == {"n0/gpu-0": ["b"], "n1/gpu-0": ["own", "a", "b"]}
    world.changes.clear()
    world.rules.put(rule("b", device="gpu-0"))  # nothing changes
    assert world.changes == []
    world.published.remove("slice-n0")
    assert world.keys() == {"n1/gpu-0": ["own", "a", "b"]}
