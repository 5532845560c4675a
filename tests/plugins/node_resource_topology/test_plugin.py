"""Arguments of NodeResourceTopologyMatch, and cached results."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import ConfigError, load_config
from mooring.framework import CycleState
from mooring.plugins.node_resource_topology import NodeResourceTopologyMatch
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod
from tests.plugins.topology_reports import SINGLE, report

BIG, SMALL = {"cpu": "8", "memory": "8Gi"}, {"cpu": "1", "memory": "1"}


def harness(*reports: Any, args: dict[str, Any] | None = None, offers: dict[str, Any] | None = None) -> PluginHarness:
    names = {each.name for each in reports} | {"plain"}
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", **(offers or {})}
    nodes = [make_node(name).capacity(amounts).obj() for name in sorted(names)]
    return PluginHarness(NodeResourceTopologyMatch, args=args, nodes=nodes, objects=reports)


def asking(*containers: dict[str, Any]) -> PodBuilder:
    pod = make_pod("p")
    for each in containers:
        pod = pod.req(each)
    return pod.guaranteed()


# Arguments


def config(args: str) -> str:
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}\n"
        f"  pluginConfig: [{{name: NodeResourceTopologyMatch, args: {args}}}]\n"
    )


def test_defaults_of_the_arguments() -> None:
    loaded = load_config(config("{scoringStrategy: {type: MostAllocated, resources: [{name: cpu}]}}"), source="test")
    assert loaded.profiles[0].plugin_config["NodeResourceTopologyMatch"] == {
        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
        "cacheResyncPeriodSeconds": 0,
        "discardReservedNodes": False,
        "cache": {
            "foreignPodsDetect": "All",
            "resyncMethod": "Autodetect",
            "informerMode": "Dedicated",
            "resyncScope": "All",
        },
        "preemptionMode": "Disabled",
    }


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ("{scoringStrategy: {type: Fewest}}", "scoringStrategy.type"),
        ("{scoringStrategy: {}}", "scoringStrategy.type"),
        ("{cache: {foreignPodsDetect: Some}}", "cache.foreignPodsDetect"),
        ("{cache: {resyncScope: Some}}", "cache.resyncScope"),
        ("{preemptionMode: Enabled}", "preemptionMode"),
        ("{cacheResyncPeriod: 3}", "cacheResyncPeriod"),
    ],
)
def test_invalid_arguments(args: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config(args), source="test")
    assert [error.path for error in caught.value.errors] == [f"profiles[0].pluginConfig[0].args.{path}"]


def test_answers_that_were_kept_are_asked_for_again_when_a_report_changes() -> None:
    """The plugin declares that it depends on the node: it has to say when its topology changes."""
    world = harness(report("n", BIG, attributes=SINGLE))
    before = world.table.node_changes.position
    world.handle.objects.put(report("n", {"cpu": "1"}, attributes=SINGLE))
    assert world.table.node_changes.since(before, 10) == [world.table.row_of["n"]]
    state, pod = CycleState(), asking({"cpu": "2", "memory": "1"}).obj()
    assert world.plugin.filter_nodes(state, pod, world.nodes(["n"])).codes.tolist() == [3]
