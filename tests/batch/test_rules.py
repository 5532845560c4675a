"""Rules that no golden session touches: how answers are put together, numbers worked by hand, measurements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.conf import read_conf
from mooring.batch.plugins import PLUGINS
from mooring.batch.plugins.proportion import fill
from mooring.batch.plugins.queue_accounts import QueueAccount
from mooring.batch.resource import Resource
from mooring.batch.run import open_session
from mooring.batch.session import NodeUsage
from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, decide, gang, group, node, opened, pod, queue, running


def test_binpack_by_hand() -> None:
    """Two of CPU, three of memory, ten overall; and a weight for what a node does not have."""
    arguments = '{binpack.weight: 10, binpack.cpu: 2, binpack.memory: 3, binpack.resources: "example.com/foo", '
    arguments += "binpack.resources.example.com/foo: 8}"
    asked = {"cpu": "1", "memory": "1Gi"}
    large = {"cpu": "3", "memory": "4Gi", "example.com/foo": "3"}

    def member(name: str, requests: dict[str, str], on: str = "") -> dict[str, Any]:
        return pod(name, "g", on=on, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])

    objects = [
        node("half", "2", memory="4Gi"), node("empty", "4", memory="16Gi"), group("g", 1),
        member("there", asked, "half"), member("small", asked), member("big", large),
    ]  # fmt: skip
    _, session, _ = opened(conf(("gang", "binpack"), binpack=arguments), *objects)
    tasks = {task.name: task for task in session.jobs["default/g"].tasks.values()}
    scores = session.total_scores(tasks["small"], SessionNodes(session))
    assert scores is not None
    assert np.allclose(scores, [700.0, 137.5])
    scores = session.total_scores(tasks["big"], SessionNodes(session))
    assert scores is not None
    assert np.allclose(scores, [0.0, 1000 * (2 * 0.75 + 3 * 0.25) / 13])


def test_what_queues_deserve_by_hand() -> None:
    """Ten cores; one queue of weight 1 wants two, one of weight 3 wants twenty."""
    small, large = QueueAccount("small"), QueueAccount("large")
    for account, wanted in ((small, 2000.0), (large, 20_000.0)):
        account.request, account.limit = Resource(wanted), Resource(10_000.0)
    fill(Resource(10_000.0), [(1, small), (3, large)])
    assert (small.deserved.cpu, large.deserved.cpu) == (2000.0, 8000.0)


def test_usage_turns_busy_nodes_down_and_prefers_idle_ones() -> None:
    cluster, _, _ = opened(conf(("gang",)), *(node(name) for name in "abcd"), gang("g", 1))
    now = cluster.handle.clock()
    cluster.usage = {
        "a": NodeUsage(90, 10, now), "b": NodeUsage(10, 90, now), "c": NodeUsage(50, 20, now),
        "d": NodeUsage(99, 99, now - 301),
    }  # fmt: skip
    text = conf(("gang", "usage"), usage="{usage.weight: 2, thresholds: {cpu: 80, mem: 80}}")
    session = cluster.session(read_conf(text, actions=ACTIONS, plugins=PLUGINS))
    open_session(session)
    (task,) = session.jobs["default/g"].tasks.values()
    (predicate,) = session.all("predicate")
    verdicts = predicate.function(task, SessionNodes(session))
    reasons = [verdicts.status(code).message if code else "" for code in verdicts.codes.tolist()]
    assert ["CPU" in reasons[0], "memory" in reasons[1], reasons[2], reasons[3]] == [True, True, "", ""]
    scores = session.total_scores(task, SessionNodes(session))
    assert scores is not None
    assert np.allclose(scores[2:], [(0.5 + 0.8) / 2 * 200, 0.0]), "what was measured long ago says nothing"


def test_gangs_of_roles() -> None:
    """Each role needs its minimum; where the sum of these exceeds the gang's own, they do not hold."""

    def members(spec: dict[str, Any], cores: str) -> list[str]:
        roles = [("master", 0), ("master", 1), ("worker", 0), ("worker", 1)]
        pods = [pod(f"g-{role}-{number}", "g") for role, number in roles]
        for each, (role, _) in zip(pods, roles, strict=True):
            each["metadata"]["annotations"]["volcano.sh/task-spec"] = role
        return sorted(decide(conf(), node("a", cores), group("g", **spec), *pods)["bound"])

    both = {"least": 2, "minTaskMember": {"master": 1, "worker": 1}}
    assert members(both, "2") == ["default/g-master-0", "default/g-worker-0"]
    assert members(both, "1") == []
    assert len(members({"least": 1, "minTaskMember": {"master": 1, "worker": 1}}, "1")) == 1


def test_one_cluster_shared_by_two_queues() -> None:
    """Four pods of one core, two cores: one of each queue. And what one queue cannot use, the other gets."""
    queues = [queue("p"), queue("q")]
    answer = decide(conf(), node("a", "2"), *queues, gang("x", 2, 1, queue="p"), gang("y", 2, 1, queue="q"))
    assert sorted(answer["bound"]) == ["default/x-task-0", "default/y-task-0"]
    answer = decide(conf(), node("a", "2"), *queues, gang("x", 1, queue="p", cpu="3"), gang("y", 1, queue="q"))
    assert sorted(answer["bound"]) == ["default/y-task-0"]


def test_a_queue_that_is_closed_gets_nothing() -> None:
    answer = decide(conf(), node("a"), queue("shut", state="Closed"), gang("g", 1, queue="shut"))
    assert answer["bound"] == {}
    assert answer["podGroups"]["default/g"]["phase"] == "Inqueue", "it states no minimum, so nobody was asked"


def test_reclaim_spares_what_may_not_go() -> None:
    """A queue that is not reclaimable keeps what it has; so do pods that say so."""
    text = conf(("gang", "conformance"), ("proportion", "predicates"), actions="enqueue, allocate, reclaim")
    new = gang("new", 1, queue="q")
    kept = decide(
        text, node("a", "2"), queue("p", reclaimable=False), queue("q"), running("old", ["a", "a"], queue="p"), new
    )
    assert kept["evicted"] == []
    given = decide(text, node("a", "2"), queue("p"), queue("q"), running("old", ["a", "a"], queue="p"), new)
    assert len(given["evicted"]) == 1
    old = running("old", ["a", "a"], queue="p")
    old[1]["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    spared = decide(text, node("a", "2"), queue("p"), queue("q"), old, new)
    assert spared["evicted"] == ["default/old-task-1"]


@pytest.mark.parametrize(("cores", "bound"), [("2", 1), ("1", 0)])
def test_not_even_a_task_that_asks_for_nothing_goes_to_a_node_that_has_shrunk(cores: str, bound: int) -> None:
    answer = decide(conf(), node("a", cores), running("old", ["a", "a"]), gang("new", 1, cpu=""))
    assert len(answer["bound"]) == bound
    assert answer["queues"]["default"]["allocated"]["pods"] == "3", "the place is held all the same"
