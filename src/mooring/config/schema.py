"""The schema of KubeSchedulerConfiguration and of the arguments of built-in plugins, for each version."""

from __future__ import annotations

import functools
from typing import Final, Literal, TypeAlias

import msgspec

from mooring.releases import Release

Version = Literal["v1", "v1beta3", "v1beta2"]

GROUP: Final = "kubescheduler.config.k8s.io"
KIND: Final = "KubeSchedulerConfiguration"
#: The supported versions, newest first.
VERSIONS: Final[tuple[Version, ...]] = ("v1", "v1beta3", "v1beta2")

#: The extension points, in the order in which they run.
POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
PLACEMENT_GENERATE: Final = "placementGenerate"
PLACEMENT_SCORE: Final = "placementScore"
#: The point that runs after PostFilter for groups of pods. It has default plugins, but runs only with a feature gate.
GROUP_POST_FILTER: Final = "podGroupPostFilter"


def group_points(version: Version, release: Release) -> tuple[str, ...]:
    """Return the points of groups of pods that a file may name. They run only if a feature gate is enabled."""
    return release.group_points if version == "v1" else ()


def shown_points(version: Version, release: Release) -> tuple[str, ...]:
    """Return the points whose plugins are part of the effective configuration."""
    found = group_points(version, release)
    gated = (PLACEMENT_GENERATE, PLACEMENT_SCORE) if release.enabled("TopologyAwareWorkloadScheduling") else ()
    return (*POINTS, *(point for point in (GROUP_POST_FILTER, *gated) if point in found))


class Value(msgspec.Struct, frozen=True):
    """A scalar type."""

    kind: Literal["string", "bool", "int32", "int64", "float32", "bytes", "duration", "raw"]
    #: Whether null means unset. Only some durations are not nullable.
    nullable: bool = True


class ListOf(msgspec.Struct, frozen=True):
    """A list type."""

    item: Type


class MapOf(msgspec.Struct, frozen=True):
    """A mapping type with arbitrary keys."""

    item: Type


class Struct(msgspec.Struct, frozen=True):
    """A mapping type with known fields."""

    fields: dict[str, Type]


Type: TypeAlias = Value | ListOf | MapOf | Struct

STRING: Final = Value("string")
BOOL: Final = Value("bool")
INT32: Final = Value("int32")
INT64: Final = Value("int64")
FLOAT32: Final = Value("float32")
BYTES: Final = Value("bytes")
DURATION: Final = Value("duration", nullable=False)
OPTIONAL_DURATION: Final = Value("duration")
RAW: Final = Value("raw")
STRINGS: Final = ListOf(STRING)

_META: Final[dict[str, Type]] = {"apiVersion": STRING, "kind": STRING}

LEADER_ELECTION: Final = Struct(
    {
        "leaderElect": BOOL,
        "leaseDuration": DURATION,
        "renewDeadline": DURATION,
        "retryPeriod": DURATION,
        "resourceLock": STRING,
        "resourceName": STRING,
        "resourceNamespace": STRING,
    }
)
CLIENT_CONNECTION: Final = Struct(
    {"kubeconfig": STRING, "acceptContentTypes": STRING, "contentType": STRING, "qps": FLOAT32, "burst": INT32}
)
EXTENDER: Final = Struct(
    {
        "urlPrefix": STRING,
        "filterVerb": STRING,
        "preemptVerb": STRING,
        "prioritizeVerb": STRING,
        "weight": INT64,
        "bindVerb": STRING,
        "enableHTTPS": BOOL,
        "tlsConfig": Struct(
            {
                "insecure": BOOL,
                "serverName": STRING,
                "certFile": STRING,
                "keyFile": STRING,
                "caFile": STRING,
                "certData": BYTES,
                "keyData": BYTES,
                "caData": BYTES,
            }
        ),
        "httpTimeout": DURATION,
        "nodeCacheCapable": BOOL,
        "managedResources": ListOf(Struct({"name": STRING, "ignoredByScheduler": BOOL})),
        "ignorable": BOOL,
    }
)

_PLUGIN: Final = Struct({"name": STRING, "weight": INT32})
_PLUGIN_SET: Final = Struct({"enabled": ListOf(_PLUGIN), "disabled": ListOf(_PLUGIN)})


def configuration(version: Version, release: Release) -> Struct:
    """Return the schema of a file."""
    return _configuration(version, group_points(version, release))


