"""ClaimPreemption: pods of lower priority are evicted for their devices; by default nobody is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import ResourceClaim
from mooring.api.policy import PodDisruptionBudget
from mooring.config import load_config
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_node, make_pod
from tests.plugins.device_world import allocated, claim, exactly, gpu_class, gpu_slice

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {postFilter: {enabled: [{name: ClaimPreemption}]}}
"""


def running(name: str, priority: int, node: str, device: str, **labels: str) -> list[Any]:
    pod = make_pod(name).uid(f"uid-{name}").node(node).priority(priority).resource_claim("gpu", f"claim-{name}")
    return [pod.label(labels).obj(), used(f"claim-{name}", device, node, name)]


def used(name: str, device: str, node: str, *users: str) -> ResourceClaim:
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users]
    return claim(name=name, status={**allocated(device, pool=node), "reservedFor": reserved})


def attempt(*objects: Any, count: int = 1, priority: int = 10, config: str = CONFIG) -> ScheduleFailure:
    engine = Engine(load_config(config, source="test"))
    nodes = [make_node("n0").obj(), make_node("n1").obj()]
    for item in (*nodes, gpu_class(), gpu_slice("n0"), gpu_slice("n1"), *flat(objects), claim(exactly(count))):
        engine.put(item)
    pod = make_pod("p").priority(priority).resource_claim("gpu", "c").obj()
    found = schedule_pod(engine.profiles.first, pod)
    assert isinstance(found, ScheduleFailure), found
    return found


def flat(items: Any) -> Iterator[Any]:
    for each in items:
        if isinstance(each, list):
            yield from each
        else:
            yield each


def outcome(found: ScheduleFailure) -> tuple[str | None, list[str]]:
    return found.result.nominated_node, sorted(each.removeprefix("uid-") for each in found.result.victims)


FULL = [
    *running("a", 1, "n0", "gpu-0"),
    *running("b", 5, "n0", "gpu-1"),
    *running("c1", 3, "n1", "gpu-0"),
    *running("d", 4, "n1", "gpu-1"),
]


@pytest.mark.parametrize(
    ("count", "priority", "expected"),
    [
        (1, 10, ("n0", ["a"])),  # the least important victim
        (2, 10, ("n1", ["c1", "d"])),  # the node whose most important victim is the least important
        (2, 5, ("n1", ["c1", "d"])),  # b is as important as the pod
        (2, 4, ("", [])),
        (1, 1, ("", [])),
        (3, 10, ("", [])),
    ],
)
def test_as_few_and_as_unimportant_pods_as_possible_are_evicted(count: int, priority: int, expected: Any) -> None:
    assert outcome(attempt(FULL, count=count, priority=priority)) == expected
    # Nodes with nominated pods are simulated one by one.
    nominated = [make_pod(f"waits-{node}").priority(50).nominated(node).obj() for node in ("n0", "n1")]
    assert outcome(attempt(FULL, *nominated, count=count, priority=priority)) == expected


def test_by_default_nobody_is_evicted_for_devices() -> None:
    plain = CONFIG.replace("  plugins: {postFilter: {enabled: [{name: ClaimPreemption}]}}\n", "")
    assert outcome(attempt(FULL, config=plain)) == ("", [])


def test_disruption_budgets_are_respected() -> None:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}
    budget = fit({"metadata": {"name": "b", "namespace": "default"}, "spec": spec}, PodDisruptionBudget)
    protected = [*running("a", 1, "n0", "gpu-0", app="a"), *FULL[2:]]
    assert outcome(attempt(protected, budget)) == ("n1", ["c1"])


def test_pods_without_the_needed_devices_are_reprieved() -> None:
    idle = make_pod("idle").uid("uid-idle").node("n0").obj()
    assert outcome(attempt(FULL, idle)) == ("n0", ["a"])


def test_a_shared_claim_is_released_only_with_all_its_users() -> None:
    second = make_pod("a2").uid("uid-a2").node("n0").priority(2).resource_claim("gpu", "claim-a").obj()
    shared = [FULL[0], used("claim-a", "gpu-0", "n0", "a", "a2"), *FULL[2:]]
    assert outcome(attempt(shared, second)) == ("n0", ["a", "a2"])
    important = make_pod("a2").uid("uid-a2").node("n0").priority(20).resource_claim("gpu", "claim-a").obj()
    assert outcome(attempt(shared, important)) == ("n1", ["c1"])


@pytest.mark.parametrize(
    "leaving",
    [
        [used("claim-a", "gpu-0", "n0", "a")],  # the pod does not exist any more
        [make_pod("a").uid("uid-a").node("n0").terminating().obj(), used("claim-a", "gpu-0", "n0", "a")],
    ],
)
def test_no_further_pod_is_evicted_while_devices_are_being_released(leaving: Any) -> None:
    found = attempt(leaving, FULL[2:])
    assert outcome(found) == (None, [])
    assert found.post_filter is not None
    assert found.post_filter.reasons == ("claim preemption: devices on node n0 are being released.",)


def test_a_pod_that_needs_devices_and_cpu_gets_both() -> None:
    engine = Engine(load_config(CONFIG, source="test"))
    node = make_node("n0").capacity({"cpu": 4, "pods": 10}).obj()
    hog = make_pod("hog").uid("uid-hog").node("n0").priority(2).req(cpu=4).obj()
    for item in (node, gpu_class(), gpu_slice("n0"), hog, *FULL[:4], claim()):
        engine.put(item)
    found = schedule_pod(engine.profiles.first, make_pod("p").priority(10).req(cpu=2).resource_claim("gpu", "c").obj())
    assert isinstance(found, ScheduleFailure)
    assert outcome(found) == ("n0", ["a", "hog"])


@pytest.mark.parametrize(("taken", "placed"), [("gpu", True), ("cpu", False)])
def test_a_nominated_pod_holds_cpu_but_not_devices_against_pods_of_lower_priority(taken: str, placed: bool) -> None:
    """The victim is gone and its claim is deallocated; the pod that preempted it has not been tried again yet."""
    engine = Engine(load_config(CONFIG, source="test"))
    node = make_node("n0").capacity(cpu="2", pods="10").obj()
    for item in (node, gpu_class(), gpu_slice("n0", 1), claim(), claim(name="other")):
        engine.put(item)
    engine.put(make_pod("p").uid("p").priority(10).req(cpu="2").resource_claim("gpu", "c").nominated("n0").obj())
    low = make_pod("low").uid("low").priority(1)
    low = low.resource_claim("gpu", "other") if taken == "gpu" else low.req(cpu="1")
    assert isinstance(schedule_pod(engine.profiles.first, low.obj()), ScheduleFailure) != placed
