"""Feature gates: defaults, changes, and gates that are refused with upstream's messages."""

from __future__ import annotations

import re

import pytest

from mooring.releases import V1_36, V1_37, GateError, Release, with_gates


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
        (V1_36, {"GenericWorkload": True}, "GenericWorkload=true is supported from emulated version 1.37"),
        (V1_37, {"TopologyAwareWorkloadScheduling": True}, "TopologyAwareWorkloadScheduling=true changes how kube-sch"),
        (V1_37, {"AllAlpha": True}, "AllAlpha=true sets gates that change"),
        (V1_37, {"AllBeta": False}, "AllBeta=false sets gates that change"),
        (
            V1_36,
            {"NodeDeclaredFeatures": False},
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: [Node",
        ),
    ],
)
def test_refused(release: Release, wanted: dict[str, bool], message: str) -> None:
    with pytest.raises(GateError, match="^" + re.escape(message)):
        with_gates(release, wanted)


def test_defaults_and_harmless_gates_are_accepted() -> None:
    wanted = {"GenericWorkload": False, "SchedulerAsyncAPICalls": True, "AllAlpha": False}
    release, notes = with_gates(V1_37, wanted)
    assert release == V1_37
    assert notes == ["SchedulerAsyncAPICalls=true has no effect on a scheduler"]
