"""numa-aware: verdicts, scores and the CPUs that sessions assign, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.cpu_assignment import Assignment, assign
from mooring.batch.plugins import numa_aware
from mooring.batch.plugins.numa_aware import NumaAware
from mooring.batch.run import close_session, run_actions
from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import Object, conf, decide, gang, metadata, node, opened, tasks_of

POLICY = "volcano.sh/numa-topology-policy"
SINGLE = "single-numa-node"


def text(weight: str = "") -> str:
    return conf(("priority", "gang"), ("predicates", "numa-aware"), actions="enqueue, allocate", numa_aware=weight)


def numa(name: str, free: str = "0-7", policy: str = SINGLE, manager: str = "static", **spec: Any) -> Object:
    """Two NUMA nodes with four CPUs each."""
    body = {
        "policies": {"CPUManagerPolicy": manager, "TopologyManagerPolicy": policy},
        "numares": {"cpu": {"allocatable": free, "capacity": 8}},
        "cpuDetail": {str(cpu): {"numa": cpu // 4, "socket": cpu // 4, "core": cpu} for cpu in range(8)},
        **spec,
    }
    head = {"apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology"}
    return {**head, "metadata": metadata(name, ""), "spec": body}


def aligned(name: str, pods: int, cpu: str = "3", policy: str | None = SINGLE) -> list[Object]:
    """A gang of Guaranteed pods."""
    made = gang(name, pods)
    for each in made[1:]:
        amounts = {"cpu": cpu, "memory": "1Gi"}
        each["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        if policy is not None:
            each["metadata"]["annotations"][POLICY] = policy
    return made


def test_pods_get_cpus_of_one_numa_node() -> None:
    answer = decide(text(), node("a", "8"), numa("a"), aligned("g", 2))
    assert len(answer["bound"]) == 2
    assert answer["numa"] == {"a": "3,7"}


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ([], "numa info is empty"),
        ([numa("a", manager="none")], "cpu manager policy isn't static"),
        ([numa("a", policy="restricted")], "task topology policy[single-numa-node] is different with node[restricted]"),
        ([numa("a", "")], "cpu allocatable map is empty"),
        ([numa("a", "0-1,4-5")], "container app cannot be assigned by numa"),
        ([numa("a", resReserved={"cpu": "5"})], "container app cannot be assigned by numa"),
        ([numa("b")], "numa info is empty"),
    ],
)
def test_reasons(report: list[Object], reason: str) -> None:
    _, session, _ = opened(text(), node("a", "8"), report, aligned("g", 1, "4"))
    run_actions(session)
    (job,) = session.jobs.values()
    assert [each.text() for each in job.fit_errors.values()] == [f"0/1 nodes are unavailable: 1 {reason}."]


@pytest.mark.parametrize("report", [[], [numa("a", manager="none")], [numa("a", "", policy="none")]])
def test_nodes_without_exclusive_cpus_take_pods_without_a_policy(report: list[Object]) -> None:
    answer = decide(text(), node("a", "8"), report, aligned("g", 1, policy=None))
    assert answer["bound"] == {"default/g-task-0": "a"}


@pytest.mark.parametrize("policy", [None, "none"])
def test_pods_without_a_policy_follow_that_of_the_node(policy: str | None) -> None:
    objects = (node("a", "8"), numa("a", "0-1,4-5"))
    assert decide(text(), *objects, aligned("g", 1, policy=policy))["bound"] == {}
    answer = decide(text(), *objects, aligned("g", 2, "2", policy=policy))
    assert len(answer["bound"]) == 2
    assert answer["numa"] == {"a": ""}


def test_a_gang_that_does_not_fit_returns_its_cpus() -> None:
    answer = decide(text(), node("a", "12"), numa("a"), aligned("g", 3), aligned("h", 2))
    assert sorted(answer["bound"]) == ["default/h-task-0", "default/h-task-1"]
    assert answer["numa"] == {"a": "3,7"}


@pytest.mark.parametrize(("weight", "difference"), [("", 50), ("{weight: 4}", 200), ("{weight: 0}", 0)])
def test_few_numa_nodes_are_preferred(weight: str, difference: int) -> None:
    objects = (node("a", "8"), numa("a", "0-1,4-5", "best-effort"), node("b", "8"), numa("b", policy="best-effort"))
    _, session, plugins = opened(text(weight), *objects, aligned("g", 1, policy="best-effort"))
    plugin = next(each for each in plugins if isinstance(each, NumaAware))
    scores = plugin._score(tasks_of(session)["g-task-0"], SessionNodes(session))
    assert np.asarray(scores).tolist() == [0, difference]


def test_pods_of_other_classes_are_placed_and_reported() -> None:
    objects = gang("g", 1)
    objects[1]["metadata"]["annotations"][POLICY] = SINGLE
    _, session, _ = opened(text(), node("a", "8"), objects)
    run_actions(session)
    assert [task.node_name for task in session.bindings] == ["a"]
    (warning,) = session.job_warnings
    assert "not Guaranteed" in warning[2]


def test_the_cpus_of_bound_pods_stay_taken_until_the_node_reports() -> None:
    cluster, session, plugins = opened(text(), node("a", "8"), numa("a"), aligned("g", 1))
    run_actions(session)
    close_session(session, [(plugin, None) for plugin in plugins])
    assert cluster.memory[NumaAware.name]["a"].free == 0b11111000


def test_equal_nodes_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*given: Any) -> Assignment:
        nonlocal calls
        calls += 1
        return assign(*given)

    monkeypatch.setattr(numa_aware, "assign", counted)
    nodes = [each for number in range(40) for each in (node(f"n{number:02d}", "8"), numa(f"n{number:02d}"))]
    answer = decide(text(), nodes, aligned("g", 10))
    assert len(answer["bound"]) == 10
    assert calls <= 3, "no CPUs taken, three taken, six taken"


def test_without_guaranteed_pods_no_node_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa_aware, "_States", None)
    answer = decide(text(), node("a", "8"), numa("a"), gang("g", 1))
    assert answer["bound"] == {"default/g-task-0": "a"}
