"""NodeResourcesAllocatable: means, rounding, normalising, arguments."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.node import Node
from mooring.config import ConfigError, load_config
from mooring.plugins.node_resources.allocatable import NodeResourcesAllocatable
from mooring.testing import make_node, make_pod, run_plugin


def sized(name: str, **amounts: Any) -> Node:
    return make_node(name).capacity(**amounts).obj()


SMALL, BIG = sized("small", cpu="2", memory="4Gi"), sized("big", cpu="8", memory="16Gi")
MIDDLE = sized("middle", cpu="4", memory="8Gi")


def scores(args: dict[str, Any], *nodes: Node) -> tuple[dict[str, int], dict[str, int]]:
    run = run_plugin(NodeResourcesAllocatable, make_pod("p").obj(), nodes=nodes, args=args)
    return run.raw_scores, run.scores


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ({}, {"small": 100, "middle": 66, "big": 0}),
        ({"mode": "Least"}, {"small": 100, "middle": 66, "big": 0}),
        ({"mode": "Most"}, {"small": 0, "middle": 33, "big": 100}),
    ],
)
def test_small_nodes_or_big_ones(mode: dict[str, str], expected: dict[str, int]) -> None:
    assert scores(mode, SMALL, MIDDLE, BIG)[1] == expected


def test_equal_nodes_get_nothing() -> None:
    assert scores({}, BIG, sized("other", cpu="8", memory="16Gi"))[1] == {"big": 0, "other": 0}


@pytest.mark.parametrize(("mode", "expected"), [("Least", {"a": -3, "b": -1}), ("Most", {"a": 3, "b": 1})])
def test_the_mean_is_cut_towards_zero(mode: str, expected: dict[str, int]) -> None:
    """11 / 3 and 5 / 3: downwards would be -4 and -2."""
    resources = [{"name": "memory", "weight": 1}, {"name": "cpu", "weight": 2}]
    nodes = (sized("a", cpu="1m", memory="9"), sized("b", cpu="1m", memory="3"))
    assert scores({"mode": mode, "resources": resources}, *nodes)[0] == expected


def test_names_that_are_not_counted_still_weigh() -> None:
    """Pods, or a resource that no node has, add nothing to the sum, but their weight divides it."""
    resources = [{"name": "cpu", "weight": 1}, {"name": "pods", "weight": 1}, {"name": "example.com/x", "weight": 2}]
    assert scores({"mode": "Most", "resources": resources}, SMALL, BIG)[0] == {"small": 500, "big": 2000}


def test_of_two_entries_for_a_name_the_last_counts() -> None:
    resources = [{"name": "cpu", "weight": 7}, {"name": "memory", "weight": 1}, {"name": "cpu", "weight": 1}]
    raw, _ = scores({"mode": "Most", "resources": resources}, sized("a", cpu="3", memory="1001"))
    assert raw == {"a": (3000 + 1001) // 2}


def config(args: str) -> str:
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: NodeResourcesAllocatable}]}}\n"
        f"  pluginConfig: [{{name: NodeResourcesAllocatable, args: {args}}}]\n"
    )


def test_defaults_of_the_arguments() -> None:
    loaded = load_config(config("{}"), source="test")
    assert loaded.profiles[0].plugin_config["NodeResourcesAllocatable"] == {
        "mode": "Least",
        "resources": [{"name": "cpu", "weight": 1 << 20}, {"name": "memory", "weight": 1}],
    }


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ("{mode: Fewest}", "mode"),
        ("{resources: [{name: cpu}]}", "resources[0].weight"),
        ("{resources: [{name: cpu, weight: -1}]}", "resources[0].weight"),
        ("{modes: Least}", "modes"),
    ],
)
def test_invalid_arguments(args: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config(args), source="test")
    assert [error.path for error in caught.value.errors] == [f"profiles[0].pluginConfig[0].args.{path}"]
