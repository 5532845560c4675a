"""CapacityScheduling's PreFilter: quotas, borrowing and nominated pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.framework import CycleState, Status
from mooring.plugins.capacity_scheduling import CapacityScheduling
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
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
