"""The domains and scores of network-topology-aware, with the numbers of Volcano's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, gang, hyper_node, node, running, session_of

NODES = [node(f"n{number}", "4") for number in range(4)]
TREE = [
    hyper_node("r0", 1, nodes=["n0", "n1"]),
    hyper_node("r1", 1, nodes=["n2"]),
    hyper_node("z", 2, within=["r0", "r1"]),
]
HARD: dict[str, Any] = {"mode": "hard", "highestTierAllowed": 2}
WEIGHTS = '{weight: 2, "hypernode.binpack.memory": 0}'


def opened(*objects: Any, arguments: str = WEIGHTS) -> Session:
    return session_of(
        conf(("gang", "network-topology-aware"), ("predicates",), network_topology_aware=arguments),
        NODES,
        TREE,
        *objects,
    )


def gradient(session: Session, purpose: str = "allocate") -> list[list[str]]:
    job = session.jobs["default/g"]
    (function,) = session.all("hyper_node_gradient")
    (part,) = job.sub_jobs.values()
    return [[each.name for each in group] for group in function(part, session.hyper_nodes.cluster, purpose)]


def scores(session: Session, task: str) -> list[float]:
    (callback,) = session.all("batch_node_order")
    found = {each.name: each for job in session.jobs.values() for each in job.tasks.values()}
    result: np.ndarray[Any, Any] = callback.function(found[task], SessionNodes(session))
    return [round(each, 3) for each in result.tolist()]


@pytest.mark.parametrize(
    ("pods", "expected"), [(4, [["r0", "r1"], ["z"]]), (8, [["r0"], ["z"]]), (12, [["z"]]), (13, [])]
)
def test_domains_with_room_by_tier(pods: int, expected: list[list[str]]) -> None:
    assert gradient(opened(gang("g", pods, networkTopology=HARD))) == expected


def test_to_evict_the_widest_come_first() -> None:
    session = opened(
        running("other", ["n0"] * 4),
        gang("g", 2, networkTopology=HARD),
        arguments='{"hypernode.gradient.evict.max-hypernodes": 2}',
    )
    assert gradient(session, "evict") == [["z"], ["r1"]]


def test_domains_are_scored_by_utilization() -> None:
    session = opened(running("other", ["n0"]), gang("g", 2, networkTopology=HARD))
    (part,) = session.jobs["default/g"].sub_jobs.values()
    (function,) = session.all("hyper_node_order")
    domains = [session.hyper_nodes.by_name[name] for name in ("r0", "r1", "z")]
    assert function(part, domains).tolist() == pytest.approx([200 * 3 / 8, 200 * 2 / 4, 200 * 3 / 12])


def test_nodes_near_the_gang_are_preferred() -> None:
    session = opened(gang("g", 2, networkTopology=HARD))
    (part,) = session.jobs["default/g"].sub_jobs.values()
    assert scores(session, "g-task-0") == [0, 0, 0, 0]
    part.current = session.hyper_nodes.by_name["r0"]
    assert scores(session, "g-task-0") == [200, 200, 100, 0]  # the cluster has tier 3
    statement = session.statement()
    statement.allocate(part.tasks[next(iter(part.tasks))], "n0")
    assert scores(session, "g-task-1") == [300, 300, 100, 0]  # half of the tasks are there
    statement.discard()
    assert scores(session, "g-task-1") == [200, 200, 100, 0]


def test_pods_without_a_topology_fill_domains_in_use() -> None:
    session = opened(running("other", ["n0"]), gang("plain", 1), arguments='{"hypernode.binpack.memory": 0}')
    total = 1 + 0.8 + 0.64
    cluster = 0.64 * 2 / 16
    expected = [
        100 * (2 / 8 + 0.8 * 2 / 12 + cluster) / total,
        100 * (2 / 8 + 0.8 * 2 / 12 + cluster) / total,
        100 * (1 / 4 + 0.8 * 2 / 12 + cluster) / total,
        100 * (1 + 0.8 + cluster) / total,
    ]
    assert scores(session, "plain-task-0") == pytest.approx(expected, abs=0.001)
