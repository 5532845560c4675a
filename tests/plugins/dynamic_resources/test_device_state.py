"""DeviceState: one for all profiles, plans that follow the classes, and limits of searches."""

from __future__ import annotations

import pytest

from mooring.api.codec import fit
from mooring.api.devices import DeviceTaintRule
from mooring.columns.table import NodeTable
from mooring.framework.handle import Handle
from mooring.plugins.dynamic_resources.allocator import SearchLimitError
from mooring.plugins.dynamic_resources.device_state import (
    FOUND,
    NOTHING,
    TIMED_OUT,
    Budget,
    device_state,
    new_budget,
)
from mooring.releases import V1_36, V1_37, Release
from mooring.testing import make_node
from tests.plugins.device_world import DRIVER, claim, exactly, gpu_class, gpu_slice


def world() -> Handle:
    handle = Handle()
    handle.table.add_node(make_node("n0").obj())
    for each in (gpu_class(), gpu_slice("n0", 2)):
        handle.objects.put(each)
    return handle


def test_profiles_share_the_state() -> None:
    handle = world()
    assert device_state(handle) is device_state(handle.for_plugin("DynamicResources"))
    assert device_state(handle) is not device_state(world())


@pytest.mark.parametrize(("count", "steps", "kind"), [(2, 1000, FOUND), (3, 1000, NOTHING), (2, 1, TIMED_OUT)])
def test_outcomes(count: int, steps: int, kind: int) -> None:
    state = device_state(world())
    state.index.refresh()
    plan = state.plan([claim(exactly(count)).spec])
    assert state.search(plan, state.index.of_node("n0"), Budget(steps, 60.0)).kind == kind


def test_equal_claims_share_a_plan_until_a_class_changes() -> None:
    handle = world()
    state = device_state(handle)
    plan = state.plan([claim(name="a").spec])
    assert state.plan([claim(name="b").spec]) is plan
    assert state.plan([claim(exactly(2)).spec]) is not plan
    handle.objects.put(gpu_class("gpu", "false"))
    assert state.plan([claim().spec]) is not plan


def test_time_is_limited_too() -> None:
    budget = Budget(257, -1.0)  # the time is checked when 256 steps are left
    with pytest.raises(SearchLimitError):
        budget.spend()
    assert budget.out_of_time
    assert not new_budget(0).out_of_time


@pytest.mark.parametrize(("release", "kind"), [(V1_36, FOUND), (V1_37, NOTHING)], ids=["1.36", "1.37"])
def test_the_release_of_the_cache_counts_for_sessions_too(release: Release, kind: int) -> None:
    """Sessions run the plugins of another release, and share the devices with the profiles."""
    table = NodeTable(release)
    table.add_node(make_node("n0").obj())
    session = Handle(table=table, release=V1_36)
    spec = {"deviceSelector": {"driver": DRIVER}, "taint": {"key": "broken", "effect": "NoSchedule"}}
    rule = fit({"metadata": {"name": "r"}, "spec": spec}, DeviceTaintRule)
    for each in (gpu_class(), gpu_slice("n0", 2), rule):
        session.objects.put(each)
    state = device_state(session)
    state.index.refresh()
    plan = state.plan([claim().spec])
    assert state.search(plan, state.index.of_node("n0"), Budget(1000, 60.0)).kind == kind
