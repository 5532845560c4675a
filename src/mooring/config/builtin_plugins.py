"""The built-in plugins of each version: their extension points, and which are enabled by default.

A file of an old version behaves as in the last release that read it, with its default feature gates: v1beta3 is
kube-scheduler 1.28 and v1beta2 is 1.27. A v1 file behaves as in the emulated release.
"""

from __future__ import annotations

from typing import Final

from mooring.config.schema import Version
from mooring.releases import Release

_FILTERS: Final = "preFilter filter"
_ALL: Final = "preFilter filter preScore score"

#: ClaimPreemption, DeviceScoring, GpuSharing and the plugins of scheduler-plugins: built in, disabled by default.
_COMMUNITY: Final = {
    "CapacityScheduling": "preFilter postFilter reserve",
    "ClaimPreemption": "postFilter",
    "DeviceScoring": "score",
    "GpuSharing": "preFilter filter score reserve preBind",
    "Coscheduling": "queueSort preFilter postFilter permit reserve",
    "NodeResourceTopologyMatch": "filter score reserve postBind",
    "NodeResourcesAllocatable": "score",
}
_COMMON: Final = {
    **_COMMUNITY,
    "DefaultBinder": "bind",
    "ImageLocality": "score",
    "InterPodAffinity": _ALL,
    "NodeAffinity": _ALL,
    "NodeName": "filter",
    "NodePorts": _FILTERS,
    "NodeResourcesBalancedAllocation": "preScore score",
    "NodeResourcesFit": _ALL,
    "NodeUnschedulable": "filter",
    "PodTopologySpread": _ALL,
    "PrioritySort": "queueSort",
    "SchedulingGates": "preEnqueue",
    "TaintToleration": "filter preScore score",
    "VolumeRestrictions": _FILTERS,
    "VolumeZone": _FILTERS,
}
_SERVED: Final[dict[Version, dict[str, str]]] = {
    "v1beta3": {
        **_COMMON,
        **dict.fromkeys(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), _FILTERS),
        "DefaultPreemption": "postFilter",
        "DynamicResources": "preEnqueue preFilter filter postFilter preScore reserve postBind",
        "NodeVolumeLimits": _FILTERS,
        "SelectorSpread": "preScore score",
        "VolumeBinding": "preFilter filter score reserve preBind",
    },
    "v1beta2": {
        **_COMMON,
        **dict.fromkeys(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), "filter"),
        "DefaultPreemption": "postFilter",
        "DynamicResources": "preFilter filter postFilter preScore reserve postBind",
        "NodeVolumeLimits": "filter",
        "SelectorSpread": "preScore score",
        "VolumeBinding": "preFilter filter score reserve preBind",
    },
}


def served(version: Version, release: Release) -> dict[str, frozenset[str]]:
    """Return the extension points of each built-in plugin."""
    table = {**_COMMUNITY, **release.plugin_points} if version == "v1" else _SERVED[version]
    return {name: frozenset(points.split()) for name, points in table.items()}


#: The default plugins: point or multiPoint -> (plugin, weight or None), in order.
Defaults = dict[str, tuple[tuple[str, int | None], ...]]


def _parse(text: str) -> tuple[tuple[str, int | None], ...]:
    """Parse ``A B:2`` to (("A", None), ("B", 2))."""
    parts = (word.partition(":") for word in text.split())
    return tuple((name, int(weight) if weight else None) for name, _, weight in parts)


_DEFAULTS: Final[dict[Version, Defaults]] = {
    "v1beta3": {
        "multiPoint": _parse(
            "PrioritySort NodeUnschedulable NodeName TaintToleration:3 NodeAffinity:2 NodePorts NodeResourcesFit:1"
            " VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone"
            " PodTopologySpread:2 InterPodAffinity:2 DefaultPreemption NodeResourcesBalancedAllocation:1"
            " ImageLocality:1 DefaultBinder SchedulingGates"
        )
    },
    "v1beta2": {
        "preEnqueue": _parse("SchedulingGates"),
        "queueSort": _parse("PrioritySort"),
        "preFilter": _parse(
            "NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity VolumeBinding VolumeZone"
            " NodeAffinity"
        ),
        "filter": _parse(
            "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions"
            " EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone PodTopologySpread"
            " InterPodAffinity"
        ),
        "postFilter": _parse("DefaultPreemption"),
        "preScore": _parse(
            "InterPodAffinity PodTopologySpread TaintToleration NodeAffinity NodeResourcesFit"
            " NodeResourcesBalancedAllocation"
        ),
        "score": _parse(
            "NodeResourcesBalancedAllocation:1 ImageLocality:1 InterPodAffinity:1 NodeResourcesFit:1 NodeAffinity:1"
            " PodTopologySpread:2 TaintToleration:1"
        ),
        "reserve": _parse("VolumeBinding"),
        "preBind": _parse("VolumeBinding"),
        "bind": _parse("DefaultBinder"),
    },
}

#: Default plugins -> the feature gate that enables them.
_GATED: Final = {
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
    "DynamicResources": "DynamicResourceAllocation",
    "GangScheduling": "GenericWorkload",
    "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
    "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
}


def defaults(version: Version, release: Release) -> Defaults:
    """Return the default plugins."""
    if version != "v1":
        return _DEFAULTS[version]
    plugins = _parse(release.default_plugins)
    return {"multiPoint": tuple(each for each in plugins if each[0] not in _GATED or release.enabled(_GATED[each[0]]))}


#: Fields of `plugins` that a version has but ignores.
IGNORED_POINTS: Final[dict[Version, frozenset[str]]] = {
    "v1": frozenset(),
    "v1beta3": frozenset({"preEnqueue"}),
    "v1beta2": frozenset({"preEnqueue", "multiPoint"}),
}

#: Plugins that v1 rejects by name.
REFUSED: Final[dict[Version, frozenset[str]]] = {
    "v1": frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}),
    "v1beta3": frozenset(),
    "v1beta2": frozenset(),
}

#: Plugins that were removed, and their replacements.
RETIRED: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), "NodeVolumeLimits now counts all volumes"
    ),
    "SelectorSpread": "PodTopologySpread with its default constraints now spreads the pods of a service",
}

#: Built-in plugins that had no effect in a version by default, because of a feature gate.
DORMANT: Final[dict[Version, frozenset[str]]] = {
    "v1": frozenset(),
    "v1beta3": frozenset({"DynamicResources"}),
    "v1beta2": frozenset({"DynamicResources"}),
}
