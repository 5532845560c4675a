"""drf: dominant shares, victims, and the tree of queues."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.plugins.drf import Tree, _is_saturated, _OwnShare, compare_paths
from mooring.batch.resource import Resource, share
from tests.batch.cases import conf, gang, group, job, jobs_of, node, opened, pod, queue, running, session_of, tasks_of

TEXT = conf(("drf",))
HIERARCHY = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n'


def member(name: str, gang: str, cpu: str, memory: str, on: str = "") -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return pod(name, gang, on=on, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])


def test_the_share_is_the_greatest_fraction_of_any_resource() -> None:
    """Of 10 cores, 100Gi and 10 pods: one job is bound by CPU, one by memory, one by pods."""
    objects = [
        node("a", "10", memory="100Gi", pods="10"),
        group("cpu", 1, phase="Running"), member("c", "cpu", "4", "1Gi", "a"),
        group("memory", 1, phase="Running"), member("m", "memory", "1", "50Gi", "a"),
        group("pods", 1, phase="Running"), *(member(f"p{n}", "pods", "0", "0", "a") for n in range(3)),
    ]  # fmt: skip
    _, session, (drf,) = opened(TEXT, *objects)
    assert {uid.split("/")[1]: own.share for uid, own in drf.shares.items()} == {"cpu": 0.4, "memory": 0.5, "pods": 0.3}
    jobs = jobs_of(session)
    assert session.job_less(jobs["pods"], jobs["cpu"])
    assert session.job_less(jobs["cpu"], jobs["memory"])


def test_shares_follow_placements() -> None:
    _, session, (drf,) = opened(TEXT, node("a", "10"), gang("g", 2))
    task, statement = tasks_of(session)["g-task-0"], session.statement()
    statement.allocate(task, "a")
    assert drf.shares["default/g"].share == 0.1
    statement.discard()
    assert drf.shares["default/g"].share == 0


@pytest.mark.parametrize(
    ("old", "new", "victims"),
    [(1, 0, 0), (2, 0, 1), (3, 0, 2), (3, 1, 1), (4, 1, 2)],
)
def test_victims_leave_their_job_no_less_than_the_preemptor_s_job_gets(old: int, new: int, victims: int) -> None:
    """The share of the victims' job is reduced with each victim; equal shares are allowed."""
    objects = [node("a", "10"), running("old", ["a"] * old), running("new", ["a"] * new), pod("next", "new")]
    session = session_of(TEXT, *objects)
    tasks = tasks_of(session)
    candidates = [task for name, task in tasks.items() if name.startswith("old")]
    assert len(session.preemptable(tasks["next"], candidates)) == victims


@pytest.mark.parametrize(
    ("allocated", "request_", "wanted", "saturated"),
    [
        (Resource(1), Resource(2), {"cpu"}, False),
        (Resource(2), Resource(2), {"cpu"}, True),
        (Resource(1), Resource(2), set(), True),
        (Resource(1, 1), Resource(0, 2), {"cpu", "memory"}, False),
        (Resource(), Resource(2), set(), False),
    ],
)
def test_saturation(allocated: Resource, request_: Resource, wanted: set[str], saturated: bool) -> None:
    assert _is_saturated(allocated, request_, wanted) is saturated


def share_tree(total: float, **queues: tuple[str, str, float, float]) -> tuple[Tree, dict[str, Any]]:
    """A tree with a job for each queue: path, weights, allocated CPU and requested CPU."""

    def share_of(allocated: Resource) -> float:
        return share(allocated.cpu, total)

    tree, made = Tree(Resource(total), share_of), {}
    session = session_of(TEXT, *(queue(name) for name in queues), node("a"))
    for allocated in queues.values():
        tree.allocated.add(Resource(allocated[2]))
    for name, (path, weights, allocated, request) in queues.items():
        own = session.queues[name]
        own.hierarchy, own.hierarchy_weights = path, weights
        made[name] = own
        one = job(1)
        one.uid, one.total_request = name, Resource(request)
        tree.put(one, _OwnShare(Resource(allocated), share_of(Resource(allocated))), own)
    return tree, made


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [
        (("root/a", "1/1", 2, 10), ("root/b", "1/1", 4, 10), -1),
        (("root/a", "1/1", 2, 10), ("root/b", "1/4", 4, 10), 1),
        (("root/a", "1/1", 2, 2), ("root/b", "1/1", 4, 10), 1),
        (("root/a", "1/1", 3, 10), ("root/b", "1/1", 3, 10), 0),
        (("root/a/x", "1/1/1", 1, 10), ("root/a/y", "1/1/1", 2, 10), -1),
        (("root/a", "1/junk", 2, 10), ("root/b", "1/0.5", 4, 10), -1),
    ],
    ids=["smaller share", "weight", "saturated last", "equal", "deeper", "weights are at least 1"],
)
def test_queues_compare_by_saturation_then_weighted_share(left: Any, right: Any, sign: int) -> None:
    tree, queues = share_tree(10, left=left, right=right)
    answer = compare_paths(tree.root, queues["left"], queues["right"])
    assert (answer > 0) - (answer < 0) == sign
    answer = compare_paths(tree.root, queues["right"], queues["left"])
    assert (answer > 0) - (answer < 0) == -sign


def test_unsaturated_siblings_are_scaled_to_the_smallest_share() -> None:
    """Two jobs of one queue have 2 and 6 of 10: the queue counts as if both had 2."""
    tree, _ = share_tree(10, a=("root/q", "1/1", 2, 9), b=("root/q", "1/1", 6, 9))
    assert tree.root.children is not None
    assert tree.root.children["q"].account.share == pytest.approx(0.4)


def test_a_clone_is_independent() -> None:
    tree, queues = share_tree(10, a=("root/a", "1/1", 2, 9))
    copy = tree.clone()
    one = job(1)
    one.uid, one.total_request = "a", Resource(9)
    copy.put(one, _OwnShare(Resource(5), 0.5), queues["a"])
    assert tree.root.children is not None
    assert tree.root.children["a"].account.share == pytest.approx(0.2)


def test_hierarchy_reclaims_from_the_queue_with_the_greater_share() -> None:
    def tree_queue(name: str) -> dict[str, Any]:
        made = queue(name)
        made["metadata"]["annotations"] = {
            "volcano.sh/hierarchy": f"root/{name}",
            "volcano.sh/hierarchy-weights": "1/1",
        }
        return made

    objects = [node("a", "8"), tree_queue("p"), tree_queue("q"), running("old", ["a"] * 4, queue="p")]
    objects += [running("mine", ["a"], queue="q"), pod("new", "mine"), pod("later", "mine"), pod("more", "old")]
    session = session_of(HIERARCHY, *objects)
    tasks = tasks_of(session)
    olds = [task for name, task in tasks.items() if name.startswith("old")]
    assert session.queue_less(session.queues["q"], session.queues["p"])
    assert session.reclaimable(tasks["new"], olds) == olds
    assert session.reclaimable(tasks["more"], [tasks["mine-task-0"]]) == []
