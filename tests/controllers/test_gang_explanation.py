"""Explanations of waiting gangs: the gate, and the numbers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.volcano import QUEUE_GATE, PodGroup, Queue
from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.gang_explanation import Facts, explain_gang

FULL = "pod group is not ready, 2 Pending. Origin reason is p: 0/1 nodes are available: 1 Insufficient cpu."


def group(phase: str = "Pending", *, queue: str = "q", message: str = "", **spec: Any) -> PodGroup:
    conditions = [{"type": "Unschedulable", "status": "True", "message": message}] if message else []
    document = {
        "metadata": {"name": "g"},
        "spec": {"minMember": 2, "queue": queue, "minResources": {"cpu": "4", "count/pods": "2"}, **spec},
        "status": {"phase": phase, "conditions": conditions},
    }
    return msgspec.convert(document, PodGroup)


def queue(state: str = "Open", *, allocated: str = "0", **spec: Any) -> dict[str, Queue]:
    document = {"metadata": {"name": "q"}, "spec": spec, "status": {"state": state, "allocated": {"cpu": allocated}}}
    return {"q": msgspec.convert(document, Queue)}


def pod(name: str, *, node: str = "", message: str = "") -> Pod:
    conditions = [{"type": "PodScheduled", "status": "False", "message": message}] if message else []
    document = {
        "metadata": {"name": name},
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", "conditions": conditions},
    }
    return msgspec.convert(document, Pod)


def job(phase: str = "Pending", *, message: str = "") -> VolcanoJob:
    return msgspec.convert(
        {"metadata": {"name": "j"}, "status": {"state": {"phase": phase, "message": message}}}, VolcanoJob
    )


NODES = [msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8"}}}, Node)]
PODS = [pod("a", message="0/1 nodes are available: 1 Insufficient cpu."), pod("b")]


@pytest.mark.parametrize(
    ("facts", "gate", "text"),
    [
        (Facts(None, job(message="no tasks")), "job", "no tasks"),
        (Facts(None, job("Aborted")), "job", "suspended"),
        (Facts(None, job()), "job", "mooring controller"),
        (Facts(group(), job(), {}), "queue", "there is no queue q"),
        (Facts(group(), job(), queue("Closed")), "queue", "mooring queue open q"),
        (Facts(group(), job(), queue(), nodes=NODES), "queue", "is a scheduler"),
        (
            Facts(group(), None, queue(allocated="2", capability={"cpu": "5"}), nodes=NODES),
            "quota",
            "too little room: cpu",
        ),
        (
            Facts(group(), None, queue(), nodes=NODES, notes=["x", "queue resource quota insufficient: cpu"]),
            "quota",
            "quota insufficient",
        ),
        (Facts(group("Inqueue", message=FULL), None, queue(), PODS, NODES), "nodes", "Insufficient cpu"),
        (Facts(group("Inqueue"), None, queue(), [pod("a")], NODES), "gang", "only 1 of at least 2 pods exist"),
        (
            Facts(group("Inqueue", message="2 tasks wait"), None, queue(), [pod("a"), pod("b")], NODES),
            "gang",
            "2 tasks wait",
        ),
    ],
)
def test_gate(facts: Facts, gate: str, text: str) -> None:
    found = explain_gang(facts)
    assert found is not None
    assert found.gate == gate
    assert text in found.text


@pytest.mark.parametrize(
    "facts",
    [Facts(group("Running")), Facts(group("Completed")), Facts(None, job("Running")), Facts(None, job("Failed"))],
)
def test_no_explanation_for_a_gang_that_runs(facts: Facts) -> None:
    assert explain_gang(facts) is None


def test_numbers() -> None:
    limits = queue(allocated="2", capability={"cpu": "5"}, deserved={"cpu": "3"})
    found = explain_gang(Facts(group("Inqueue", message=FULL), None, limits, [*PODS, pod("c", node="n")], NODES))
    assert found is not None
    assert (found.members, found.min_member) == ({"Pending": 2, "Bound": 1}, 2)
    room = found.room[0]
    shown = (room.resource, room.needed, room.allocated, room.deserved, room.capability, room.cluster)
    assert shown == ("cpu", 4000, 2000, 3000, 5000, 8000)
    assert (room.exceeds_capability, room.exceeds_cluster) == (True, False)
    assert found.reasons == {"0/1 nodes are available: 1 Insufficient cpu.": 1}


SHORT = "Insufficient cpu in addition to what the queue has allocated."
UNENFORCED = "No configured plugin enforces the capability; proportion and capacity do."
UNKNOWN = "The capability counts only if proportion or capacity is configured."


@pytest.mark.parametrize(
    ("phase", "message", "enforced", "gate", "remark"),
    [
        ("Pending", "", True, "quota", SHORT),
        ("Pending", "", None, "quota", f"{SHORT} {UNKNOWN}"),
        ("Pending", "", False, "queue", UNENFORCED),
        ("Inqueue", FULL, True, "nodes", ""),
        ("Inqueue", FULL, None, "nodes", ""),
        ("Inqueue", FULL, False, "nodes", UNENFORCED),
        ("Inqueue", "2 tasks wait", True, "quota", SHORT),
        ("Inqueue", "2 tasks wait", None, "gang", f"{SHORT} {UNKNOWN}"),
        ("Inqueue", "2 tasks wait", False, "gang", UNENFORCED),
    ],
)
def test_a_capability_that_no_plugin_enforces_is_no_reason(
    phase: str, message: str, enforced: bool | None, gate: str, remark: str
) -> None:
    """The gate and what is said of the amounts do not contradict each other."""
    limits = queue(allocated="2", capability={"cpu": "5"})
    pods = PODS if message == FULL else [pod("a"), pod("b")]
    facts = Facts(group(phase, message=message), None, limits, pods, NODES, enforces_capability=enforced)
    found = explain_gang(facts)
    assert found is not None
    assert (found.gate, found.remark) == (gate, remark)


def test_a_cluster_that_is_too_small_is_a_reason_at_every_gate() -> None:
    limits = queue(allocated="6")
    for phase, message, gate in (("Pending", "", "quota"), ("Inqueue", FULL, "nodes")):
        facts = Facts(group(phase, message=message), None, limits, PODS, NODES, enforces_capability=False)
        found = explain_gang(facts)
        assert found is not None
        assert (found.gate, found.remark) == (gate, SHORT)


@pytest.mark.parametrize(
    ("phase", "text"),
    [
        ("Running", "1 of 2 pods wait behind the scheduling gate"),
        ("Inqueue", "1 of 2 pods wait behind the scheduling gate"),
        ("Pending", "not admitted to queue q"),
    ],
)
def test_pods_behind_the_scheduling_gate_of_their_queue(phase: str, text: str) -> None:
    gated = msgspec.convert(
        {
            "metadata": {"name": "b"},
            "spec": {"schedulingGates": [{"name": QUEUE_GATE}]},
            "status": {"phase": "Pending"},
        },
        Pod,
    )
    facts = Facts(group(phase), job(phase), queue(capability={"cpu": "2"}), [pod("a", node="n"), gated], NODES)
    why = explain_gang(facts)
    assert why is not None
    assert why.gate == "quota"
    assert text in why.text
    running = Facts(group(phase), job("Running"), facts.queues, [pod("a", node="n")], NODES)
    assert explain_gang(running) is None
