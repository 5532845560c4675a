"""The Queue view: parts, reasons, gangs and queues."""

from __future__ import annotations

from mooring.api.meta import ObjectMeta
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, PodGroupSpec, Queue, QueueStatus
from mooring.dashboard.queue_view import QueueView
from mooring.testing import make_pod
from tests.dashboard.scene import engine_with, mixed, nodes


async def test_pods_are_listed_by_part_with_the_dominant_reason() -> None:
    found = await QueueView(mixed()).overview()
    assert found["counts"] == {"active": 0, "backoff": 0, "unschedulable": 2, "gated": 1, "permit": 0}
    reasons = {each["example"]: (each["part"], each["plugin"], each["reason"]) for each in found["reasons"]}
    assert reasons["default/giant"] == ("unschedulable", "NodeResourcesFit", "Insufficient cpu")
    assert reasons["default/gated"][:2] == ("gated", "SchedulingGates")
    assert [each["attempts"] for each in found["parts"]["unschedulable"]] == [1, 1]


async def test_without_a_scheduling_loop_the_conditions_of_pods_tell() -> None:
    engine = mixed()
    told = make_pod("told").condition("PodScheduled", "False", "Unschedulable").obj()
    engine.put(told)
    engine.put(make_pod("new").obj())
    found = await QueueView(engine, reported=True).overview()
    assert [each["pod"] for each in found["parts"]["unschedulable"]][:1] == ["default/told"]
    assert [each["pod"] for each in found["parts"]["active"]][:1] == ["default/new"]


async def test_gangs_and_queues_have_shares_and_what_they_wait_for() -> None:
    engine = engine_with(nodes(3))
    engine.put(make_pod("worker").scheduler("volcano").annotation({GROUP_ANNOTATION: "train"}).obj())
    group = PodGroup(
        metadata=ObjectMeta(name="train", namespace="default"),
        spec=PodGroupSpec(min_member=4, queue="ml", min_resources={"cpu": "100"}),
    )
    engine.cache.objects.put(group)
    queue = Queue(metadata=ObjectMeta(name="ml"), status=QueueStatus(state="Open", allocated={"cpu": "12"}))
    engine.cache.objects.put(queue)
    found = await QueueView(engine, batch=True).overview()
    (gang,) = found["gangs"]
    assert (gang["gang"], gang["pods"], gang["minMember"], gang["gate"]) == ("default/train", 1, 4, "quota")
    assert "cpu" in gang["text"]
    (shown,) = found["queues"]
    assert (shown["queue"], shown["share"], shown["gangs"], shown["waiting"]) == ("ml", 0.5, 1, 1)
