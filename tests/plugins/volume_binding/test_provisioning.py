"""Dynamic provisioning: allowed topologies and reported capacities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.meta import KubeObject
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_binding.provisioning import FINE, NO_SPACE, NO_VOLUME, Provisioner, volume_limit
from mooring.testing import (
    PluginHarness,
    make_csi_capacity,
    make_csi_driver,
    make_node,
    make_pvc,
    make_storage_class,
    selector,
)

ZONE = "topology.kubernetes.io/zone"
CLAIM = make_pvc("data", storage_class="s", size="2Gi").obj()
DRIVER = make_csi_driver("d.csi", storage_capacity=True).obj()
CLASS = make_storage_class("s", provisioner="d.csi").obj()


def harness_of(*objects: KubeObject) -> PluginHarness:
    return PluginHarness(VolumeBinding, nodes=[make_node(zone).zone(zone).obj() for zone in "ab"], objects=objects)


def codes(harness: PluginHarness, provisioner: Provisioner | None = None, needed: Any = None) -> list[int]:
    found = np.zeros(2, dtype=np.int8)
    (provisioner or Provisioner(harness.handle)).check(CLAIM, needed, found, harness.nodes())
    return [int(code) for code in found]


@pytest.mark.parametrize(
    ("capacity", "maximum", "limit"), [("2Gi", "1Gi", 2**30), ("2Gi", None, 2**31), (None, None, None)]
)
def test_the_largest_volume_that_can_be_provisioned(capacity: Any, maximum: Any, limit: int | None) -> None:
    assert volume_limit(make_csi_capacity("c", storage_class="s", capacity=capacity, maximum=maximum).obj()) == limit


@pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
def test_a_class_without_a_provisioner_makes_no_volumes(provisioner: str) -> None:
    assert codes(harness_of(make_storage_class("s", provisioner=provisioner).obj())) == [NO_VOLUME] * 2
    assert codes(harness_of()) == [NO_VOLUME] * 2, "the class does not exist"


def test_allowed_topologies() -> None:
    limited = make_storage_class("s", provisioner="d.csi", topologies=({ZONE: ("b",)},)).obj()
    assert codes(harness_of(limited)) == [NO_VOLUME, FINE]
    assert codes(harness_of(CLASS)) == [FINE, FINE]


def test_only_nodes_that_need_a_volume_are_checked() -> None:
    assert codes(harness_of(), needed=np.array([False, True])) == [FINE, NO_VOLUME]


@pytest.mark.parametrize(
    ("topology", "capacity", "expected"),
    [
        (selector({ZONE: "a"}), "2Gi", [FINE, NO_SPACE]),
        (selector({ZONE: "a"}), "1Gi", [NO_SPACE, NO_SPACE]),
        (selector(), "2Gi", [FINE, FINE]),
        (selector({}, (ZONE, "NotIn", "a")), "2Gi", [NO_SPACE, FINE]),
        (None, "2Gi", [NO_SPACE, NO_SPACE]),
    ],
)
def test_capacity_must_suffice_where_the_driver_reports_it(topology: Any, capacity: str, expected: list[int]) -> None:
    reported = make_csi_capacity("c", storage_class="s", capacity=capacity, topology=topology).obj()
    assert codes(harness_of(CLASS, DRIVER, reported)) == expected
    assert codes(harness_of(CLASS, make_csi_driver("d.csi", storage_capacity=False).obj())) == [FINE, FINE]


def test_capacities_are_updated() -> None:
    harness = harness_of(CLASS, DRIVER)
    provisioner = Provisioner(harness.handle)
    assert codes(harness, provisioner) == [NO_SPACE, NO_SPACE]
    reported = make_csi_capacity("c", storage_class="s", capacity="2Gi", topology=selector({ZONE: "a"})).obj()
    harness.add(reported)
    assert codes(harness, provisioner) == [FINE, NO_SPACE]
    harness.add(make_csi_capacity("c", storage_class="s", capacity="2Gi", topology=selector({ZONE: "b"})).obj())
    assert codes(harness, provisioner) == [NO_SPACE, FINE]
    harness.handle.objects.remove(reported)
    assert codes(harness, provisioner) == [NO_SPACE, NO_SPACE]
