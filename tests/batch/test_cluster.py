"""Sessions and the pod-by-pod engine share one account of what nodes have left."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.batch.actions import ACTIONS
from mooring.batch.cluster import BatchCluster
from mooring.batch.conf import read_conf
from mooring.batch.node_amounts import NodeAmounts
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import close_session, open_session, run_actions
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo
from mooring.framework.handle import Handle
from mooring.scheduler.cache import Cache
from mooring.testing import make_pod
from tests.batch.cases import conf, gang, group, hyper_node, node, pod, queue, running


class World:
    """A cache as the engine has it, and sessions on it."""

    def __init__(
        self,
        *objects: Any,
        actions: str = "enqueue, allocate, backfill",
        node_selector: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.cache = Cache()
        handle = Handle(table=self.cache.table, objects=self.cache.objects, rng=random.Random(0))
        self.cluster = BatchCluster(handle, node_selector=node_selector)
        self.conf = read_conf(conf(actions=actions), actions=ACTIONS, plugins=PLUGINS)
        self.put(queue("root"), queue("default"), *objects)

    def put(self, *objects: Any) -> None:
        for each in objects:
            if isinstance(each, list):
                self.put(*each)
                continue
            item = decode_object(each) if isinstance(each, dict) else each
            assert isinstance(item, KubeObject)
            self.cache.put(item)
            self.cluster.put(item)

    def remove(self, item: KubeObject) -> None:
        self.cache.remove(item)
        self.cluster.remove(item)

    def session(self) -> Session:
        """Run a session to its end; nothing is carried out."""
        session = self.open_and_run()
        session.rollback.restore()
        return session

    def open_and_run(self) -> Session:
        """Run a session to its end."""
        session = self.cluster.session(self.conf)
        opened = open_session(session)
        run_actions(session)
        close_session(session, opened)
        return session

    def carry_out(self, session: Session) -> list[TaskInfo]:
        """Assume what a session bound, as the live scheduler does, and restore the rest of the table."""
        for task in session.bindings:
            self.cache.assume(task.pod, task.node_name)
        session.rollback.restore(keep=self.cache.assumed)
        return session.bindings

    def attempt(self, which: int) -> None:
        """Assume a waiting pod of the pod-by-pod engine on the first node with room."""
        table = self.cache.table
        waiting = [
            pod
            for pod in self.cache.objects.lister(Pod).list()
            if pod.scheduler_name != "volcano" and pod.uid not in table.pods
        ]
        pod = waiting[which % len(waiting)] if waiting else None
        for info in table.nodes if pod is not None else ():
            if pod is not None and info.free("cpu") >= table.template(pod).requests["cpu"]:
                self.cache.assume(pod, info.name)
                return

    def check_amounts(self) -> None:
        """Compare the amounts that are updated row by row with amounts computed from scratch."""
        current, fresh = self.cluster._amounts, NodeAmounts(self.cache.table)
        current.refresh()
        fresh.refresh()
        rows = len(self.cache.table)
        for name, slot in fresh.slots.items():
            for column in ("allocatable", "used", "releasing"):
                ours, theirs = getattr(current, column)[current.slots[name]], getattr(fresh, column)[slot]
                assert ours[:rows].tolist() == theirs[:rows].tolist(), (name, column)


def single(name: str, cpu: str) -> Pod:
    return make_pod(name).req(cpu=cpu).uid(name).obj()


def test_a_session_counts_the_pods_that_the_engine_has_assumed() -> None:
    world = World(node("a", "4"), gang("g", 1, cpu="4"))
    world.put(single("p", "4"))
    world.cache.assume(single("p", "4"), "a")
    assert world.session().bindings == []


def placed(session: Session) -> dict[str, str]:
    return {task.name: task.node_name for task in session.bindings}


_POOLS = (("pool", "batch"), ("pool", "train"))


def pools() -> list[Any]:
    labels = {"a": {"pool": "web"}, "b": {"pool": "batch"}, "c": {"other": "batch"}, "d": {"pool": "train"}}
    return [node(name, "4", labels=own) for name, own in labels.items()]


def test_sessions_use_the_nodes_that_have_one_of_the_selected_labels() -> None:
    world = World(*pools(), gang("g", 4, 1, cpu="4"), node_selector=_POOLS)
    session = world.session()
    assert set(placed(session).values()) == {"b", "d"}
    assert (sorted(session.nodes), session.total.cpu) == (["b", "d"], 8000)
    assert len(World(*pools(), gang("g", 4, 1, cpu="4")).session().bindings) == 4


def test_pods_without_requests_stay_off_other_nodes_also_if_scores_are_cached() -> None:
    others = [node(f"other-{number}", "64") for number in range(100)]
    for cpu in ("", "1"):
        world = World(*others, *pools(), gang("g", 6, cpu=cpu), node_selector=_POOLS)
        found = placed(world.session())
        assert (len(found), set(found.values()) <= {"b", "d"}) == (6, True)


def test_a_label_that_is_added_or_removed_counts_in_the_next_session() -> None:
    world = World(*pools(), gang("g", 1, cpu="4"), node_selector=_POOLS[:1])
    assert placed(world.session()) == {"g-task-0": "b"}
    world.put(node("b", "4"), node("c", "4", labels={"pool": "batch"}))
    assert placed(world.session()) == {"g-task-0": "c"}
    world.put(node("c", "4"))
    session = world.session()
    assert (session.bindings, session.total.cpu) == ([], 0)


def test_nobody_is_evicted_from_a_node_that_is_not_selected() -> None:
    importance = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10
    }  # fmt: skip
    gangs = [importance, running("low", ["a"] * 4), gang("high", 1, priorityClassName="high")]
    for selector, count in (((("pool", "web"),), 1), (_POOLS, 0)):
        world = World(*pools(), *gangs, actions="enqueue, allocate, preempt", node_selector=selector)
        for place in "bd":
            world.cache.assume(single(place, "4"), place)
        assert len(world.session().evictions) == count, selector


def test_domains_of_the_network_contain_only_selected_nodes() -> None:
    racks = [hyper_node("rack", 1, nodes=["a", "b"]), hyper_node("other", 1, nodes=["c", "d"])]
    world = World(*pools(), *racks, gang("g", 2, cpu="1"), node_selector=_POOLS)
    session = world.session()
    names = {each.name: [session.node_list[row].name for row in each.rows] for each in session.hyper_nodes.domains}
    assert (names["rack"], names["other"]) == (["b"], ["d"])
    assert set(placed(session).values()) <= {"b", "d"}


def test_a_session_uses_the_room_of_an_assumption_that_was_undone() -> None:
    world = World(node("a", "4"), gang("g", 1, cpu="4"))
    pod = single("p", "4")
    world.put(pod)
    world.cache.assume(pod, "a")
    world.cache.forget(pod)
    assert [task.name for task in world.session().bindings] == ["g-task-0"]


def test_in_flight_binds_of_a_session_count_for_the_engine_and_the_next_session() -> None:
    world = World(node("a", "4"), gang("g", 1, cpu="4"), gang("h", 1, cpu="4"))
    (task,) = world.carry_out(world.open_and_run())
    assert world.cache.table.nodes[0].free("cpu") == 0
    assert task.uid in world.cache.assumed
    again = world.session()
    assert again.bindings == []
    assert again.jobs[task.job].tasks[task.uid].status == "Binding"
    world.cache.forget(task.pod)
    assert len(world.session().bindings) == 1


def test_a_pod_that_is_being_evicted_counts_as_releasing_whichever_engine_evicts_it() -> None:
    victim = make_pod("p").req(cpu="4").uid("p").phase("Running").node("a").obj()
    world = World(node("a", "4"), victim, gang("g", 1, cpu="4"))
    assert world.session().nodes["a"].future_idle.cpu == 0
    world.cache.start_eviction(victim)
    session = world.session()
    assert session.bindings == []
    assert session.nodes["a"].tasks["default/p"].status == "Releasing"
    assert (session.nodes["a"].idle.cpu, session.nodes["a"].releasing.cpu) == (0, 4000)
    world.cache.eviction_failed(victim)
    assert world.session().nodes["a"].releasing.cpu == 0
    world.cache.start_eviction(victim)
    world.remove(victim)
    assert world.cache.table.evicting == set()
    assert len(world.session().bindings) == 1


def test_finished_pods_count_for_their_gang_and_on_no_node() -> None:
    world = World(node("a", "4"), group("g", 2), pod("g-task-0", "g", on="a", phase="Succeeded"), pod("g-task-1", "g"))
    session = world.session()
    assert [task.status for task in session.jobs["default/g"].tasks.values()] == ["Binding", "Succeeded"]
    assert world.cache.table.pods == {}


def test_restoring_leaves_the_table_as_it_was_but_for_assumed_pods() -> None:
    world = World(node("a", "4"), gang("g", 2, cpu="2"))
    session = world.cluster.session(world.conf)
    open_session(session)
    run_actions(session)
    first, second = session.bindings
    world.cache.assume(first.pod, first.node_name)
    session.rollback.restore(keep=world.cache.assumed)
    assert world.cache.table.pods.keys() == {first.uid}
    assert second.uid not in world.cache.table.pods
    assert world.cache.table.check() == []


steps = st.lists(
    st.tuples(
        st.sampled_from(["single", "gang", "attempt", "session", "bound", "failed", "deleted", "evict", "node"]),
        st.integers(0, 7),
        st.integers(1, 3),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=steps)
def test_no_interleaving_of_both_engines_overcommits_a_node(steps: list[tuple[str, int, int]]) -> None:
    world = World(*(node(f"n{number}", "4") for number in range(3)))
    nodes = 3
    for number, (step, which, amount) in enumerate(steps):
        table, assumed = world.cache.table, sorted(world.cache.assumed)
        if step == "single":
            world.put(single(f"s{number}", str(amount)))
        elif step == "gang":
            world.put(gang(f"g{number}", amount, cpu=str(1 + which % 3)))
        elif step == "attempt":
            world.attempt(which)
        elif step == "session":
            world.carry_out(world.open_and_run())
        elif step == "bound" and assumed:
            world.put(table.pods[assumed[which % len(assumed)]].pod)
        elif step == "failed" and assumed:
            world.cache.forget(table.pods[assumed[which % len(assumed)]].pod)
        elif step == "deleted" and table.pods:
            world.remove(list(table.pods.values())[which % len(table.pods)].pod)
        elif step == "evict" and table.pods:
            world.cache.start_eviction(list(table.pods.values())[which % len(table.pods)].pod)
        elif step == "node":
            nodes += 1
            world.put(node(f"n{nodes}", "4"))
        assert all(info.free("cpu") >= 0 for info in table.nodes), step
        assert table.check() == []
        world.check_amounts()
