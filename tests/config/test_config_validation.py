"""Each rule for values, broken and kept."""

from __future__ import annotations

import pytest

from tests.config.helpers import errors, paths


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("parallelism: 0", ["parallelism"]),
        ("parallelism: -1", ["parallelism"]),
        ("percentageOfNodesToScore: 101", ["percentageOfNodesToScore"]),
        ("percentageOfNodesToScore: -1", ["percentageOfNodesToScore"]),
        ("percentageOfNodesToScore: 100", []),
        ("profiles: [{percentageOfNodesToScore: 101}]", ["profiles[0].percentageOfNodesToScore"]),
        ("podInitialBackoffSeconds: 0", ["podInitialBackoffSeconds"]),
        ("podMaxBackoffSeconds: 0", ["podMaxBackoffSeconds"]),
        ("podInitialBackoffSeconds: 20", ["podMaxBackoffSeconds"]),
        ("podInitialBackoffSeconds: 10", []),
        ("clientConnection: {burst: -1}", ["clientConnection.burst"]),
        ("clientConnection: {qps: -1}", []),
        ("profiles: [{schedulerName: ''}]", ["profiles[0].schedulerName"]),
        ("profiles: [{schedulerName: a}, {schedulerName: a}]", ["profiles[1].schedulerName"]),
        ("profiles: [{}, {}]", ["profiles[0].schedulerName", "profiles[1].schedulerName", "profiles[1].schedulerName"]),
        ("leaderElection: {leaseDuration: 10s}", ["leaderElection.leaseDuration"]),
        ("leaderElection: {leaseDuration: -1s}", ["leaderElection.leaseDuration"] * 2),
        (
            "leaderElection: {renewDeadline: -1s, retryPeriod: -1s}",
            ["leaderElection.renewDeadline", "leaderElection.retryPeriod"],
        ),
        ("leaderElection: {resourceLock: endpoints}", ["leaderElection.resourceLock"]),
        ("leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: x, retryPeriod: 20s}", []),
        # Extenders
        ("extenders: [{prioritizeVerb: p}]", ["extenders[0].weight"]),
        ("extenders: [{prioritizeVerb: p, weight: -1}]", ["extenders[0].weight"]),
        ("extenders: [{prioritizeVerb: p, weight: 1}, {weight: -1}]", []),
        ("extenders: [{bindVerb: b}, {bindVerb: b}]", ["extenders"]),
        ("extenders: [{managedResources: [{name: cpu}]}]", ["extenders[0].managedResources[0].name"]),
        ("extenders: [{managedResources: [{}]}]", ["extenders[0].managedResources[0].name"] * 2),
        ("extenders: [{managedResources: [{name: x.kubernetes.io/y}]}]", ["extenders[0].managedResources[0].name"]),
        ("extenders: [{managedResources: [{name: requests.x.com/y}]}]", ["extenders[0].managedResources[0].name"]),
        ("extenders: [{managedResources: [{name: x.com/y/z}]}]", ["extenders[0].managedResources[0].name"]),
        (
            "extenders: [{managedResources: [{name: x.com/y}]}, {managedResources: [{name: x.com/y}]}]",
            ["extenders[1].managedResources[0].name"],
        ),
        # Plugins that v1 refuses
        ("profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]", ["profiles[0].plugins.filter.enabled[0]"]),
        ("profiles: [{pluginConfig: [{name: CinderLimits}]}]", ["profiles[0].pluginConfig[0]"]),
        ("profiles: [{plugins: {filter: {disabled: [{name: EBSLimits}]}}}]", []),
        ("profiles: [{pluginConfig: [{name: SelectorSpread}]}]", []),
        ("profiles: [{pluginConfig: [{name: ScoreByName}, {name: ScoreByName}]}]", ["profiles[0].pluginConfig[1]"]),
    ],
)
def test_rules(body: str, expected: list[str]) -> None:
    assert paths(body) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("{}", "{}", []),
        ("{plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}", "{}", ["profiles[1].plugins.queueSort"]),
        ("{}", "{plugins: {queueSort: {disabled: [{name: x}]}}}", ["profiles[1].plugins.queueSort"]),
        (
            "{plugins: {queueSort: {enabled: [{name: Q}]}}, pluginConfig: [{name: Q, args: {a: 1}}]}",
            "{plugins: {queueSort: {enabled: [{name: Q}]}}, pluginConfig: [{name: Q, args: {a: 2}}]}",
            ["profiles[1].pluginConfig.args"],
        ),
        (
            "{plugins: {queueSort: {enabled: [{name: a}, {name: b}]}}}",
            "{plugins: {queueSort: {enabled: [{name: a}, {name: b}]}}}",
            ["profiles[0].plugins.queueSort.Enabled"],
        ),
    ],
)
def test_all_profiles_sort_the_queue_alike(first: str, second: str, expected: list[str]) -> None:
    def named(profile: str, name: str) -> str:
        return profile.replace("{", f"{{schedulerName: {name}{', ' if len(profile) > 2 else ''}", 1)

    assert paths(f"profiles: [{named(first, 'a')}, {named(second, 'b')}]") == expected


