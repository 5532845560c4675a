"""Pods behind the scheduling gate of their queue: when it is removed, and the room that is reserved for them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.volcano import QUEUE_GATE
from mooring.batch.actions import ACTIONS
from mooring.batch.actions.complete import complete
from mooring.batch.conf import read_conf
from mooring.batch.evaluate import _objects, offline_cluster
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import action_steps, close_session, open_session
from mooring.batch.session import Session
from tests.batch.cases import conf, gang, group, node, pod, queue, running, tasks_of

CAPACITY = conf(("priority", "gang"), ("predicates", "capacity"))
TREE = CAPACITY.replace("name: capacity", "name: capacity\n    enableHierarchy: true")


def waiting(
    name: str, owner: str = "g", *, gates: tuple[str, ...] = (QUEUE_GATE,), wants: str = "true", **more: Any
) -> Any:
    """A pod that requests the gate, behind gates."""
    made = pod(name, owner, **more, **({"schedulingGates": [{"name": each} for each in gates]} if gates else {}))
    if wants:
        made["metadata"]["annotations"][QUEUE_GATE] = wants
    return made


def ready(text: str, *objects: Any, removes: bool = True) -> Session:
    """A session with its plugins, before any action."""
    flat = [queue("root"), queue("default"), node("a", "8")]
    for each in objects:
        flat += each if isinstance(each, list) else [each]
    cluster = offline_cluster(list(_objects({"objects": flat})))
    cluster.removes_queue_gates = removes
    session = cluster.session(read_conf(text, actions=ACTIONS, plugins=PLUGINS))
    open_session(session)
    return session


def ran(text: str, *objects: Any, removes: bool = True) -> Session:
    """A session after its actions."""
    session = ready(text, *objects, removes=removes)
    for _ in action_steps(session, ACTIONS):
        pass
    return session


def admitted(session: Session) -> list[str]:
    return sorted(each.name for each in session.admitted.values())


def bound(session: Session) -> list[str]:
    return sorted(task.name for task in session.bindings)


def two_cores(least: int = 1) -> list[Any]:
    return [queue("q", capability={"cpu": "2"}), group("g", least, queue="q")]


def test_gates_are_removed_from_as_many_pods_as_the_queue_has_room_for() -> None:
    session = ran(CAPACITY, *two_cores(), *(waiting(f"g-task-{number}") for number in range(4)))
    assert admitted(session) == ["g-task-0", "g-task-1"]
    assert bound(session) == [], "a gated pod is not placed"


def test_nothing_is_removed_while_the_feature_gate_is_off() -> None:
    session = ran(CAPACITY, *two_cores(), waiting("g-task-0"), removes=False)
    assert admitted(session) == []


def test_a_pod_without_its_gate_keeps_room_until_it_is_placed() -> None:
    far = waiting("g-task-0", gates=(), nodeSelector={"zone": "none"}, cpu="1500m")
    session = ran(CAPACITY, *two_cores(), far, waiting("g-task-1"), pod("g-task-2", "g"))
    assert admitted(session) == [], "2 cores, of which 1.5 are reserved"
    assert bound(session) == [], "the reservation holds for pods without the annotation, too"


def test_the_reservation_ends_when_the_pod_is_placed() -> None:
    session = ran(CAPACITY, *two_cores(), waiting("g-task-0", gates=()), waiting("g-task-1"), waiting("g-task-2"))
    assert bound(session) == ["g-task-0"]
    assert admitted(session) == ["g-task-1"]


def test_a_discarded_placement_is_reserved_again() -> None:
    """The gang of two needs two nodes; the core that its first pod had stays reserved for it."""
    pods = [waiting(f"g-task-{number}", gates=(), nodeSelector={"n": str(number)}) for number in range(2)]
    other = [group("h", 1, queue="q"), waiting("h-task-0", "h")]
    session = ran(CAPACITY, *two_cores(2), *pods, node("b", "4", labels={"n": "0"}), *other)
    assert bound(session) == []
    assert admitted(session) == []


def test_an_evicted_pod_keeps_no_room() -> None:
    """In a full queue, a more important pod takes the place of one that requested the gate."""
    text = conf(("priority", "gang"), ("predicates", "capacity"), actions="allocate, preempt")
    low = running("low", ["a", "a"], queue="q")
    for each in low[1:]:
        each["metadata"]["annotations"] |= {QUEUE_GATE: "true", "volcano.sh/preemptable": "true"}
        each["spec"]["priority"] = 1
    low[0]["spec"]["minMember"] = 0
    important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "x"}, "value": 9}
    high = gang("high", 1, queue="q", priorityClassName="x", phase="Inqueue")
    session = ran(text, queue("q", capability={"cpu": "2"}), important, low, high)
    assert len(session.evictions) == 1


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (waiting("g-task-0", wants=""), "without the annotation"),
        (waiting("g-task-0", wants="yes"), "without the annotation"),
        (waiting("g-task-0", gates=(QUEUE_GATE, "mine")), ""),
        (waiting("g-task-0", gates=("mine",)), ""),
    ],
    ids=["no annotation", "another value", "another gate too", "another gate"],
)
def test_pods_that_keep_their_gates(made: Any, text: str) -> None:
    session = ran(CAPACITY, *two_cores(), made)
    assert admitted(session) == []
    close_session(session, [])
    assert [text in each for _, _, each in session.job_warnings] == ([True] if text else [])


def test_pods_that_request_nothing_are_admitted_too() -> None:
    """Volcano never removes their gate: allocate leaves them out as best-effort pods, backfill as gated ones."""
    session = ran(CAPACITY, *two_cores(), waiting("g-task-0", cpu=""), waiting("g-task-1", cpu="", wants=""))
    assert admitted(session) == ["g-task-0"]


def test_a_closed_queue_admits_nobody() -> None:
    objects = [queue("q", state="Closed", capability={"cpu": "2"}), group("g", 1, queue="q", phase="Inqueue")]
    assert admitted(ran(CAPACITY, *objects, waiting("g-task-0"))) == []


def test_a_group_that_is_not_admitted_to_its_queue_stays_gated() -> None:
    objects = [queue("q", capability={"cpu": "2"}), group("g", 1, queue="q", minResources={"cpu": "3"})]
    assert admitted(ran(CAPACITY, *objects, waiting("g-task-0"))) == []


def test_the_ancestors_of_a_queue_limit_it_without_reservations() -> None:
    queues = [queue("top", capability={"cpu": "2"}), queue("q", parent="top"), queue("p", parent="top")]
    pods = [waiting(f"{name}-task-{number}", name) for name, count in (("g", 2), ("h", 3)) for number in range(count)]
    groups = [group("g", 1, queue="q"), group("h", 1, queue="p")]
    assert len(admitted(ran(TREE, *queues, *groups, *pods))) == 4, "two in each queue, as in Volcano"
    held = running("r", ["a", "a"], queue="q")
    assert admitted(ran(TREE, *queues, *groups, *pods, *held)) == []


def test_without_capacity_there_are_no_reservations_and_a_warning() -> None:
    session = ran(conf(), *two_cores(), *(waiting(f"g-task-{number}") for number in range(3)))
    assert admitted(session) == ["g-task-0", "g-task-1", "g-task-2"]
    assert [each for each in session.warnings if "needs the plugin capacity" in each]


def test_gated_pods_of_a_gang_that_is_bound_in_part_wait_for_their_queue() -> None:
    """The missing pods of such a gang are placed beyond the limit of its queue, but only if they were admitted."""
    text = conf(("priority", "gang"), ("predicates", "capacity"))
    partly = running("g", ["a", "a"], 3, queue="q")
    session = ready(text, queue("q", capability={"cpu": "2"}), *partly, waiting("g-task-2"))
    complete(session)
    assert (admitted(session), bound(session)) == ([], [])


def test_a_domain_search_admits_each_pod_once() -> None:
    text = conf(("gang",), ("predicates", "capacity", "network-topology-aware"))
    tree = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "rack"},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "a"}}}]},
    }
    topology = {"mode": "hard", "highestTierAllowed": 1}
    objects = [tree, queue("q", capability={"cpu": "2"}), group("g", 2, queue="q", networkTopology=topology)]
    session = ran(text, *objects, *(waiting(f"g-task-{number}") for number in range(3)))
    assert admitted(session) == ["g-task-0", "g-task-1"]
    assert all(task.gated for task in tasks_of(session).values())
