"""task-topology: reading annotations, and buckets of tasks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.batch.job import JobInfo
from mooring.batch.plugins.task_topology import Buckets, Topology, _groups, read_topology
from mooring.batch.resource import Resource
from mooring.batch.task import TaskInfo
from tests.batch.cases import conf, decide, group, job, node, pod, task

SPEC = "volcano.sh/task-spec"


def member(role: str, number: int = 0, on: str = "", cpu: str = "1") -> TaskInfo:
    made = task(f"g-{role}-{number}", "g", on=on, cpu=cpu, annotations={SPEC: role})
    made.role = role
    return made


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (None, []),
        ("ps", [["ps"]]),
        ("ps,worker;chief", [["ps", "worker"], ["chief"]]),
        ("ps,ps", None),
        ("ps,other", None),
        ("ps,", [["ps", ""]]),
    ],
)
def test_groups(text: str | None, groups: list[list[str]] | None) -> None:
    assert _groups(text, roles={"ps", "worker", "chief"}) == groups


def test_annotations() -> None:
    one = job(1, member("ps"), member("worker"))
    assert read_topology(one) is None
    annotate(one, "affinity", "ps,worker")
    annotate(one, "task-order", "ps,worker")
    assert read_topology(one) == Topology([["ps", "worker"]], [], ["ps", "worker"])
    annotate(one, "anti-affinity", "missing")
    assert read_topology(one) is None


def annotate(one: JobInfo, name: str, value: str) -> None:
    annotations = {**one.group.annotations, f"volcano.sh/task-topology-{name}": value}
    metadata = msgspec.structs.replace(one.group.metadata, annotations=annotations)
    one.group = msgspec.structs.replace(one.group, metadata=metadata)


def bucketed(topology: Topology, *tasks: TaskInfo) -> list[set[str]]:
    buckets = Buckets(topology, list(tasks))
    return [set(bucket.tasks) and {each.name for each in bucket.tasks.values()} for bucket in buckets._buckets]


def test_tasks_with_affinity_share_a_bucket() -> None:
    tasks = [member("ps"), member("worker"), member("other")]
    assert bucketed(Topology([["ps", "worker"]], [], []), *tasks) == [{"g-ps-0", "g-worker-0"}]


def test_tasks_with_anti_affinity_are_in_different_buckets() -> None:
    tasks = [member("ps", 0), member("ps", 1)]
    assert bucketed(Topology([], [["ps"]], []), *tasks) == [{"g-ps-0"}, {"g-ps-1"}]


def test_affinity_and_self_anti_affinity_spread_pairs() -> None:
    """Two ps that must be apart, two workers that want a ps: a pair in each bucket."""
    tasks = [member(role, number) for role in ("ps", "worker") for number in (0, 1)]
    found = bucketed(Topology([["ps", "worker"]], [["ps"]], []), *tasks)
    assert found == [{"g-ps-0", "g-worker-0"}, {"g-ps-1", "g-worker-1"}]


def test_the_order_of_roles() -> None:
    ps, worker = member("ps"), member("worker")
    buckets = Buckets(Topology([["ps", "worker"]], [], ["worker", "ps"]), [ps, worker])
    assert buckets.compare(worker, ps) == 1
    assert buckets.compare(ps, worker) == -1
    assert buckets.compare(ps, ps) == 0
    stronger = Buckets(Topology([["worker"]], [["ps"]], []), [ps, worker])
    assert stronger.compare(ps, worker) == 1, "self anti-affinity is stronger than self affinity"


@pytest.mark.parametrize(("room", "worth"), [(4000, 3), (2000, 2), (1000, 1)])
def test_worth_counts_tasks_that_fit(room: float, worth: int) -> None:
    tasks = [member("ps", number) for number in range(3)]
    buckets = Buckets(Topology([["ps"]], [], []), tasks)
    assert buckets.worth(tasks[0], "a", Resource(room, 0, {"pods": 9})) == worth


def test_placed_tasks_count_for_their_node() -> None:
    tasks = [member("ps", number) for number in range(3)]
    buckets = Buckets(Topology([["ps"]], [], []), tasks)
    tasks[0].node_name = "a"
    buckets.placed(tasks[0])
    room = Resource(9000, 0, {"pods": 9})
    assert buckets.worth(tasks[1], "a", room) == 3
    assert buckets.worth(tasks[1], "b", room) == 2


def test_a_session_puts_tasks_with_affinity_on_one_node() -> None:
    def one(affinity: str, anti: str) -> dict[str, Any]:
        made = group("g", 4)
        made["metadata"]["annotations"] = {"volcano.sh/task-topology-affinity": affinity} if affinity else {}
        if anti:
            made["metadata"]["annotations"]["volcano.sh/task-topology-anti-affinity"] = anti
        pods = [pod(f"g-{role}-{number}", "g") for role in ("ps", "worker") for number in range(2)]
        for each in pods:
            each["metadata"]["annotations"][SPEC] = each["metadata"]["name"].split("-")[1]
        text = conf(("gang", "predicates", "task-topology"))
        return decide(text, node("a", "4"), node("b", "4"), made, *pods)["bound"]

    assert len(set(one("ps,worker", "").values())) == 1
    apart = one("ps,worker", "ps")
    assert apart["default/g-ps-0"] != apart["default/g-ps-1"]
