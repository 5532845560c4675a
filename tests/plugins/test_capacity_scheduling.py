"""CapacityScheduling: what counts, who is let in, who has to go. Decisions in full are among the golden ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.framework import CycleState, Status
from mooring.framework.node_statuses import NodeStatuses
from mooring.plugins.capacity_scheduling import CapacityScheduling
from mooring.plugins.capacity_scheduling.elastic_quota import UNLIMITED, ElasticQuota, over, request_of
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod

GPU = "nvidia.com/gpu"


def quota(namespace: str, least: Any = None, most: Any = None, name: str = "quota") -> ElasticQuota:
    raw = {"metadata": {"name": name, "namespace": namespace}, "spec": {"min": least, "max": most}}
    return msgspec.convert(raw, ElasticQuota)


def pod(name: str, namespace: str = "a", **amounts: Any) -> PodBuilder:
    return make_pod(name, namespace).uid(f"{namespace}/{name}").req(amounts)


def harness(*objects: Any) -> PluginHarness:
    made = [each.obj() if isinstance(each, PodBuilder) else each for each in objects]
    nodes = [make_node("n").capacity(cpu="64", memory="64Gi").obj()]
    pods = [each for each in made if isinstance(each, Pod)]
    return PluginHarness(
        CapacityScheduling, nodes=nodes, pods=pods, objects=[each for each in made if not isinstance(each, Pod)]
    )


def reason(world: PluginHarness, what: PodBuilder) -> str:
    status = world.plugin.pre_filter(CycleState(), what.obj(), world.nodes())
    if status is None:
        return ""
    assert status.code is Status.unschedulable().code
    text = status.message.partition("because ")[2]
    return str(text)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (make_pod("p").req(cpu="1").req(cpu="500m", memory="1Gi"), {"cpu": 1500, "memory": 1 << 30}),
        (make_pod("p").req(cpu="1").init(cpu="2").init(cpu="3"), {"cpu": 3000}),
        (make_pod("p").req(cpu="4").init({GPU: 1, "cpu": "1"}), {"cpu": 4000, GPU: 1}),
        (make_pod("p").req(cpu="1").overhead(cpu="100m"), {"cpu": 1100}),
        (make_pod("p").req({"cpu": "1", "pods": 3, "unknown": 4}), {"cpu": 1000}),
        (make_pod("p").req(cpu="1").pod_req(cpu="9"), {"cpu": 1000}),
    ],
)
def test_what_a_pod_is_charged(what: PodBuilder, expected: dict[str, int]) -> None:
    assert request_of(what.obj()) == expected


@pytest.mark.parametrize(
    ("asked", "used", "limit", "otherwise", "expected"),
    [
        ({"cpu": 1}, {"cpu": 1}, {"cpu": 2}, 0, False),
        ({"cpu": 2}, {"cpu": 1}, {"cpu": 2}, 0, True),
        ({}, {"memory": 1}, {"cpu": 2}, 0, True),
        ({}, {"ephemeral-storage": 1}, {}, UNLIMITED, True),
        ({GPU: 1}, {}, {}, 0, True),
        ({GPU: 1}, {}, {}, UNLIMITED, False),
        ({GPU: 0}, {GPU: 1}, {}, 0, True),
        ({}, {GPU: 9}, {GPU: 1}, 0, False),
        ({GPU: 1}, {GPU: 1}, {GPU: 1}, UNLIMITED, True),
    ],
)
def test_over(asked: Any, used: Any, limit: Any, otherwise: int, expected: bool) -> None:
    """Other resources count where the request names them."""
    assert over(asked, used, limit, otherwise) is expected


@pytest.mark.parametrize(
    ("objects", "what", "expected"),
    [
        ([], pod("p", cpu="100"), ""),
        ([quota("b", {}, {})], pod("p", cpu="100"), ""),
        ([quota("a", {"cpu": "4"}, {"cpu": "4"})], pod("p", cpu="4"), ""),
        ([quota("a", {"cpu": "4"}, {"cpu": "4"})], pod("p", cpu="5"), "ElasticQuota a is more than Max"),
        ([quota("a", {"cpu": "4"}, {"cpu": "4"})], pod("p", memory="1"), "ElasticQuota a is more than Max"),
        ([quota("a", {"cpu": "4"}, {})], pod("p", cpu="1"), "ElasticQuota a is more than Max"),
        ([quota("a", {"cpu": "4"})], pod("p", cpu="5"), "total ElasticQuota used is more than min"),
        ([quota("a")], pod("p", cpu="1"), "total ElasticQuota used is more than min"),
        ([quota("a")], pod("p"), ""),
        ([quota("a", {"cpu": "4"}), quota("b", {"cpu": "4"})], pod("p", cpu="8"), ""),
        (
            [quota("a", {"cpu": "4"}), quota("b", {"cpu": "4"}), pod("o", "b", cpu="1").node("n")],
            pod("p", cpu="8"),
            "total ElasticQuota used is more than min",
        ),
        (
            [quota("a", {"cpu": "4"}), quota("b", {"cpu": "4"}), pod("o", "b", **{GPU: 1}).node("n")],
            pod("p", cpu="1"),
            "total ElasticQuota used is more than min",
        ),
        ([quota("a", {"cpu": "4"}, {"cpu": "4"}), pod("o", cpu="2").node("n")], pod("p", cpu="3"), "ElasticQuota a is"),
        ([quota("a", {"cpu": "many"})], pod("p", cpu="1"), "total ElasticQuota used is more than min"),
    ],
)
def test_pre_filter(objects: list[Any], what: PodBuilder, expected: str) -> None:
    assert reason(harness(*objects), what).startswith(expected)
    assert bool(reason(harness(*objects), what)) is bool(expected)


@pytest.mark.parametrize(
    ("rival", "let_in"),
    [
        (pod("r", cpu="2").priority(5).nominated("n"), False),
        (pod("r", cpu="2").priority(4).nominated("n"), True),
        (pod("p", cpu="2").priority(5).nominated("n"), True),
        (pod("r", "b", cpu="2").nominated("n"), False),
        (pod("r", "free", cpu="2").nominated("n"), True),
        (pod("r", cpu="2").priority(5).nominated("nowhere"), True),
    ],
)
def test_pods_that_room_is_kept_for(rival: PodBuilder, let_in: bool) -> None:
    """Of the namespace, those that go before; of other quotas, all but borrowers; never the pod itself."""
    world = harness(quota("a", {"cpu": "2"}), quota("b", {"cpu": "2"}), rival)
    assert (reason(world, pod("p", cpu="3").priority(5)) == "") is let_in


def test_borrowers_that_room_is_kept_for_do_not_count() -> None:
    world = harness(
        quota("a", {"cpu": "4"}),
        quota("b", {"cpu": "1"}),
        pod("o", "b", cpu="2").node("n"),
        pod("r", "b", cpu="2").nominated("n"),
    )
    assert reason(world, pod("p", cpu="3")) == ""


def test_usage_follows_pods_and_quotas() -> None:
    """Reserved, bound and gone; a quota that comes after its pods, changes, goes."""
    world = harness(quota("a", {"cpu": "4"}))
    one = pod("one", cpu="4")
    world.plugin.reserve(CycleState(), one.obj(), "n")
    world.plugin.reserve(CycleState(), one.obj(), "n")
    assert reason(world, pod("p", cpu="1"))
    world.handle.objects.put(one.node("n").obj())
    assert reason(world, pod("p", cpu="1"))
    world.handle.objects.put(quota("a", {"cpu": "5"}))
    assert reason(world, pod("p", cpu="1")) == ""
    world.plugin.unreserve(CycleState(), one.obj(), "n")
    assert reason(world, pod("p", cpu="5")) == ""
    world.handle.objects.put(one.node("n").obj())
    world.handle.objects.remove(one.obj())
    assert reason(world, pod("p", cpu="5")) == ""
    world.handle.objects.remove(quota("a"))
    assert reason(world, pod("p", cpu="50")) == ""
    world.handle.objects.put(pod("two", cpu="4").node("n").obj())
    world.handle.objects.put(quota("a", {"cpu": "5"}))
    assert reason(world, pod("p", cpu="2"))


def test_of_two_quotas_the_first_counts() -> None:
    world = harness(quota("a", {"cpu": "1"}), quota("a", {"cpu": "9"}, name="second"))
    assert reason(world, pod("p", cpu="2"))
    world.handle.objects.remove(quota("a"))
    assert reason(world, pod("p", cpu="2")) == ""


def refusal(world: PluginHarness, what: PodBuilder, status: Status) -> str:
    state = CycleState()
    world.plugin.pre_filter(state, what.obj(), world.nodes())
    _, answer = world.plugin.post_filter(state, what.obj(), NodeStatuses(world.table, status))
    return str(answer.message)


WAIT = "not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize(
    ("leaving", "waits"),
    [
        (pod("l", cpu="1").priority(1), True),
        (pod("l", cpu="1").priority(5), False),
        (pod("l", "b", cpu="9").priority(9), True),
        (pod("l", "b", cpu="1").priority(1), False),
        (pod("l", "free", cpu="1").priority(1), False),
    ],
)
def test_who_waits_for_pods_that_are_leaving(leaving: PodBuilder, waits: bool) -> None:
    """Lower ones of the namespace, borrowers of others; where the node cannot be helped nobody does."""
    quotas = (quota("a", {"cpu": "4"}), quota("b", {"cpu": "4"}))
    what = pod("p", cpu="4").priority(5).nominated("n")
    world = harness(*quotas, leaving.node("n").terminating())
    nowhere = Status.unresolvable("x")
    assert (refusal(world, what, nowhere) == WAIT) is False
    # Where the node might do, the search itself needs a whole profile: only the refusal is asked for here.
    if waits:
        assert refusal(world, what, Status.unschedulable("x")) == WAIT


def test_never_means_never() -> None:
    text = refusal(harness(), pod("p").preemption_policy("Never"), Status.unschedulable("x"))
    assert text == "not eligible due to preemptionPolicy=Never."


def test_without_its_pre_filter_it_does_not_preempt() -> None:
    world = harness()
    _, status = world.plugin.post_filter(CycleState(), pod("p").obj(), NodeStatuses(world.table))
    assert status.message == "not eligible due to failed to read from cycleState"
