"""proportion: water-filling, limits and the callbacks that depend on them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.callbacks import PERMIT, REJECT
from mooring.batch.plugins.proportion import fill
from mooring.batch.plugins.queue_accounts import QueueAccount, fits_in, named_resources, queue_limit, reserved
from mooring.batch.resource import UNLIMITED, Resource
from tests.batch.cases import conf, gang, group, job, jobs_of, node, opened, queue, running, session_of, task, tasks_of

TEXT = conf(("proportion",))


def deserved(total: Resource, *queues: tuple[int, Resource, Resource | None, Resource | None]) -> list[Resource]:
    """Weight, request, limit and guarantee of each queue."""
    accounts = []
    for number, (weight, request, limit, guarantee) in enumerate(queues):
        account = QueueAccount(f"q{number}")
        account.request = request
        account.limit = total.clone() if limit is None else limit
        account.guarantee = Resource() if guarantee is None else guarantee
        accounts.append((weight, account))
    fill(total, accounts)
    return [account.deserved for _, account in accounts]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ([(1, 2, None, None), (3, 20, None, None)], [2, 8]),
        ([(1, 20, None, None), (1, 20, None, None)], [5, 5]),
        ([(1, 20, None, None), (4, 20, None, None)], [2, 8]),
        ([(1, 1, None, None), (1, 1, None, None)], [1, 1]),
        ([(1, 20, 3, None), (1, 20, None, None)], [3, 7]),
        ([(1, 0, None, 4), (1, 20, None, None)], [4, 6]),
        ([(0, 20, None, None), (1, 20, None, None)], [0, 10]),
        ([(1, 0, None, None)], [0]),
    ],
    ids=["spec", "equal", "weights", "little", "limit", "guarantee", "no weight", "no request"],
)
def test_water_filling(queues: list[Any], expected: list[float]) -> None:
    """Ten cores; amounts in cores."""
    read = [
        (weight, Resource(request), None if limit is None else Resource(limit), guarantee and Resource(guarantee))
        for weight, request, limit, guarantee in queues
    ]
    assert [round(each.cpu, 3) for each in deserved(Resource(10), *read)] == expected


def test_a_scalar_that_is_not_requested_is_not_deserved() -> None:
    (found,) = deserved(Resource(10, 10, {"gpu": 4}), (1, Resource(10, 10), Resource(10, 10, {"gpu": 4}), None))
    assert found.get("gpu") == 0
    assert found.cpu == 10


@pytest.mark.parametrize(
    ("capability", "expected"),
    [({}, 8000), ({"cpu": "3"}, 3000), ({"cpu": "20"}, 8000), ({"memory": "1Gi"}, 8000), ({"cpu": "0"}, 8000)],
)
def test_the_limit_leaves_out_what_is_guaranteed_to_others(capability: dict[str, str], expected: float) -> None:
    """Ten cores, of which three are guaranteed, one of them to this queue."""
    session = session_of(TEXT, queue("q", **({"capability": capability} if capability else {})), node("a"))
    account = QueueAccount("q")
    account.guarantee = Resource(1000)
    limit = queue_limit(Resource(10_000, 1 << 40), Resource(3000), account, session.queues["q"])
    assert limit.cpu == expected
    assert limit.memory < UNLIMITED


def test_a_queue_is_overused_if_it_has_all_it_deserves_in_all_dimensions() -> None:
    objects = [node("a", "4"), queue("p"), queue("q"), running("old", ["a", "a"], queue="p"), gang("x", 2, queue="q")]
    session = session_of(TEXT, *objects)
    assert session.overused(session.queues["p"])
    assert not session.overused(session.queues["q"])


def test_orders_go_by_priority_then_share() -> None:
    objects = [node("a", "4"), queue("p"), queue("q"), queue("r", priority=5)]
    objects += [running("old", ["a"], queue="p"), gang("x", 4, queue="p"), gang("y", 4, queue="q")]
    session = session_of(TEXT, *objects, gang("z", 4, queue="r"))
    queues = session.queues
    assert session.queue_less(queues["q"], queues["p"])
    assert session.queue_less(queues["r"], queues["q"])


@pytest.mark.parametrize(
    ("state", "cpu", "allowed"), [("Open", "1", True), ("Open", "3", False), ("Closed", "1", False)]
)
def test_allocatable_and_preemptive_hold_queues_to_what_they_deserve(state: str, cpu: str, allowed: bool) -> None:
    objects = [node("a", "4"), queue("p", state=state), queue("q"), gang("x", 4, queue="p"), gang("y", 4, queue="q")]
    session = session_of(TEXT, *objects)
    asked = task(cpu=cpu)
    assert session.allocatable(session.queues["p"], asked) is allowed
    assert session.preemptive(session.queues["p"], [asked]) is allowed


@pytest.mark.parametrize(("cpus", "fits"), [(["1"], True), (["1", "1"], True), (["1", "1", "1"], False), ([""], True)])
def test_fits_in_adds_up_all_tasks(cpus: list[str], fits: bool) -> None:
    """Two of three cores are left, no pods: these are not compared."""
    tasks = [task(f"t{number}", cpu=cpu) for number, cpu in enumerate(cpus)]
    assert fits_in(Resource(1000), Resource(3000), tasks) is fits


def test_reclaim_takes_until_the_queue_has_what_it_deserves() -> None:
    objects = [node("a", "4"), queue("p"), queue("q"), running("old", ["a"] * 4, queue="p"), gang("new", 4, queue="q")]
    session = session_of(TEXT, *objects)
    tasks = tasks_of(session)
    olds = [each for name, each in tasks.items() if name.startswith("old")]
    assert session.reclaimable(tasks["new-task-0"], olds) == olds[:2]


@pytest.mark.parametrize(
    ("spec", "queue_spec", "vote", "note"),
    [
        ({}, {}, PERMIT, ""),
        ({"minResources": {"cpu": "3"}}, {}, PERMIT, ""),
        ({"minResources": {"cpu": "4"}}, {}, REJECT, "queue resource quota insufficient: insufficient cpu"),
        ({"minResources": {"cpu": "1"}}, {"state": "Closed"}, REJECT, ""),
        ({"minResources": {"cpu": "2"}}, {"capability": {"cpu": "2"}}, REJECT,
         "queue resource quota insufficient: insufficient cpu"),
    ],
)  # fmt: skip
def test_admission(spec: dict[str, Any], queue_spec: dict[str, Any], vote: int, note: str) -> None:
    """Four cores, of which the queue has one."""
    old, new = running("old", ["a"], queue="q"), gang("new", 1, queue="q", **spec)
    old[0]["spec"]["minResources"] = {"cpu": "1"}
    session = session_of(TEXT, node("a", "4"), queue("q", **queue_spec), old, new)
    (function,) = session.all("job_enqueueable")
    assert function(jobs_of(session)["new"]) == vote
    assert [text for _, text in session.notes] == ([note] if note else [])


def test_admitted_jobs_count_for_the_next() -> None:
    jobs = [gang(f"g{number}", 1, minResources={"cpu": "2"}) for number in range(3)]
    session = session_of(TEXT, node("a", "4"), *jobs)
    assert [session.job_enqueueable(each) for each in session.jobs.values()] == [True, True, False]


@pytest.mark.parametrize(
    ("phase", "running_tasks", "inqueue", "expected"),
    [("Inqueue", 0, True, 2000), ("Inqueue", 1, True, 1000), ("Inqueue", 0, False, 0), ("Running", 1, True, 1000),
     ("Running", 0, True, 0), ("Pending", 0, True, 0)],
)  # fmt: skip
def test_what_is_reserved_for_a_job(phase: str, running_tasks: int, inqueue: bool, expected: float) -> None:
    """The job needs two cores and one task."""
    tasks = [task(f"t{number}", on="a") for number in range(running_tasks)]
    one = job(1, *tasks, phase=phase, minResources={"cpu": "2"})
    assert reserved(one, inqueue=inqueue).cpu == expected


def test_jobs_without_a_minimum_reserve_nothing() -> None:
    assert reserved(job(1, phase="Inqueue")).is_empty


def test_messages_name_the_resources() -> None:
    assert named_resources("why", "lacks", ["cpu", "memory"]) == "why: lacks cpu, lacks memory"
    assert named_resources("why", "lacks", []) == "why"


def test_queues_without_jobs_take_no_part() -> None:
    _, _, (proportion,) = opened(TEXT, node("a", "4"), queue("idle", 9), gang("g", 4), group("empty", 1, queue="q"))
    assert set(proportion.accounts) == {"default"}
    assert proportion.accounts["default"].deserved.cpu == 4000
