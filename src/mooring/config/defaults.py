"""Defaulting of a configuration."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.config.document import Document, PluginArgs
from mooring.config.durations import SECOND, format_duration
from mooring.config.plugin_merge import Sets, merged_sets
from mooring.config.schema import ARGS, GROUP_POST_FILTER, ListOf, Struct, Type, Value, Version
from mooring.releases import Release

_LEADER_ELECTION: Final[dict[str, Any]] = {
    "leaseDuration": 15 * SECOND,
    "renewDeadline": 10 * SECOND,
    "retryPeriod": 2 * SECOND,
    "resourceLock": "leases",
    "resourceName": "kube-scheduler",
    "resourceNamespace": "kube-system",
}
_CLIENT_CONNECTION: Final[dict[str, Any]] = {
    "kubeconfig": "",
    "acceptContentTypes": "",
    "contentType": "application/vnd.kubernetes.protobuf",
    "qps": 50.0,
    "burst": 100,
}
#: One millicore has the same weight as one mebibyte.
_ALLOCATABLE: Final = [{"name": "cpu", "weight": 1 << 20}, {"name": "memory", "weight": 1}]
_TOPOLOGY_CACHE: Final = {
    "foreignPodsDetect": "All",
    "resyncMethod": "Autodetect",
    "informerMode": "Dedicated",
    "resyncScope": "All",
}
#: Nodes with more free capacity are preferred.
_CAPACITY_SHAPE: Final = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
_RESOURCES: Final = ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})


class ProfileDraft(msgspec.Struct):
    """A profile with its defaults, not yet validated."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    sets: Sets
    #: The entries of the file, then those added by defaulting.
    args: list[PluginArgs]
    #: The `plugins` of the file.
    requested: dict[str, Any]


class Draft(msgspec.Struct):
    """A configuration with its defaults, not yet validated."""

    version: Version
    release: Release
    #: All fields except profiles, by their names in the file.
    values: dict[str, Any]
    profiles: list[ProfileDraft]


def with_defaults(document: Document) -> Draft:
    """Set the defaults."""
    given = document.values
    leader, client = given.get("leaderElection", {}), given.get("clientConnection", {})
    profiling = given.get("enableProfiling", True)
    values = {
        "parallelism": 16,
        "percentageOfNodesToScore": 0,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
        "enableContentionProfiling": profiling,
        "extenders": [],
        **{field: value for field, value in given.items() if field not in ("profiles", "apiVersion", "kind")},
        "enableProfiling": profiling,
        # Zero and "" count as unset, as upstream does.
        "leaderElection": {
            "leaderElect": leader.get("leaderElect", True),
            **{field: leader.get(field) or default for field, default in _LEADER_ELECTION.items()},
        },
        "clientConnection": {field: client.get(field) or default for field, default in _CLIENT_CONNECTION.items()},
    }
    profiles = given.get("profiles") or [{}]
    only = len(profiles) == 1
    version, release = document.version, document.release
    return Draft(version, release, values, [_profile(each, version, release, only=only) for each in profiles])


def _profile(given: dict[str, Any], version: Version, release: Release, *, only: bool) -> ProfileDraft:
    sets = merged_sets(version, release, given.get("plugins"))
    args = [_completed(each, release) for each in given.get("pluginConfig") or []]
    configured = {each.name for each in args}
    # As upstream, a plugin that is named only at podGroupPostFilter gets no default arguments.
    enabled = {plugin.name for point, each in sets.items() if point != GROUP_POST_FILTER for plugin in each.enabled}
    args += [
        _completed(PluginArgs(name, {}, declared=True), release)
        for name in sorted(enabled - configured)
        if name in ARGS[version]
    ]
    name = given.get("schedulerName", "default-scheduler" if only else "")
    return ProfileDraft(name, given.get("percentageOfNodesToScore"), sets, args, given.get("plugins", {}))


def _completed(given: PluginArgs, release: Release) -> PluginArgs:
    """Return declared arguments with their defaults."""
    if not given.declared:
        return given
    args = dict(given.value)
    match given.name:
        case "DefaultPreemption":
            args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100, **args}
        case "InterPodAffinity":
            args = {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False, **args}
        case "NodeResourcesBalancedAllocation":
            args["resources"] = _resources(args.get("resources"))
        case "NodeResourcesFit":
            strategy = dict(args.get("scoringStrategy", {"type": "LeastAllocated"}))
            args["scoringStrategy"] = strategy | {"resources": _resources(strategy.get("resources"))}
        case "PodTopologySpread":
            args["defaultingType"] = args.get("defaultingType") or "System"
        case "VolumeBinding":
            args = {"bindTimeoutSeconds": 600, **args}
            if release.enabled("StorageCapacityScoring") and not args.get("shape"):
                args["shape"] = _CAPACITY_SHAPE
        case "DynamicResources":
            args = {"filterTimeout": 10 * SECOND, "bindingTimeout": 600 * SECOND, **args}
        case "Coscheduling":
            defaults = {"permitWaitingTimeSeconds": 60, "podGroupBackoffSeconds": 0, "podGroupRejectPercentage": 10}
            args = {**defaults, **args}
        case "NodeResourcesAllocatable":
            args["mode"] = args.get("mode") or "Least"
            args["resources"] = args.get("resources") or _ALLOCATABLE
        case "NodeResourceTopologyMatch":
            strategy = dict(args.get("scoringStrategy", {"type": "LeastAllocated"}))
            args = {"cacheResyncPeriodSeconds": 0, "discardReservedNodes": False, "preemptionMode": "Disabled", **args}
            args["scoringStrategy"] = strategy | {"resources": _resources(strategy.get("resources"))}
            args["cache"] = {**_TOPOLOGY_CACHE, **args.get("cache", {})}
    return msgspec.structs.replace(given, value=args)


def _resources(given: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Set the weight of resources to 1 by default; without resources, use cpu and memory."""
    return [{**each, "weight": each.get("weight") or 1} for each in given or _RESOURCES]


def plain_args(args: PluginArgs, version: Version) -> Any:
    """Return arguments as plain data: durations as text, declared fields in their order."""
    return _plain(args.value, ARGS[version][args.name]) if args.declared else args.value


def _plain(value: Any, kind: Type) -> Any:
    match kind:
        case Struct():
            return {field: _plain(value[field], each) for field, each in kind.fields.items() if field in value}
        case ListOf():
            return [_plain(each, kind.item) for each in value]
        case Value(kind="duration"):
            return format_duration(value)
        case _:
            return value
