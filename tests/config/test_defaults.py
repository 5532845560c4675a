"""What holds where a file says nothing, per version."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import default_config, effective
from mooring.config.builtin_plugins import defaults, served
from mooring.config.schema import ARGS, POINTS, VERSIONS
from mooring.releases import RELEASES, V1_36, Release
from tests.config.helpers import load

SECOND = 10**9


@pytest.mark.parametrize("version", VERSIONS)
def test_settings(version: str) -> None:
    config = load(version=version)
    leader, client = config.leader_election, config.client_connection
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (16, 0)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.enable_profiling, config.enable_contention_profiling) == (True, True)
    assert (leader.lease_duration, leader.renew_deadline, leader.retry_period) == (15 * SECOND, 10 * SECOND, 2 * SECOND)
    assert (leader.leader_elect, leader.resource_lock, leader.resource_name, leader.resource_namespace) == (
        True,
        "leases",
        "kube-scheduler",
        "kube-system",
    )
    assert (client.qps, client.burst, client.content_type) == (50.0, 100, "application/vnd.kubernetes.protobuf")
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert config.version == version


def test_default_config_is_that_of_an_empty_v1_file() -> None:
    assert default_config(V1_36) == load()


@pytest.mark.parametrize(
    ("body", "profiling", "contention"),
    [
        ("enableProfiling: false", False, False),
        ("enableProfiling: false\nenableContentionProfiling: true", False, True),
        ("enableContentionProfiling: false", True, False),
        ("enableProfiling: null", True, True),
    ],
)
def test_contention_profiling_follows_profiling(body: str, profiling: bool, contention: bool) -> None:
    config = load(body)
    assert (config.enable_profiling, config.enable_contention_profiling) == (profiling, contention)


def test_zero_counts_as_not_set_for_some_fields() -> None:
    body = """\
    leaderElection: {leaseDuration: 0s, renewDeadline: 0s, retryPeriod: 0s, resourceName: '', resourceLock: ''}
    clientConnection: {qps: 0, burst: 0, contentType: ''}
    percentageOfNodesToScore: 0
    """
    assert load(body) == load()


def test_a_name_is_given_to_a_single_profile_only() -> None:
    assert load("profiles: [{}]").profiles[0].scheduler_name == "default-scheduler"
    assert load("profiles: [{schedulerName: a}, {schedulerName: b}]").profiles[1].scheduler_name == "b"


@pytest.mark.parametrize(
    ("plugin", "args", "in_force"),
    [
        ("DefaultPreemption", "{}", {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}),
        (
            "DefaultPreemption",
            "{minCandidateNodesAbsolute: 0}",
            {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 0},
        ),
        ("InterPodAffinity", "{}", {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}),
        ("NodeAffinity", "{}", {}),
        ("PodTopologySpread", "{defaultingType: ''}", {"defaultingType": "System"}),
        ("VolumeBinding", "{}", {"bindTimeoutSeconds": 600}),
        ("VolumeBinding", "{bindTimeoutSeconds: 0, shape: null}", {"bindTimeoutSeconds": 0}),
        ("DynamicResources", "{}", {"filterTimeout": "10s", "bindingTimeout": "10m0s"}),
        ("DynamicResources", "{filterTimeout: 90s}", {"filterTimeout": "1m30s", "bindingTimeout": "10m0s"}),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: []}",
            {"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]},
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: x.com/y}]}",
            {"resources": [{"name": "x.com/y", "weight": 1}]},
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 0}]}}",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
        ),
    ],
)
def test_arguments(plugin: str, args: str, in_force: Any) -> None:
    config = load(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]")
    assert config.profiles[0].plugin_config[plugin] == in_force


def test_arguments_are_added_for_plugins_that_are_enabled() -> None:
    assert "NodeAffinity" in load().profiles[0].plugin_config
    off = "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}}}]"
    assert "NodeAffinity" not in load(off).profiles[0].plugin_config
    assert "DynamicResources" not in load(version="v1beta3").profiles[0].plugin_config


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_tables_fit_together(version: Any, release: Release) -> None:
    """Whatever runs by default exists and serves its point; whatever has declared arguments exists."""
    known = served(version, release)
    for point, plugins in defaults(version, release).items():
        assert all(point == "multiPoint" or point in known[name] for name, _ in plugins)
    assert set(ARGS[version]) <= set(known)
    assert all(points - set(release.group_points) <= set(POINTS) for points in known.values())


def test_extenders_are_called_with_those_that_may_fail_last() -> None:
    body = "extenders: [{urlPrefix: a, ignorable: true}, {urlPrefix: b}, {urlPrefix: c, httpTimeout: 1s}]"
    config = load(body)
    assert [each.url_prefix for each in config.extenders] == ["b", "c", "a"]
    assert [each.http_timeout for each in config.written_extenders] == [5 * SECOND, 5 * SECOND, SECOND]
    assert effective(config)["extenderOrder"] == ["b", "c", "a"]
