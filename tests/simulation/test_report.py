"""Outcomes as tables and lists."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cli.output import plain
from mooring.simulation.outcome import NodeOutcome, Outcome, PodOutcome, State, Use
from mooring.simulation.report import Grid, Listing, report, workload_name
from mooring.simulation.scenario import Workload

WEB = Workload("Deployment", "default", "web")


def pod(name: str, state: State = State.PLACED, **more: Any) -> PodOutcome:
    defaults: dict[str, Any] = {"namespace": "default", "workload": WEB, "profile": "p", "priority": 0}
    return PodOutcome(name=name, state=state, **{**defaults, **more})


def node(name: str, cpu: int = 0, zone: str = "", **more: Use) -> NodeOutcome:
    uses = {"pods": Use(1 if cpu else 0, 10), "cpu": Use(cpu, 1000), "memory": Use(0, 2**30), **more}
    return NodeOutcome(name=name, zone=zone, uses=uses)


def outcome(pods: list[PodOutcome], nodes: list[NodeOutcome]) -> Outcome:
    return Outcome(seed=7, profiles=("a", "b"), pods=pods, nodes=nodes, attempts=3, seconds=12.5, notes=[])


def part(title: str, found: Outcome, *, wide: bool = False) -> Any:
    return next(each for each in report(found, wide=wide) if not isinstance(each, str) and each.title.startswith(title))


def test_a_small_report_in_full() -> None:
    pods = [
        pod("web-1", node="n1"),
        pod("web-2", node="n2"),
        pod("big", State.PENDING, workload=None, message="0/2 nodes are available: 2 Insufficient cpu."),
        pod("old", State.EVICTED, workload=None, node="n1", evicted_by="default/web-1", priority=-5),
    ]
    text = "\n\n".join(plain(each) for each in report(outcome(pods, [node("n1", 900, "z1"), node("n2", 250, "z2")])))
    assert (
        text
        == """\
2 nodes, 4 pods; profiles a, b; seed 7
2 placed, 1 pending, 1 evicted; 3 attempts, 12 s simulated

WORKLOADS
WORKLOAD             PODS  ON NODES  PENDING  EVICTED  NODES  WHERE
Deployment web          2         2                        2  n1, n2
pods of no workload     2         0        1        1

NODES
NODE         ZONE  PODS  CPU              MEMORY
n1           z1    1/10  #########.  90%  ..........   0%
n2           z2    1/10  ##........  25%  ..........   0%
all 2 nodes        2/20  ######....  57%  ..........   0%

PENDING
1 pod: Pod big
  0/2 nodes are available: 2 Insufficient cpu.

EVICTED
POD  PRIORITY  LEFT NODE  FOR POD  PRIORITY
old        -5  n1         web-1           0"""
    )


@pytest.mark.parametrize(
    ("nodes", "where"),
    [
        (["n0"], "n0"),
        (["n0", "n0", "n1"], "n0 2, n1 1"),
        (["n0", "n1", "n2", "n3", "n4"], "z0 3, z1 2"),
    ],
)
def test_where_names_nodes_if_they_are_few(nodes: list[str], where: str) -> None:
    pods = [pod(f"web-{number}", node=name) for number, name in enumerate(nodes)]
    all_nodes = [node(f"n{number}", zone=f"z{number % 2}") for number in range(5)]
    assert part("Workloads", outcome(pods, all_nodes)).rows[0][-1] == where


def test_many_nodes_are_cut_to_the_fullest() -> None:
    nodes = [node(f"n{number:02}", 10 * number) for number in range(30)]
    short, wide = (part("Nodes", outcome([], nodes), wide=wide) for wide in (False, True))
    assert isinstance(short, Grid)
    assert [row[0] for row in short.rows[:2]] == ["n29", "n28"]
    assert len(short.rows) == 13
    assert short.footer == "18 more, 1 of them empty; -o wide shows all"
    assert [row[0] for row in wide.rows] == [*(each.name for each in nodes), "all 30 nodes"]
    assert wide.footer == ""


def test_other_resources_have_a_column_when_somebody_asks_for_them() -> None:
    used = node("n1", **{"example.com/gpu": Use(1, 4), "hugepages-2Mi": Use(0, 2**22)})
    titles = [[c.title for c in part("Nodes", outcome([], [used]), wide=wide).columns][5:] for wide in (False, True)]
    assert titles == [["example.com/gpu"], ["example.com/gpu", "hugepages-2Mi"]]


def test_equal_messages_are_told_once() -> None:
    pods = [pod(f"web-{number}", State.PENDING, message="no") for number in range(3)]
    pods += [
        pod("gate", State.GATED, message="wait", workload=None),
        pod("p", State.PENDING, message="no", workload=None),
    ]
    found = part("Pending", outcome(pods, []))
    assert isinstance(found, Listing)
    assert found.items == [("4 pods: Deployment web (3), Pod p", "no"), ("1 pod: Pod gate", "wait")]
    assert part("Pending", outcome(pods, []), wide=True).items[0][0] == (
        "4 pods: default/web-0, default/web-1, default/web-2, default/p"
    )


def test_long_lists_of_names_are_cut() -> None:
    pods = [pod(f"p{number}", State.PENDING, message="no", workload=None) for number in range(8)]
    assert part("Pending", outcome(pods, [])).items[0][0] == "8 pods: Pod p0, Pod p1, Pod p2, Pod p3, Pod p4 and 3 more"


def test_wide_has_every_pod() -> None:
    found = part("Pods", outcome([pod("web-1", node="n1", attempts=2, priority=5)], []), wide=True)
    assert found.rows == [("default", "web-1", "n1", "placed", "p", "5", "2")]


@pytest.mark.parametrize(
    ("workload", "name"),
    [(WEB, "Deployment web"), (Workload("Job", "team", "x"), "Job team/x"), (None, "pods of no workload")],
)
def test_workload_names(workload: Workload | None, name: str) -> None:
    assert workload_name(workload) == name


def test_plain_data() -> None:
    data = outcome([pod("web-1", node="n1"), pod("b", State.PENDING, message="no")], [node("n1", 250)]).as_dict()
    assert data["summary"] == {
        "nodes": 1, "pods": 2, "running": 0, "placed": 1, "pending": 1, "gated": 0, "evicted": 0,
        "attempts": 3, "simulatedSeconds": 12.5, "profiles": ["a", "b"], "seed": 7,
    }  # fmt: skip
    assert data["pods"][0] == {
        "namespace": "default", "name": "web-1", "workload": {"kind": "Deployment", "name": "web"}, "profile": "p",
        "priority": 0, "state": "placed", "node": "n1", "attempts": 0, "message": "", "nominatedNode": None,
        "victims": [], "evictedBy": None, "gang": None,
    }  # fmt: skip
    assert data["nodes"][0]["resources"]["cpu"] == {"requested": "250m", "allocatable": "1", "percent": 25.0}
    assert data["pending"] == [{"message": "no", "pods": ["default/b"]}]
