"""capacity: configured shares, flat and in a tree."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.plugins.capacity import CapacityQueue, _common_level
from mooring.batch.session import Session
from tests.batch.cases import conf, gang, jobs_of, node, opened, queue, running, session_of, task, tasks_of

FLAT = conf(("capacity",))


def tree(arguments: str = "{}") -> str:
    option = f"{{name: capacity, enableHierarchy: true, arguments: {arguments}}}"
    return f'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - {option}\n'


def own(name: str, cpu: str = "", parent: str = "", **spec: Any) -> dict[str, Any]:
    """A queue that deserves some cores."""
    deserved = {"deserved": {"cpu": cpu}} if cpu else {}
    return queue(name, **deserved, **({"parent": parent} if parent else {}), **spec)


@pytest.mark.parametrize(
    ("spec", "deserved", "limit"),
    [
        ({"deserved": {"cpu": "2"}}, 2000, 10_000),
        ({"deserved": {"cpu": "20"}}, 10_000, 10_000),
        ({"deserved": {"cpu": "2"}, "capability": {"cpu": "1"}}, 1000, 1000),
        ({"deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "3"}}}, 3000, 10_000),
        ({}, 0, 10_000),
    ],
    ids=["given", "more than there is", "capability", "guarantee", "nothing"],
)
def test_flat_queues(spec: dict[str, Any], deserved: float, limit: float) -> None:
    _, _, (capacity,) = opened(FLAT, node("a", "10"), queue("q", **spec), gang("g", 1, queue="q"))
    found = capacity.queues["q"]
    assert (found.deserved.cpu, found.limit.cpu) == (deserved, limit)


def test_a_queue_that_deserves_nothing_has_share_one() -> None:
    objects = [node("a", "10"), own("p", "4"), queue("q"), running("x", ["a"], queue="p"), gang("y", 1, queue="q")]
    _, session, (capacity,) = opened(FLAT, *objects)
    assert (capacity.queues["p"].share, capacity.queues["q"].share) == (0.25, 1.0)
    assert session.queue_less(session.queues["p"], session.queues["q"])


def test_equal_shares_favour_the_queue_that_deserves_something() -> None:
    objects = [node("a", "10"), queue("p"), own("q", "1"), gang("y", 1, queue="p"), running("x", ["a"], queue="q")]
    session = session_of(FLAT, *objects)
    assert session.queue_less(session.queues["q"], session.queues["p"])


TREE = [
    node("a", "16"),
    own("eng", "8"), own("dev", "4", "eng"), own("test", "4", "eng"),
    own("ops", "8"), own("prod", "8", "ops"),
]  # fmt: skip


def test_the_tree() -> None:
    _, _, (capacity,) = opened(tree(), *TREE, running("x", ["a", "a"], queue="dev"))
    queues: dict[str, CapacityQueue] = capacity.queues
    assert queues["dev"].ancestors == ["root", "eng"]
    assert {child.name for child in queues["eng"].children} == {"dev", "test"}
    assert [queues[name].allocated.cpu for name in ("dev", "eng", "root", "ops")] == [2000, 2000, 2000, 0]
    assert queues["root"].deserved.cpu == 16_000, "the root deserves what its children do"
    assert queues["dev"].is_leaf
    assert not queues["eng"].is_leaf
    assert (queues["dev"].ancestor(1), queues["dev"].ancestor(2), queues["dev"].ancestor(3)) == ("eng", "root", None)
    assert queues["dev"].ancestors_within(0) == set()
    assert queues["dev"].ancestors_within(1) == {"eng"}
    levels = [_common_level(queues["dev"], queues[name]) for name in ("test", "prod", "dev")]
    assert levels == [1, 0, 1]


def test_limits_go_down_the_tree() -> None:
    """A child may have its parent's limit, without what is guaranteed to its siblings, at most its capability."""
    queues = [
        own("eng", "8", capability={"cpu": "8"}),
        own("dev", "4", "eng", guarantee={"resource": {"cpu": "1"}}),
        own("test", "4", "eng", guarantee={"resource": {"cpu": "2"}}),
        own("ops", "2", "eng", capability={"cpu": "3"}),
    ]
    _, _, (capacity,) = opened(tree(), node("a", "16"), *queues, gang("g", 1, queue="dev"))
    assert [capacity.queues[name].limit.cpu for name in ("eng", "dev", "test", "ops")] == [8000, 6000, 7000, 3000]
    assert capacity.queues["dev"].capability.cpu == 8000, "inherited"


