"""Feature gates: their defaults in a release, which values may be set, and the messages for values that may not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, Literal

GateDefault = Literal["on", "off", "locked on", "locked off"]
#: Gate -> its default. A locked gate cannot be changed.
GateTable = Mapping[str, GateDefault]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Gates that a profile obeys in both states. Built-in plugins read them with ``handle.release.enabled``.
SUPPORTED: Final = _names(
    """
    DRAConsumableCapacity DRADerivedAttributes DRADeviceBindingConditions DRADeviceCompatibilityGroups
    DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAFractionalCapacityRange DRAListTypeAttributes
    DRANodeAllocatableResources DRAOptionalNodeOperations DRAPartitionableDevices DRAPrioritizedList
    DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DRAWorkloadResourceClaims GenericWorkload
    MatchLabelKeysInPodTopologySpread NodeDeclaredFeatures StorageCapacityScoring TaintTolerationComparisonOperators
    TopologyAwareWorkloadScheduling
    VolumeLimitScaling
    """
)
#: Supported gate -> the first emulated version in which Mooring supports it.
_SUPPORTED_SINCE: Final = {
    "DRANodeAllocatableResources": "1.37",
    "DRAWorkloadResourceClaims": "1.37",
    "GenericWorkload": "1.37",
    "TopologyAwareWorkloadScheduling": "1.37",
}
#: Other gates that change the decisions of kube-scheduler. Only their defaults are supported.
_DECISIVE: Final = _names(
    """
    CompositePodGroup CoordinatedLeaderElection GangScheduling
    InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingSchedulerPreemption
    NominatedNodeNameForExpectation PodGroupPreemptionPolicy PodLevelResources
    WorkloadAwarePreemption
    """
)
#: Gate -> the gates that it needs, as far as they are supported or decisive.
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "InPlacePodLevelResourcesVerticalScaling": ("NodeDeclaredFeatures",),
    "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAOptionalNodeOperations": ("NodeDeclaredFeatures",),
    "DRAPartitionableDevicesType": ("DRAPartitionableDevices", "DRAResourcePoolStatus"),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
}
#: Gates each of which selects the experimental allocator of devices since 1.37.
EXPERIMENTAL_ALLOCATOR: Final = (
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
)
_GROUPS: Final = frozenset({"AllAlpha", "AllBeta"})


class GateError(ValueError):
    """An invalid value of a feature gate; the message has the reason and the remedy."""


def gate_table(*, on: str, off: str, locked_on: str, locked_off: str) -> dict[str, GateDefault]:
    """Return the table of gates that are given as words."""
    return {
        **dict.fromkeys(on.split(), "on"),
        **dict.fromkeys(off.split(), "off"),
        **dict.fromkeys(locked_on.split(), "locked on"),
        **dict.fromkeys(locked_off.split(), "locked off"),
    }


def changed_table(
    before: GateTable, *, on: str = "", off: str = "", locked_on: str = "", locked_off: str = "", removed: str = ""
) -> dict[str, GateDefault]:
    """Return the table of the next release: gates that are new or have another default, and those that are gone."""
    gone = frozenset(removed.split())
    changes = gate_table(on=on, off=off, locked_on=locked_on, locked_off=locked_off)
    return {name: default for name, default in before.items() if name not in gone} | changes


def check_gates(
    wanted: Mapping[str, bool], table: GateTable, *, version: str, later: Iterable[str] = ()
) -> tuple[dict[str, bool], list[str]]:
    """Return the gates that change decisions, and notes about those without effect. Raises GateError.

    ``later`` are the gates of later releases.
    """
    changes: dict[str, bool] = {}
    notes: list[str] = []
    for name, value in wanted.items():
        word = "true" if value else "false"
        if name in _GROUPS:
            if value or name == "AllBeta":
                raise GateError(
                    f"{name}={word} sets gates that change how kube-scheduler decides; name the gates that you need"
                )
            continue
        default = table.get(name)
        if default is None:
            raise GateError(_unknown(name, word, table, version, frozenset(later)))
        is_on = default.endswith("on")
        if value == is_on:
            continue
        if default.startswith("locked"):
            locked = "true" if is_on else "false"
            raise GateError(f"cannot set feature gate {name} to {word}, feature is locked to {locked}; remove it")
        since = _SUPPORTED_SINCE.get(name)
        if since is not None and version < since:
            raise GateError(f"{name}={word} is supported from emulated version {since}; set --emulated-version={since}")
        if name in _DECISIVE:
            raise GateError(
                f"{name}={word} changes how kube-scheduler decides, and Mooring only supports its default. Remove it, "
                "or use kube-scheduler for pods that need it"
            )
        if name in SUPPORTED:
            changes[name] = value
        else:
            notes.append(f"{name}={word} has no effect on a scheduler")
    _check_needs(wanted, table)
    return changes, notes


def _check_needs(wanted: Mapping[str, bool], table: GateTable) -> None:
    for name, needed in _NEEDS.items():
        if not wanted.get(name, table.get(name, "off").endswith("on")):
            continue
        missing = [each for each in needed if not wanted.get(each, table.get(each, "off").endswith("on"))]
        if missing:
            names = " ".join(missing)
            raise GateError(
                f"{name} is enabled, but depends on features that are disabled: [{names}]; disable {name} too, or "
                "enable them"
            )


def _unknown(name: str, word: str, table: GateTable, version: str, later: frozenset[str]) -> str:
    if name in later:
        return (
            f"cannot set feature gate {name} to {word}, feature is PreAlpha at emulated version {version}; "
            "remove it, or emulate a later version"
        )
    close = difflib.get_close_matches(name, sorted(table), n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; kube-scheduler {version} has none of this name"
    return f"unrecognized feature gate: {name}{hint}"
