"""Device quotas: the capability of a queue limits the devices that its pods claim, also in a tree."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.quantity import Quantity
from mooring.batch.callbacks import PERMIT, REJECT
from mooring.batch.device_quota import DeviceDemands, DeviceQuota, device_quota
from mooring.batch.run import close_session, run_actions
from tests.batch.cases import (
    CLASS,
    claim,
    claiming,
    conf,
    gang,
    gpus,
    jobs_of,
    node,
    opened,
    pod,
    queue,
    tasks_of,
)

GPU = "deviceclass/gpu"
MEMORY = "memory.deviceclass/gpu"
WITH_QUOTA = conf(("gang",), ("predicates", "capacity"))
CLUSTER = [node("a", "32"), CLASS, gpus("a", 8)]


def tree(arguments: str = "{}") -> str:
    option = f"{{name: capacity, enableHierarchy: true, arguments: {arguments}}}"
    plugins = f"- plugins: [{{name: gang}}]\n- plugins: [{{name: predicates}}, {option}]"
    return f'actions: "enqueue, allocate"\ntiers:\n{plugins}\n'


def bound(text: str, *objects: Any) -> list[str]:
    _, session, _ = opened(text, *CLUSTER, *objects)
    run_actions(session)
    return sorted(task.name for task in session.bindings)


def limited(count: str, name: str = "q", **spec: Any) -> dict[str, Any]:
    return queue(name, capability={GPU: count}, **spec)


@pytest.mark.parametrize(
    ("count", "arguments", "fits"),
    [
        ("2", "{}", 2),
        ("8", "{}", 4),
        ("0", "{}", 4),  # no limit
        ("2", "{capacity.DynamicResourceAllocationEnable: false}", 4),
    ],
)
def test_a_queue_gets_no_more_devices_than_its_capability(count: str, arguments: str, fits: int) -> None:
    text = conf(("gang",), ("predicates", "capacity"), capacity=arguments)
    assert len(bound(text, limited(count), claiming("g", 4, 0, queue="q"))) == fits


def test_devices_of_running_pods_count() -> None:
    old = pod("old", "g", on="a", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    group, *new = claiming("g", 2, 0, queue="q")
    assert len(bound(WITH_QUOTA, limited("2"), group, old, claim("mine", device="gpu-0"), *new)) == 1


def test_a_shared_claim_counts_once() -> None:
    shared = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "both"}]}
    pods = [pod(f"g-task-{number}", "g", **shared) for number in range(2)]
    objects = [limited("1"), gang("g", 0, 0, queue="q")[0], *pods, claim("both", device="gpu-0")]
    assert len(bound(WITH_QUOTA, *objects)) == 2


def test_all_ancestors_limit_devices() -> None:
    """Also if the leaves have no quota of their own, and for pods of earlier sessions."""
    old = pod("x-old", "x", on="a", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    queues = [limited("3", "top"), queue("left", parent="top"), queue("right", parent="top")]
    gangs = [
        *claiming("x", 2, 0, queue="left"),
        old,
        claim("mine", device="gpu-0"),
        *claiming("y", 2, 0, queue="right"),
    ]
    assert len(bound(tree(), *queues, *gangs)) == 2


@pytest.mark.parametrize(("size", "vote"), [(2, PERMIT), (3, REJECT)])
def test_a_gang_that_exceeds_the_quota_is_not_admitted(size: int, vote: int) -> None:
    _, session, _ = opened(WITH_QUOTA, *CLUSTER, limited("2"), claiming("g", size, queue="q"))
    job = jobs_of(session)["g"]
    assert session.job_enqueueable(job) is (vote == PERMIT)
    notes = [text for _, text in session.notes]
    assert notes == (
        [] if vote == PERMIT else ["queue resource quota insufficient: insufficient dra-resource-exceeded"]
    )


def test_jobs_that_were_admitted_before_count() -> None:
    objects = [limited("3"), claiming("g", 2, queue="q"), claiming("h", 2, queue="q")]
    _, session, _ = opened(WITH_QUOTA, *CLUSTER, *objects)
    jobs = jobs_of(session)
    assert [session.job_enqueueable(jobs[name]) for name in ("g", "h")] == [True, False]


def test_the_minimum_of_roles() -> None:
    """One task of each role stands for all of it."""
    made = claiming("g", 3, minTaskMember={"worker": 4})
    for each in made[1:4]:
        each["metadata"]["annotations"]["volcano.sh/task-spec"] = "worker"
    _, session, _ = opened(WITH_QUOTA, *CLUSTER, made)
    assert DeviceDemands(session.handle).minimum(jobs_of(session)["g"]) == {GPU: Quantity(4, big=True)}


def test_a_discarded_statement_gives_devices_back() -> None:
    _, session, plugins = opened(WITH_QUOTA, *CLUSTER, limited("1"), claiming("g", 2, 0, queue="q"))
    quota = plugins[-1].queues["q"].devices
    tasks, own = tasks_of(session), session.queues["q"]
    statement = session.statement()
    statement.allocate(tasks["g-task-0"], "a")
    assert not session.allocatable(own, tasks["g-task-1"])
    statement.discard()
    assert session.allocatable(own, tasks["g-task-1"])
    assert not quota.allocated[GPU].unscaled


def test_the_status_of_queues_shows_devices() -> None:
    _, session, _ = opened(WITH_QUOTA, *CLUSTER, queue("q"), claiming("g", 2, count=3, queue="q"))
    run_actions(session)
    queues = close_session(session, []).queues
    assert [queues[name].get(GPU) for name in ("q", "root", "default")] == ["6", "6", None]


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        ({MEMORY: "40Gi"}, True),
        ({MEMORY: "39Gi"}, False),
        ({GPU: "2"}, False),  # the class is limited, and the dimension is missing
        ({"deviceclass/other": "1"}, True),
    ],
)
def test_capacity(limits: dict[str, Any], fits: bool) -> None:
    made = claim("c", 2)
    exactly = made["spec"]["devices"]["requests"][0]["exactly"]
    exactly["capacity"] = {"requests": {"memory": "20Gi"}}
    wants = [gang("g", 0, 0)[0], pod("p", "g", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), made]
    _, session, _ = opened(WITH_QUOTA, *CLUSTER, *wants)
    quota = device_quota(limits)
    assert quota is not None
    task = tasks_of(session)["p"]
    assert quota.allows_task(DeviceDemands(session.handle, capacity=True).of(task)) is fits
    assert quota.allows_task(DeviceDemands(session.handle).of(task)), "off by default"


@pytest.mark.parametrize(
    "request_", [{"firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}, {"exactly": {"allocationMode": "All"}}]
)
def test_requests_that_do_not_count(request_: dict[str, Any]) -> None:
    made = claim("c")
    if "exactly" in request_:
        request_["exactly"]["deviceClassName"] = "gpu"
    made["spec"]["devices"]["requests"] = [{"name": "r", **request_}]
    wants = [gang("g", 0, 0)[0], pod("p", "g", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), made]
    _, session, _ = opened(WITH_QUOTA, *CLUSTER, *wants)
    assert DeviceDemands(session.handle).of(tasks_of(session)["p"]) == {}


def test_a_copy_is_independent() -> None:
    quota = DeviceQuota({GPU: "1"})
    demands = {"default/c": {GPU: Quantity(1)}}
    copy = quota.copy()
    copy.take(demands)
    assert not copy.allows_task({"default/d": {GPU: Quantity(1)}})
    assert quota.allows_task(demands)
    copy.give_back(demands)
    assert copy.allows_task(demands)


def test_a_queue_without_device_classes_has_no_quota() -> None:
    assert device_quota({"cpu": "1", "example.com/gpu": "1"}) is None