@pytest.mark.parametrize(
    ("address", "faults"),
    [
        ("''", 0),
        ("0.0.0.0:0", 0),
        ("'[::1]:0'", 0),
        ("010.1.1.1:0", 0),
        ("1.2.3.4:+0", 0),
        ("127.0.0.1:10251", 1),
        ("':0'", 1),
        ("localhost:0", 1),
        ("localhost:1", 2),
        ("1.2.3.4", 1),
        ("'::1:0'", 1),
        ("'[::1]'", 1),
        ("256.1.1.1:0", 1),
        ("'[fe80::1%eth0]:0'", 1),
        ("1.2.3.4:x", 1),
        ("'[1.2.3.4:0'", 1),
    ],
)
def test_addresses_of_v1beta2(address: str, faults: int) -> None:
    assert paths(f"healthzBindAddress: {address}", version="v1beta2") == ["healthzBindAddress"] * faults


def args_paths(plugin: str, args: str) -> list[str]:
    prefix = "profiles[0].pluginConfig[0].args."
    found = paths(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]")
    return [path.removeprefix(prefix) for path in found]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        ("DefaultPreemption", "{minCandidateNodesPercentage: 101}", ["minCandidateNodesPercentage"]),
        ("DefaultPreemption", "{minCandidateNodesAbsolute: -1}", ["minCandidateNodesAbsolute"]),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            ["minCandidateNodesAbsolute", "minCandidateNodesPercentage"],
        ),
        ("DefaultPreemption", "{minCandidateNodesPercentage: 0}", []),
        ("InterPodAffinity", "{hardPodAffinityWeight: 101}", ["hardPodAffinityWeight"]),
        ("InterPodAffinity", "{hardPodAffinityWeight: 0}", []),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}", ["resources[0].weight"]),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu}, {name: cpu}]}", ["resources[1].name"]),
        ("VolumeBinding", "{bindTimeoutSeconds: -1}", ["bindTimeoutSeconds"]),
        ("VolumeBinding", "{shape: []}", ["shape"]),
        ("DynamicResources", "{filterTimeout: -1s}", ["filterTimeout"]),
        ("DynamicResources", "{filterTimeout: 0s, bindingTimeout: 1s}", []),
        ("DynamicResources", "{bindingTimeout: 999ms}", ["bindingTimeout"]),
        ("PodTopologySpread", "{defaultingType: Other}", ["defaultingType"]),
        (
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}",
            ["defaultingType"],
        ),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{}]}",
            [
                "defaultConstraints[0].maxSkew",
                "defaultConstraints[0].topologyKey",
                "defaultConstraints[0].whenUnsatisfiable",
            ],
        ),
        (
            "PodTopologySpread",
            (
                "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: '-', whenUnsatisfiable: X,"
                " labelSelector: {}}]}"
            ),
            [
                "defaultConstraints[0].labelSelector",
                "defaultConstraints[0].topologyKey",
                "defaultConstraints[0].whenUnsatisfiable",
            ],
        ),
        (
            "PodTopologySpread",
            (
                "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: z,"
                " whenUnsatisfiable: DoNotSchedule, minDomains: -1, nodeAffinityPolicy: X},"
                " {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}"
            ),
            ["defaultConstraints[1]"],
        ),
        ("NodeAffinity", "{addedAffinity: {}}", []),
        (
            "NodeAffinity",
            (
                f"{{addedAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{}}, {{matchExpressions:"
                " [{key: '', operator: In}, {key: a, operator: Nope}]}]}}}"
            ),
            [
                f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].key",
                f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].values",
                f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[1].operator",
            ],
        ),
        (
            "NodeAffinity",
            (
                f"{{addedAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchFields:"
                " [{key: a, operator: In, values: []}, {key: a, operator: Gt}]}]}}}"
            ),
            [
                f"addedAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].values",
                f"addedAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[1].operator",
            ],
        ),
        (
            "NodeAffinity",
            (
                f"{{addedAffinity: {{{PREFERRED}: [{{weight: 0, preference: {{matchExpressions: [{{}}]}}}},"
                " {weight: 101, preference: {matchExpressions: [{key: a, operator: Gt, values: ['x y']},"
                " {key: a, operator: Exists, values: [b]}, {key: a, operator: Lt}]}}]}}"
            ),
            [
                f"addedAffinity.{PREFERRED}[1].matchExpressions[0].values[0]",
                f"addedAffinity.{PREFERRED}[1].matchExpressions[0].values[0][a]",
                f"addedAffinity.{PREFERRED}[1].matchExpressions[1].values",
                f"addedAffinity.{PREFERRED}[1].matchExpressions[2].values",
            ],
        ),
    ],
)
def test_arguments(plugin: str, args: str, expected: list[str]) -> None:
    assert args_paths(plugin, args) == expected


def test_every_error_says_what_to_do_or_why() -> None:
    body = """\
    parallelism: 0
    profiles:
    - schedulerName: ''
      plugins: {filter: {enabled: [{name: EBSLimits}]}}
    leaderElection: {resourceLock: x}
    """
    found = errors(body)
    assert [(each.path, each.line) for each in found] == [
        ("parallelism", 3),
        ("profiles[0].schedulerName", 5),
        ("profiles[0].plugins.filter.enabled[0]", 6),
        ("leaderElection.resourceLock", 7),
    ]
    assert all(each.remedy for each in found)
