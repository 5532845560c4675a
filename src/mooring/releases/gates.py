"""Feature gates: their defaults in a release, which values may be set, and the messages for values that may not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, Literal

GateDefault = Literal["on", "off", "locked on", "locked off"]
GateStage = Literal["alpha", "beta"]
#: Gate -> its default. A locked gate cannot be changed.
GateTable = Mapping[str, GateDefault]
#: Gate -> its stage. Gates that are generally available or deprecated are absent.
GateStages = Mapping[str, GateStage]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Gates that the scheduler obeys in both states. Built-in plugins read them with ``handle.release.enabled``.
SUPPORTED: Final = _names(
    """
    DRAConsumableCapacity DRADerivedAttributes DRADeviceBindingConditions DRADeviceCompatibilityGroups
    DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAFractionalCapacityRange DRAListTypeAttributes
    DRANodeAllocatableResources DRAOptionalNodeOperations DRAPartitionableDevices DRAPrioritizedList
    DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DRAWorkloadResourceClaims GenericWorkload
    InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread NodeDeclaredFeatures
    NominatedNodeNameForExpectation PodLevelResources StorageCapacityScoring TaintTolerationComparisonOperators
    TopologyAwareWorkloadScheduling VolumeLimitScaling
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
    CompositePodGroup CoordinatedLeaderElection GangScheduling InPlacePodVerticalScalingSchedulerPreemption
    PodGroupPreemptionPolicy WorkloadAwarePreemption
    """
)
#: Gate -> the gates that it needs and that are not locked in every release.
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAOptionalNodeOperations": ("NodeDeclaredFeatures",),
    "DRAPartitionableDevicesType": ("DRAPartitionableDevices", "DRAResourcePoolStatus"),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "GangScheduling": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "InPlacePodLevelResourcesVerticalScaling": ("PodLevelResources", "NodeDeclaredFeatures"),
    "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "PodLevelResourcesFixDefaulting": ("PodLevelResources",),
    "PodLevelResourcesFixKubeletQOSClass": ("PodLevelResources",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": ("ContainerRestartRules", "NodeDeclaredFeatures"),
    "StorageVersionAPI": ("APIServerIdentity",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "UserNamespacesHostNetworkSupport": ("NodeDeclaredFeatures",),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "WorkloadWithJob": ("GenericWorkload",),
}
#: Gates each of which selects the experimental allocator of devices since 1.37.
EXPERIMENTAL_ALLOCATOR: Final = (
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
)
#: Gates that set all gates of a stage which are not set themselves.
_GROUPS: Final[Mapping[str, GateStage]] = {"AllAlpha": "alpha", "AllBeta": "beta"}


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


def gate_stages(table: GateTable, *, off_in_beta: str, stable: str) -> dict[str, GateStage]:
    """Return the stages of the gates that can be changed: those that are on are beta, those that are off are alpha.

    The exceptions are named: beta features that are off, and features that are generally available or deprecated.
    """
    beta, neither = _names(off_in_beta), _names(stable)
    return {
        name: "beta" if default == "on" or name in beta else "alpha"
        for name, default in table.items()
        if default in ("on", "off") and name not in neither
    }


def check_gates(
    wanted: Mapping[str, bool], table: GateTable, stages: GateStages, *, version: str, later: Iterable[str] = ()
) -> tuple[dict[str, bool], list[str]]:
    """Return the gates that change decisions, and notes about those without effect. Raises GateError.

    ``later`` are the gates of later releases.
    """
    changes: dict[str, bool] = {}
    notes: list[str] = []
    for name, value in wanted.items():
        if name in _GROUPS:
            continue
        word = _word(value)
        default = table.get(name)
        if default is None:
            raise GateError(_unknown(name, word, table, version, frozenset(later)))
        is_on = default.endswith("on")
        if value == is_on:
            continue
        if default.startswith("locked"):
            locked = _word(is_on)
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
    by_group = {group: _set_by(group, wanted, table, stages) for group in _GROUPS if group in wanted}
    _check_needs({**wanted, **{name: wanted[group] for group, names in by_group.items() for name in names}}, table)
    for group, names in by_group.items():
        setting = f"{group}={_word(wanted[group])}"
        _check_group(setting, names, table, version)
        changes |= {name: wanted[group] for name in names if name in SUPPORTED}
        if others := sum(name not in SUPPORTED for name in names):
            notes.append(f"{setting} sets {others} gates that have no effect on a scheduler")
    return changes, notes


def _set_by(group: str, wanted: Mapping[str, bool], table: GateTable, stages: GateStages) -> list[str]:
    """Return the gates that a group sets to another value than their default."""
    return [
        name
        for name, stage in stages.items()
        if stage == _GROUPS[group] and name not in wanted and table[name].endswith("on") != wanted[group]
    ]


def _check_group(setting: str, names: Iterable[str], table: GateTable, version: str) -> None:
    """Refuse a group if it sets gates that Mooring cannot honour in the release."""
    unable = [name for name in names if name in _DECISIVE or version < _SUPPORTED_SINCE.get(name, "")]
    if unable:
        kept = ",".join(f"{name}={_word(table[name].endswith('on'))}" for name in sorted(unable))
        raise GateError(
            f"{setting} sets gates of which Mooring only supports the default in {version}: "
            f"{', '.join(sorted(unable))}. Add {kept}"
        )


def _word(value: bool) -> str:
    return "true" if value else "false"


def _check_needs(wanted: Mapping[str, bool], table: GateTable) -> None:
    for name, needed in _NEEDS.items():
        if not wanted.get(name, table.get(name, "off").endswith("on")):
            continue
        missing = sorted(each for each in needed if not wanted.get(each, table.get(each, "off").endswith("on")))
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