@pytest.mark.parametrize(
    ("objects", "warning"),
    [
        ([*TREE, gang("g", 1, queue="eng")], "which is not a leaf"),
        ([node("a"), own("lost", "1", "missing"), gang("g", 1, queue="lost")], "do not lead to the root"),
        ([node("a"), own("p", "1", "q"), own("q", "1", "p"), gang("g", 1, queue="p")], "do not lead to the root"),
    ],
    ids=["job above leaves", "missing parent", "cycle"],
)
def test_an_invalid_tree_schedules_nothing(objects: list[Any], warning: str) -> None:
    session = session_of(tree(), *objects)
    assert warning in session.warnings[0]
    (one,) = session.jobs.values()
    asked = next(iter(one.tasks.values()))
    assert not session.allocatable(session.queues[one.queue], asked)
    assert not session.preemptive(session.queues[one.queue], [asked])
    assert not session.job_enqueueable(one)


def test_leaves_compare_by_the_branches_below_their_common_ancestor() -> None:
    """dev has less of its own share than prod, but eng has more than ops."""
    objects = [*TREE, running("x", ["a"], queue="dev"), running("y", ["a"] * 4, queue="test")]
    session = session_of(tree(), *objects, running("z", ["a"] * 3, queue="prod"))
    queues = session.queues
    assert session.queue_less(queues["prod"], queues["dev"])
    assert session.queue_less(queues["dev"], queues["test"])
    assert session.queue_less(queues["dev"], queues["eng"]), "leaves come first"
    assert session.victim_queue_less(queues["test"], queues["prod"], queues["dev"]), "closer queues lose first"


def allows(session: Session, name: str, cpu: str) -> bool:
    return session.allocatable(session.queues[name], task(cpu=cpu))


def test_allocatable_checks_all_ancestors() -> None:
    queues = [own("eng", "4", capability={"cpu": "4"}), own("dev", "2", "eng"), own("test", "2", "eng")]
    session = session_of(
        tree(), node("a", "16"), *queues, running("x", ["a"] * 3, queue="test"), gang("g", 1, queue="dev")
    )
    assert allows(session, "dev", "1")
    assert not allows(session, "dev", "2"), "eng has no room"
    assert not allows(session, "eng", "1"), "not a leaf"


@pytest.mark.parametrize(("levels", "expected"), [(0, False), (1, True)])
def test_an_ancestor_that_deserves_more_may_reclaim(levels: int, expected: bool) -> None:
    queues = [own("eng", "8"), own("dev", "1", "eng")]
    text = tree(f"{{ancestorReclaimLevel: {levels}}}")
    session = session_of(text, node("a", "16"), *queues, running("x", ["a"], queue="dev"), gang("g", 1, queue="dev"))
    assert session.preemptive(session.queues["dev"], [task()]) is expected


@pytest.mark.parametrize(
    ("victims_queue", "expected"),
    [
        ({"deserved": {"cpu": "2"}}, 2),
        ({"deserved": {"cpu": "4"}}, 0),
        ({}, 4),
        ({"guarantee": {"resource": {"cpu": "3"}}}, 1),
        ({"deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "3"}}}, 1),
    ],
    ids=["deserved", "within deserved", "deserves nothing", "guarantee only", "guarantee above deserved"],
)
def test_reclaim(victims_queue: dict[str, Any], expected: int) -> None:
    """A queue with four cores loses down to what it deserves, and never goes below its guarantee."""
    objects = [node("a", "8"), queue("p", **victims_queue), own("q", "4"), running("old", ["a"] * 4, queue="p")]
    session = session_of(FLAT, *objects, gang("new", 1, queue="q"))
    tasks = tasks_of(session)
    olds = [each for name, each in tasks.items() if name.startswith("old")]
    assert len(session.reclaimable(tasks["new-task-0"], olds)) == expected


def test_admission_reserves_in_the_whole_branch() -> None:
    queues = [own("eng", "4", capability={"cpu": "4"}), own("dev", "2", "eng"), own("test", "2", "eng")]
    jobs = [gang("x", 1, queue="dev", minResources={"cpu": "3"}), gang("y", 1, queue="test", minResources={"cpu": "2"})]
    session = session_of(tree(), node("a", "16"), *queues, *jobs)
    found = jobs_of(session)
    assert session.job_enqueueable(found["x"])
    assert not session.job_enqueueable(found["y"])
    assert session.notes[0][1] == "queue resource quota insufficient: insufficient cpu"


def test_placements_count_in_all_ancestors() -> None:
    _, session, (capacity,) = opened(tree(), *TREE, gang("g", 1, queue="dev"))
    statement = session.statement()
    statement.allocate(tasks_of(session)["g-task-0"], "a")
    assert [capacity.queues[name].allocated.cpu for name in ("dev", "eng", "root")] == [1000, 1000, 1000]
    assert capacity.queues["dev"].share == 0.25
    statement.discard()
    assert [capacity.queues[name].allocated.cpu for name in ("dev", "eng", "root")] == [0, 0, 0]
