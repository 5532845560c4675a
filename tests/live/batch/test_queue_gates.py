"""Scheduling gates of queues on the embedded cluster: added by admission, removed by sessions, whatever fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.api.volcano import QUEUE_GATE
from mooring.apiserver.volcano_admission.review import AdmissionSettings
from mooring.cluster import EmbeddedCluster
from mooring.controllers.definitions import DEFINITIONS
from mooring.kube import Client, Conflict, load_access
from mooring.kube.client_errors import OutcomeUnknown
from tests.live.batch.batch_world import PODS, World, reached, scheduling
from tests.waiting import until

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A cluster that adds the gate to pods, with a queue of two cores."""
    cluster = EmbeddedCluster(definitions=DEFINITIONS, admission=AdmissionSettings(adds_queue_gates=True))
    await cluster.start()
    cluster.add_nodes(3, capacity={"cpu": "4", "memory": "32Gi", "pods": "110"})
    (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
    async with Client(load_access(kubeconfig=str(tmp_path / "kubeconfig"))) as client:
        world = World(client, tmp_path)
        world.conf.write_text(CONF)
        await world.queue("q", capability={"cpu": "2"})
        await world.gang("g", 0, queue="q", least=1)
        yield world
    await cluster.stop()


async def add(world: World, *names: str, gates: tuple[str, ...] = (), **spec: Any) -> None:
    """Create pods of one core that request the gate."""
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    for name in names:
        annotations = {"scheduling.k8s.io/group-name": "g", QUEUE_GATE: "true"}
        own = {"schedulingGates": [{"name": each} for each in gates]} if gates else {}
        body = {"schedulerName": "volcano", "containers": [container], **own, **spec}
        await world.ask("POST", PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": body})


async def gates(world: World, name: str) -> list[str]:
    return [each["name"] for each in (await world.ask("GET", f"{PODS}/{name}"))["spec"].get("schedulingGates", ())]


async def delete(world: World, name: str) -> None:
    await world.client.delete(Pod, name, namespace="default", grace_seconds=0)


async def test_pods_wait_behind_their_gate_until_the_queue_has_room(world: World) -> None:
    """As in Volcano's own test: a pod that cannot be placed keeps its room, and no node is requested for others."""
    await add(world, "p-task-0", "p-task-1", "p-task-2")
    assert await gates(world, "p-task-0") == [QUEUE_GATE]
    async with scheduling(world, removes_queue_gates=True) as scheduler:
        await until(lambda: reached(world, "p-", 2))
        assert await gates(world, "p-task-2") == [QUEUE_GATE]
        assert await world.core_event("Pod", "p-task-0", "QueueAdmitted")
        pod = await world.ask("GET", f"{PODS}/p-task-2")
        assert [each.get("reason") for each in pod["status"]["conditions"]] == ["SchedulingGated"], "not Unschedulable"
        await delete(world, "p-task-0")
        await until(lambda: reached(world, "p-task-2", 1))
        # A pod without its gate keeps its room in the queue until it is placed or deleted.
        await delete(world, "p-task-1")
        await add(world, "far", nodeSelector={"zone": "none"})

        async def admitted() -> bool:
            return not await gates(world, "far")

        await until(admitted)
        before = scheduler.batch.sessions if scheduler.batch is not None else 0
        await add(world, "late")
        await until(lambda: scheduler.batch is not None and scheduler.batch.sessions > before)
        assert await gates(world, "late") == [QUEUE_GATE]
        await delete(world, "far")
        await until(lambda: reached(world, "late", 1))


async def test_other_gates_come_first(world: World) -> None:
    await add(world, "p-task-0", gates=("mine",))
    assert await gates(world, "p-task-0") == ["mine", QUEUE_GATE]
    await add(world, "p-task-1")
    async with scheduling(world, removes_queue_gates=True):
        await until(lambda: reached(world, "p-task-1", 1))
        assert await gates(world, "p-task-0") == ["mine", QUEUE_GATE]
        patch = {"spec": {"schedulingGates": [{"name": "mine", "$patch": "delete"}]}}
        await world.client.send("PATCH", f"{PODS}/p-task-0", patch, type="application/strategic-merge-patch+json")
        await until(lambda: reached(world, "p-task-0", 1))


@pytest.mark.parametrize("fault", ["conflict", "lost request", "lost answer", "a bug"])
async def test_a_gate_is_removed_after_failures(world: World, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    whole, failures = Client.patch, 0

    async def patch(self: Client, kind: Any, name: str, body: Any, **options: Any) -> Any:
        nonlocal failures
        if kind is not Pod or failures >= 3:
            return await whole(self, kind, name, body, **options)
        failures += 1
        if fault == "conflict":
            raise Conflict(409, "Conflict", "the object has been modified")
        if fault == "lost answer":
            await whole(self, kind, name, body, **options)
        if fault == "a bug":
            raise KeyError("a bug")
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(Client, "patch", patch)
    await add(world, "p-task-0", "p-task-1", "p-task-2")
    async with scheduling(world, removes_queue_gates=True):
        await until(lambda: reached(world, "p-", 2))
        assert await gates(world, "p-task-2") == [QUEUE_GATE], "nobody is admitted twice"
    assert failures >= 2


async def test_a_new_pod_of_the_same_name_keeps_its_gate(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod that was admitted is replaced before the request arrives; the queue is full by then."""
    whole, replaced = Client.patch, False

    async def patch(self: Client, kind: Any, name: str, body: Any, **options: Any) -> Any:
        nonlocal replaced
        if kind is Pod and name == "p-task-0" and not replaced:
            replaced = True
            await delete(world, "p-task-0")
            await add(world, "p-task-1", "p-task-2", "p-task-0")
        return await whole(self, kind, name, body, **options)

    monkeypatch.setattr(Client, "patch", patch)
    await add(world, "p-task-0")
    async with scheduling(world, removes_queue_gates=True):
        await until(lambda: reached(world, "p-", 2))
        assert await world.core_event("Pod", "p-task-0", "FailedGateRemoval")
        pods = (await world.ask("GET", PODS))["items"]
        assert sum(bool(each["spec"].get("schedulingGates")) for each in pods) == 1


async def test_a_restart_continues_from_the_state_of_the_pods(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two admitted pods one cannot be placed; a new process reserves its room without having admitted it."""
    await add(world, "far", nodeSelector={"zone": "none"})
    async with scheduling(world, removes_queue_gates=True):

        async def admitted() -> bool:
            return not await gates(world, "far")

        await until(admitted)
    await add(world, "p-task-0", "p-task-1")
    async with scheduling(world, removes_queue_gates=True):
        await until(lambda: reached(world, "p-", 1))
        assert sum(map(bool, [await gates(world, "p-task-0"), await gates(world, "p-task-1")])) == 1
        await delete(world, "far")
        await until(lambda: reached(world, "p-", 2))


async def test_gates_stay_while_the_feature_gate_is_off(world: World) -> None:
    await add(world, "p-task-0")
    async with scheduling(world):
        event = await until(lambda: world.core_event("PodGroup", "g", "NotSupported"))
        assert "SchedulingGatesQueueAdmission is off" in event["message"]
    assert await gates(world, "p-task-0") == [QUEUE_GATE]


async def test_pods_that_get_no_gate(world: World) -> None:
    await add(world, "bound", nodeName="node-0")
    await add(world, "other", schedulerName="default-scheduler")
    await add(world, "twice", gates=(QUEUE_GATE,))
    assert [await gates(world, name) for name in ("bound", "other", "twice")] == [[], [], [QUEUE_GATE]]