@functools.cache
def _configuration(version: Version, group_points: tuple[str, ...]) -> Struct:
    points = (*POINTS, "multiPoint", *group_points)
    profile: dict[str, Type] = {
        "schedulerName": STRING,
        "plugins": Struct(dict.fromkeys(points, _PLUGIN_SET)),
        "pluginConfig": ListOf(Struct({"name": STRING, "args": RAW})),
    }
    fields: dict[str, Type] = {
        **_META,
        "parallelism": INT32,
        "leaderElection": LEADER_ELECTION,
        "clientConnection": CLIENT_CONNECTION,
        "enableProfiling": BOOL,
        "enableContentionProfiling": BOOL,
        "percentageOfNodesToScore": INT32,
        "podInitialBackoffSeconds": INT64,
        "podMaxBackoffSeconds": INT64,
        "profiles": ListOf(Struct(profile)),
        "extenders": ListOf(EXTENDER),
    }
    if version == "v1":
        profile["percentageOfNodesToScore"] = INT32
        fields["delayCacheUntilActive"] = BOOL
    if version == "v1beta2":
        fields["healthzBindAddress"] = fields["metricsBindAddress"] = STRING
    return Struct(fields)


_RESOURCES: Final = ListOf(Struct({"name": STRING, "weight": INT64}))
_SHAPE: Final = ListOf(Struct({"utilization": INT32, "score": INT32}))
_NODE_REQUIREMENTS: Final = ListOf(Struct({"key": STRING, "operator": STRING, "values": STRINGS}))
_NODE_TERM: Final = Struct({"matchExpressions": _NODE_REQUIREMENTS, "matchFields": _NODE_REQUIREMENTS})
_LABEL_SELECTOR: Final = Struct({"matchLabels": MapOf(STRING), "matchExpressions": _NODE_REQUIREMENTS})

_ARGS: Final[dict[str, dict[str, Type]]] = {
    "Coscheduling": {
        "permitWaitingTimeSeconds": INT64,
        "podGroupBackoffSeconds": INT64,
        "podGroupRejectPercentage": INT32,
    },
    "DefaultPreemption": {"minCandidateNodesPercentage": INT32, "minCandidateNodesAbsolute": INT32},
    "InterPodAffinity": {"hardPodAffinityWeight": INT32, "ignorePreferredTermsOfExistingPods": BOOL},
    "NodeAffinity": {
        "addedAffinity": Struct(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": Struct({"nodeSelectorTerms": ListOf(_NODE_TERM)}),
                "preferredDuringSchedulingIgnoredDuringExecution": ListOf(
                    Struct({"weight": INT32, "preference": _NODE_TERM})
                ),
            }
        )
    },
    "DeviceScoring": {"strategy": STRING, "attribute": STRING, "scores": MapOf(INT64)},
    "GpuSharing": {
        "policy": STRING,
        "typicalPods": ListOf(
            Struct({"cpuMilli": INT64, "gpuCount": INT64, "gpuMilli": INT64, "gpuModels": STRING, "weight": INT64})
        ),
    },
    "NodeResourceTopologyMatch": {
        "scoringStrategy": Struct({"type": STRING, "resources": _RESOURCES}),
        "cacheResyncPeriodSeconds": INT64,
        "discardReservedNodes": BOOL,
        "cache": Struct(
            {"foreignPodsDetect": STRING, "resyncMethod": STRING, "informerMode": STRING, "resyncScope": STRING}
        ),
        "preemptionMode": STRING,
    },
    "NodeResourcesAllocatable": {"mode": STRING, "resources": _RESOURCES},
    "NodeResourcesBalancedAllocation": {"resources": _RESOURCES},
    "NodeResourcesFit": {
        "ignoredResources": STRINGS,
        "ignoredResourceGroups": STRINGS,
        "scoringStrategy": Struct(
            {"type": STRING, "resources": _RESOURCES, "requestedToCapacityRatio": Struct({"shape": _SHAPE})}
        ),
    },
    "PodTopologySpread": {
        "defaultConstraints": ListOf(
            Struct(
                {
                    "maxSkew": INT32,
                    "topologyKey": STRING,
                    "whenUnsatisfiable": STRING,
                    "labelSelector": _LABEL_SELECTOR,
                    "minDomains": INT32,
                    "nodeAffinityPolicy": STRING,
                    "nodeTaintsPolicy": STRING,
                    "matchLabelKeys": STRINGS,
                }
            )
        ),
        "defaultingType": STRING,
    },
    "VolumeBinding": {"bindTimeoutSeconds": INT64, "shape": _SHAPE},
    "DynamicResources": {"filterTimeout": OPTIONAL_DURATION, "bindingTimeout": OPTIONAL_DURATION},
}
#: The declared arguments of plugins, for each version. The arguments of others are not decoded.
ARGS: Final[dict[Version, dict[str, Struct]]] = {
    version: {
        name: Struct({**_META, **fields})
        for name, fields in _ARGS.items()
        if name != "DynamicResources" or version == "v1"
    }
    for version in VERSIONS
}
