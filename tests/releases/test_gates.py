"""Feature gates: defaults, changes, and gates that are refused with upstream's messages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mooring.columns.table import NodeTable
from mooring.releases import V1_36, V1_37, GateError, Release, with_gates
from mooring.testing import make_pod


@pytest.mark.parametrize(
    ("release", "gate", "default"),
    [
        (V1_36, "StorageCapacityScoring", False),
        (V1_37, "StorageCapacityScoring", True),
        (V1_36, "VolumeLimitScaling", False),
        (V1_37, "VolumeLimitScaling", True),
        (V1_36, "DRADeviceTaintRules", False),
        (V1_37, "DRADeviceTaintRules", True),
        (V1_36, "DRAFractionalCapacityRange", False),
        (V1_37, "DRAFractionalCapacityRange", False),
        (V1_37, "GenericWorkload", False),
    ],
)
def test_defaults(release: Release, gate: str, default: bool) -> None:
    assert release.enabled(gate) is default


def test_a_gate_is_changed_in_both_directions() -> None:
    for release in (V1_36, V1_37):
        value = not release.enabled("VolumeLimitScaling")
        changed, notes = with_gates(release, {"VolumeLimitScaling": value})
        assert changed.enabled("VolumeLimitScaling") is value
        assert changed.version == release.version
        assert notes == []
        assert with_gates(changed, {"VolumeLimitScaling": not value}) == (release, [])


@pytest.mark.parametrize(
    ("release", "wanted", "message"),
    [
        (V1_36, {"NoSuchGate": True}, "unrecognized feature gate: NoSuchGate"),
        (V1_36, {"StorageCapacityScorin": True}, "unrecognized feature gate: StorageCapacityScorin; did you mean"),
        (V1_37, {"SidecarContainers": True}, "unrecognized feature gate: SidecarContainers"),
        (V1_37, {"SchedulerQueueingHints": True}, "unrecognized feature gate: SchedulerQueueingHints"),
        (V1_37, {"GangScheduling": False}, "unrecognized feature gate: GangScheduling"),
        (
            V1_36,
            {"SidecarContainers": False},
            "cannot set feature gate SidecarContainers to false, feature is locked to true",
        ),
        (
            V1_37,
            {"NodeDeclaredFeatures": False},
            "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true",
        ),
        (
            V1_36,
            {"DRAFractionalCapacityRange": True},
            "cannot set feature gate DRAFractionalCapacityRange to true, feature is PreAlpha at emulated version 1.36",
        ),
        (
            V1_36,
            {"DRADerivedAttributes": True},
            "cannot set feature gate DRADerivedAttributes to true, feature is PreAlpha at emulated version 1.36",
        ),
        (V1_36, {"GenericWorkload": True}, "GenericWorkload=true is supported from emulated version 1.37"),
        (V1_37, {"CompositePodGroup": True}, "CompositePodGroup=true changes how kube-sch"),
        (
            V1_37,
            {"TopologyAwareWorkloadScheduling": True},
            "TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            V1_36,
            {"DRAResourceClaimDeviceStatus": False},
            "DRADeviceBindingConditions is enabled, but depends on features that are disabled: [DRAResourceClaimDevi",
        ),
        (
            V1_36,
            {"DRADeviceTaintRules": True, "DRADeviceTaints": False},
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
        (
            V1_37,
            {"DRAFractionalCapacityRange": True, "DRAConsumableCapacity": False},
            "DRAFractionalCapacityRange is enabled, but depends on features that are disabled: [DRAConsumableCapaci",
        ),
        (
            V1_37,
            {"DRADeviceTaintRules": False},
            "cannot set feature gate DRADeviceTaintRules to false, feature is locked to true",
        ),
        (
            V1_37,
            {"DRAWorkloadResourceClaims": True},
            "DRAWorkloadResourceClaims is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            V1_37,
            {"MatchLabelKeysInPodTopologySpread": False},
            "MatchLabelKeysInPodTopologySpreadSelectorMerge is enabled, but depends on features that are disabled: [Ma",
        ),
        (
            V1_37,
            {"AllAlpha": True},
            "CompositePodGroup is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            V1_37,
            {"AllAlpha": True, "AllBeta": True, "InPlacePodVerticalScalingSchedulerPreemption": False},
            "AllAlpha=true sets gates of which Mooring only supports the default in 1.37: CompositePodGroup, PodGroupP",
        ),
        (
            V1_36,
            {"AllAlpha": True},
            "AllAlpha=true sets gates of which Mooring only supports the default in 1.36: DRANodeAllo",
        ),
        (
            V1_36,
            {"AllBeta": True},
            "AllBeta=true sets gates of which Mooring only supports the default in 1.36: CoordinatedLeaderElection. ",
        ),
        (
            V1_36,
            {"AllBeta": False, "InPlacePodLevelResourcesVerticalScaling": True},
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: [NodeD",
        ),
        (
            V1_37,
            {"PodLevelResources": False},
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: [PodLevel",
        ),
        (
            V1_36,
            {"NodeDeclaredFeatures": False},
            "ExtendWebSocketsToKubelet is enabled, but depends on features that are disabled: [NodeDeclaredFeatures]",
        ),
    ],
)
def test_refused(release: Release, wanted: dict[str, bool], message: str) -> None:
    with pytest.raises(GateError, match="^" + re.escape(message)):
        with_gates(release, wanted)


@pytest.mark.parametrize("gate", ["DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAOptionalNodeOperations"])
def test_alpha_gates_of_devices_select_the_experimental_allocator(gate: str) -> None:
    assert not V1_37.has_experimental_allocator
    release, notes = with_gates(V1_37, {gate: True})
    assert release.enabled(gate)
    assert release.has_experimental_allocator
    assert notes == []


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_gates_of_devices_that_are_on_can_be_off(release: Release) -> None:
    gates = ["DRAConsumableCapacity", "DRADeviceBindingConditions", "DRAPartitionableDevices"]
    if release is V1_36:
        gates += ["DRAResourceClaimDeviceStatus", "DRAResourceClaimGranularStatusAuthorization"]
    changed, _ = with_gates(release, dict.fromkeys(gates, False))
    assert not any(changed.enabled(gate) for gate in gates[:4])


def test_a_gate_without_effect_satisfies_a_need() -> None:
    wanted = {"DRAPartitionableDevicesType": True, "DRAResourcePoolStatus": True}
    assert len(with_gates(V1_37, wanted)[1]) == 2
    with pytest.raises(GateError, match=r"disabled: \[DRAResourcePoolStatus\]"):
        with_gates(V1_37, {"DRAPartitionableDevicesType": True})


def test_defaults_and_harmless_gates_are_accepted() -> None:
    wanted = {"GenericWorkload": False, "SchedulerAsyncAPICalls": True, "AllAlpha": False}
    release, notes = with_gates(V1_37, wanted)
    assert release == V1_37
    assert notes == ["SchedulerAsyncAPICalls=true has no effect on a scheduler"]


@pytest.mark.parametrize(
    ("release", "wanted", "on", "off"),
    [
        (V1_36, {"AllAlpha": False}, (), ("GenericWorkload",)),
        (V1_36, {"AllBeta": False}, (), ("PodLevelResources", "NodeDeclaredFeatures", "DRAConsumableCapacity")),
        (V1_37, {"AllBeta": False}, ("NodeDeclaredFeatures",), ("PodLevelResources", "VolumeLimitScaling")),
        # Locked gates, and those that are generally available, stay as they are.
        (V1_36, {"AllBeta": False}, ("DRAPrioritizedList", "DynamicResourceAllocation"), ()),
        # A gate that is set itself is not changed.
        (V1_37, {"AllBeta": False, "VolumeLimitScaling": True}, ("VolumeLimitScaling",), ("StorageCapacityScoring",)),
        (V1_37, {"VolumeLimitScaling": True, "AllBeta": False}, ("VolumeLimitScaling",), ("StorageCapacityScoring",)),
        (
            V1_37,
            {"AllBeta": True, "CoordinatedLeaderElection": False},
            ("GenericWorkload", "DRAWorkloadResourceClaims", "DRAFractionalCapacityRange"),
            ("DRAListTypeAttributes", "TopologyAwareWorkloadScheduling"),
        ),
    ],
)
def test_gates_of_a_stage(release: Release, wanted: dict[str, bool], on: Any, off: Any) -> None:
    changed, _ = with_gates(release, wanted)
    assert [gate for gate in on if not changed.enabled(gate)] == []
    assert [gate for gate in off if changed.enabled(gate)] == []


def test_all_alpha_features() -> None:
    kept = dict.fromkeys(
        ["CompositePodGroup", "CoordinatedLeaderElection", "InPlacePodVerticalScalingSchedulerPreemption"], False
    )
    wanted = {"AllAlpha": True, "AllBeta": True, "PodGroupPreemptionPolicy": False, **kept}
    changed, notes = with_gates(V1_37, wanted)
    supported = ("DRANodeAllocatableResources", "DRADerivedAttributes", "TopologyAwareWorkloadScheduling")
    assert all(map(changed.enabled, supported))
    assert any(
        re.fullmatch(r"AllAlpha=true sets \d\d gates that have no effect on a scheduler", each) for each in notes
    )
    assert with_gates(changed, {"AllAlpha": False}) == (V1_37, [])


def test_without_pod_level_resources() -> None:
    gates = ["PodLevelResources", "InPlacePodLevelResourcesVerticalScaling"]
    pod = make_pod("p").container(req={"cpu": "1"}).pod_req(cpu="3").node("n").obj()
    for release, more in (
        (V1_36, []),
        (V1_37, ["PodLevelResourcesFixDefaulting", "PodLevelResourcesFixKubeletQOSClass"]),
    ):
        changed, _ = with_gates(release, dict.fromkeys([*gates, *more], False))
        assert NodeTable(release).template(pod).requests == {"cpu": 3000}
        assert NodeTable(changed).template(pod).requests == {"cpu": 1000}
