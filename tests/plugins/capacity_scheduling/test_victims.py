"""Victims of CapacityScheduling."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod
from mooring.framework import CycleState, Status
from mooring.framework.node_statuses import NodeStatuses
from mooring.plugins.capacity_scheduling import CapacityScheduling
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
from mooring.testing import PluginHarness, PodBuilder, make_node, make_pod


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
