"""The search for nodes in all placements at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from mooring.config import load_config
from mooring.framework import (
    NativePodGroup,
    Nodes,
    PlacementProgress,
    Placements,
    Plugin,
    Pod,
    ProposedPlacements,
    Status,
)
from mooring.loading import plugin_spec
from mooring.loading.circuit_breaker import Guards
from mooring.scheduler.engine import Engine
from mooring.scheduler.placement_search import Trial, search
from mooring.testing import make_node, make_pod
from tests.scheduler.test_pod_group_cycle import TOPOLOGY, World, group, member, racks


def tried(world: World, pods: list[Pod], *, needed: int) -> Trial | None:
    runner = world.engine.profiles.runners["default-scheduler"]
    table = runner.table
    codes = table.label("rack").codes[: len(table)]
    rows = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[rows], return_index=True)
    placements = Placements(table, [str(code) for code in found], rows, starts)
    return search(runner, pods, placements, scheduled=0, needed=needed)


def test_each_rack_gets_as_many_pods_as_fit() -> None:
    world = World(release=TOPOLOGY, tie_break="stable")
    racks(world, "1", "2", "3")
    trial = tried(world, [make_pod(f"p{index}").req(cpu="1").obj() for index in range(3)], needed=1)
    assert trial is not None
    assert trial.placed.tolist() == [1, 2, 3]
    assert trial.nodes.tolist() == [[0, 1, 2], [-1, 1, 2], [-1, -1, 2]]
    assert trial.feasible.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    assert not trial.stopped.any()
    assert world.engine.cache.table.check() == []


def test_a_rack_without_hope_is_given_up() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "1", "3")
    trial = tried(world, [make_pod(f"p{index}").req(cpu="1").obj() for index in range(3)], needed=3)
    assert trial is not None
    assert trial.stopped.tolist() == [True, False]
    assert trial.nodes[:, 1].tolist() == [1, 1, 1]


def test_pods_are_spread_within_a_rack_as_scores_say() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "8", "8", per_rack=2)
    trial = tried(world, [make_pod(f"p{index}").req(cpu="1").obj() for index in range(4)], needed=4)
    assert trial is not None
    for placement, rows in enumerate(({0, 1}, {2, 3})):
        nodes = trial.nodes[:, placement].tolist()
        assert set(nodes) == rows
        assert sorted(nodes.count(row) for row in rows) == [2, 2]


def test_what_needs_more_than_amounts_is_not_searched_in_columns() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "8", "8")
    world.add(make_node("tainted").capacity(cpu="8", memory="9Gi", pods=9).label(rack="r0").obj())
    assert tried(world, [make_pod("plain").obj()], needed=1) is not None
    assert tried(world, [make_pod("port").port(80).obj()], needed=1) is None
    assert tried(world, [make_pod("near").pod_affinity("rack", {"app": "a"}).obj()], needed=1) is None
    assert tried(world, [make_pod("spread").label(app="a").spread("rack", {"app": "a"}).obj()], needed=1) is None
    world.add(make_node("soft").capacity(cpu="8", pods=9).label(rack="r0").taint("x", "", "PreferNoSchedule").obj())
    assert tried(world, [make_pod("plain").obj()], needed=1) is None, "normalized scores differ within a rack"


# Custom plugins at PlacementGenerate, PlacementFeasible and PlacementScore


class Halves(Plugin):
    """The first and the second half of the nodes, or whatever a test sets."""

    made: Callable[[Nodes], object] = lambda nodes: Placements.of_nodes(
        nodes, {"first": nodes.names[: len(nodes) // 2], "second": [*nodes.names[len(nodes) // 2 :], "unknown"], "": []}
    )
    scores: object = np.array([10, 90])
    feasible: Callable[[PlacementProgress], object] = lambda progress: None

    def generate_placements(self, group: NativePodGroup, scheduled: Sequence[Pod], nodes: Nodes) -> Any:
        return type(self).made(nodes)

    def placement_feasible(self, group: NativePodGroup, progress: PlacementProgress) -> Any:
        return type(self).feasible(progress)

    def score_placements(self, proposed: ProposedPlacements) -> Any:
        return type(self).scores


def halves(**members: object) -> tuple[World, type[Halves]]:
    """Return a cluster of four nodes with the plugin at all its points."""
    cls = type("Halves", (Halves,), members)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: "
        "{multiPoint: {enabled: [{name: Halves, weight: 50}]}, "
        "placementGenerate: {disabled: [{name: TopologyPlacementGenerator}]}}}]"
    )
    specs = {"Halves": plugin_spec(cls)}
    config = load_config(text, source="f", plugins=specs, release=TOPOLOGY)
    world = World(release=TOPOLOGY)
    guards = Guards(clock=lambda: world.now)
    world.engine = Engine(config, plugins={"Halves": cls}, clock=lambda: world.now, rng=random.Random(0), guards=guards)
    world.engine.report_group = lambda group, status: world.conditions.append(
        (group.name, status.reason, status.message)
    )
    for index in range(4):
        world.add(make_node(f"n{index}").capacity(cpu="2", memory="9Gi", pods=9).obj())
    return world, cls


def nodes_of(world: World) -> list[str]:
    return sorted(info.node.name for info in world.engine.cache.table.pods.values() if info.node is not None)


def test_the_best_placement_of_a_custom_plugin_is_used() -> None:
    world, cls = halves()
    world.add(group(3), *(member(f"p{index}") for index in range(3)))
    assert len(world.run()[0]) == 3
    assert set(nodes_of(world)) <= {"n2", "n3"}
    cls.scores = np.array([90.5, 10])
    world.add(group(3, "h"), *(member(f"h{index}", of="h") for index in range(3)))
    assert len(world.run()[0]) == 3
    assert set(nodes_of(world)[:3]) <= {"n0", "n1"}


def test_placements_may_overlap() -> None:
    made = lambda nodes: Placements.of_nodes(nodes, {"left": ["n0", "n1"], "middle": ["n1", "n2"]})  # noqa: E731
    world, _ = halves(made=made)
    world.add(group(4), *(member(f"p{index}") for index in range(4)))
    assert len(world.run()[0]) == 4
    assert set(nodes_of(world)) == {"n1", "n2"}


def test_one_placement_with_all_nodes() -> None:
    world, _ = halves(made=lambda nodes: None)
    world.add(group(8), *(member(f"p{index}") for index in range(8)))
    assert len(world.run()[0]) == 8


def test_placement_feasible_sees_the_pods_that_have_a_node() -> None:
    seen: list[tuple[int, int, list[str]]] = []

    def feasible(progress: PlacementProgress) -> object:
        seen.append((progress.scheduled, progress.remaining, [pod.node_name[0] for pod in progress.placed]))
        return Status.wait("not yet") if progress.remaining else None

    world, _ = halves(made=lambda nodes: None, feasible=feasible)
    world.add(group(2), member("a"), member("b"))
    assert world.run()[0] == ["a", "b"]
    assert seen == [(0, 2, []), (1, 1, ["n"]), (2, 0, ["n", "n"])]


def test_a_placement_that_is_given_up() -> None:
    world, _ = halves(feasible=lambda progress: "too small" if progress.scheduled else None)
    world.add(group(2), member("a"), member("b"))
    assert world.run()[0] == []
    text = "0/2 placements are available, first placement status: too small"
    assert text in world.conditions[0][2]
    assert world.engine.cache.table.check() == []


def _broken(*_args: object) -> object:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"made": _broken}, "in _broken: RuntimeError: broken"),
        ({"made": lambda nodes: 5}, "generate_placements returned int; return Placements, None or a reason"),
        (
            {"made": lambda nodes: Placements(nodes.table, ["a", "b"], np.array([0, 1, 1]), np.array([0, 2]))},
            "generate_placements returned placements that share nodes; set disjoint=False",
        ),
        (
            {"made": lambda nodes: Placements(nodes.table, ["a"], np.array([0, 9]), np.array([0]))},
            "generate_placements returned rows that are not in the node table",
        ),
        (
            {"made": lambda nodes: Placements(nodes.table, ["a", "b"], np.array([0, 1]), np.array([0, 2]))},
            "generate_placements returned placements without nodes",
        ),
        ({"scores": np.array([1])}, "score_placements returned ndarray (1,); return 2 numbers in an array"),
        ({"scores": np.array([1, 101])}, "invalid score 101; return 0 to 100"),
        ({"feasible": _broken}, "failed to evaluate placement feasibility: running PlacementFeasible plugin: tests/"),
        ({"feasible": lambda progress: Status.skip()}, "placement_feasible returned Skip; return None, Status.wait"),
    ],
)
def test_faults_of_a_custom_plugin_fail_the_group_and_name_the_reason(members: dict[str, object], message: str) -> None:
    world, _ = halves(**members)
    world.add(group(1), member("a"))
    assert world.run()[0] == []
    (_, reason, told) = world.conditions[0]
    assert reason == "SchedulerError"
    assert message in told
    if members.get("made") is _broken:
        assert told.startswith('running PlacementGenerate plugin "Halves": tests/scheduler/test_placement_search.py:')
    assert world.engine.guards.of("Halves").failures == 1


def test_a_reason_rejects_the_group() -> None:
    world, _ = halves(made=lambda nodes: "no racks today")
    world.add(group(1), member("a"))
    assert world.run()[1] == {"a": "no racks today"}
    assert world.conditions[0][1] == "Unschedulable"
