"""The built-in plugins of each version: their extension points, and which are enabled by default.

A file of an old version behaves as in the last release that read it: v1 is kube-scheduler 1.36, v1beta3 is 1.28 and
v1beta2 is 1.27, all with their default feature gates.
"""

from __future__ import annotations

from typing import Final

from mooring.config.schema import Version

_FILTERS: Final = "preFilter filter"
_ALL: Final = "preFilter filter preScore score"

_COMMON: Final = {
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
    # The plugins of scheduler-plugins are built in, but disabled by default.
    "CapacityScheduling": "preFilter postFilter reserve",
    "Coscheduling": "queueSort preFilter postFilter permit reserve",
    "NodeResourceTopologyMatch": "filter score reserve postBind",
    "NodeResourcesAllocatable": "score",
}
_SERVED: Final[dict[Version, dict[str, str]]] = {
    "v1": {
        **_COMMON,
        "DefaultPreemption": "preEnqueue postFilter",
        "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
        "GangScheduling": "preEnqueue permit",
        "NodeDeclaredFeatures": _FILTERS,
        "NodeResourcesFit": f"{_ALL} placementScore",
        "NodeVolumeLimits": _FILTERS,
        "PodGroupPodsCount": "placementScore",
        "TopologyPlacementGenerator": "placementGenerate",
        "VolumeBinding": f"{_ALL} reserve preBind",
    },
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
#: The extension points of each built-in plugin, for each version.
SERVED: Final[dict[Version, dict[str, frozenset[str]]]] = {
    version: {name: frozenset(points.split()) for name, points in table.items()} for version, table in _SERVED.items()
}

#: The default plugins: point or multiPoint -> (plugin, weight or None), in order.
Defaults = dict[str, tuple[tuple[str, int | None], ...]]


def _parse(text: str) -> tuple[tuple[str, int | None], ...]:
    """Parse ``A B:2`` to (("A", None), ("B", 2))."""
    parts = (word.partition(":") for word in text.split())
    return tuple((name, int(weight) if weight else None) for name, _, weight in parts)


DEFAULTS: Final[dict[Version, Defaults]] = {
    "v1": {
        "multiPoint": _parse(
            "SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration:3 NodeAffinity:2 NodePorts"
            " NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2"
            " InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1"
            " DefaultBinder NodeDeclaredFeatures"
        )
    },
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
