"""The queue controller on the embedded cluster."""

from __future__ import annotations

import pytest

from mooring.controllers.queues import CLOSE_QUEUE, OPEN_QUEUE, next_state
from tests.controllers.world import GROUPS, QUEUES, World, controllers
from tests.waiting import until


@pytest.mark.parametrize(
    ("state", "action", "groups", "after"),
    [
        ("", "", 0, "Open"),
        ("Open", "", 3, "Open"),
        ("Open", CLOSE_QUEUE, 0, "Closed"),
        ("Open", CLOSE_QUEUE, 1, "Closing"),
        ("", CLOSE_QUEUE, 1, "Closing"),
        ("Closing", "", 1, "Closing"),
        ("Closing", "", 0, "Closed"),
        ("Closing", CLOSE_QUEUE, 0, "Closed"),
        ("Closing", OPEN_QUEUE, 1, "Open"),
        ("Closed", "", 2, "Closed"),
        ("Closed", CLOSE_QUEUE, 2, "Closed"),
        ("Closed", OPEN_QUEUE, 0, "Open"),
        ("Unknown", "", 0, "Unknown"),
        ("Unknown", OPEN_QUEUE, 0, "Open"),
        ("Unknown", CLOSE_QUEUE, 1, "Closing"),
        ("Odd", "", 0, "Unknown"),
    ],
)
def test_next_state(state: str, action: str, groups: int, after: str) -> None:
    assert next_state(state, action, groups=groups) == after


async def test_root_and_default_queues_are_created_open(world: World) -> None:
    async with controllers(world):
        for name in ("root", "default"):
            await until(lambda name=name: is_state(world, name, "Open"))
    root, default = await world.get(f"{QUEUES}/root"), await world.get(f"{QUEUES}/default")
    assert root["spec"]["reclaimable"] is False
    assert "parent" not in root["spec"]
    assert default["spec"]["reclaimable"] is True
    assert default["spec"]["parent"] == "root"
    assert default["spec"]["weight"] == 1


async def test_an_existing_default_queue_is_not_changed(world: World) -> None:
    await world.queue("default", weight=7, reclaimable=False)
    async with controllers(world):
        await until(lambda: is_state(world, "default", "Open"))
    spec = (await world.get(f"{QUEUES}/default"))["spec"]
    assert (spec["weight"], spec["reclaimable"]) == (7, False)


async def test_a_queue_closes_when_its_last_pod_group_is_deleted(world: World) -> None:
    await world.queue("q")
    await world.group("g", queue="q", phase="Running")
    async with controllers(world):
        await until(lambda: is_state(world, "q", "Open"))
        await world.command(CLOSE_QUEUE, f"{QUEUES}/q")
        await until(lambda: is_state(world, "q", "Closing"))
        await world.client.send("DELETE", f"{GROUPS}/g")
        await until(lambda: is_state(world, "q", "Closed"))
        await world.command(OPEN_QUEUE, f"{QUEUES}/q")
        await until(lambda: is_state(world, "q", "Open"))


async def test_children_close_and_open_with_their_parent(world: World) -> None:
    await world.queue("top")
    await world.queue("low", parent="top")
    await world.queue("own", parent="top")
    async with controllers(world):
        for name in ("top", "low", "own"):
            await until(lambda name=name: is_state(world, name, "Open"))
        await world.command(CLOSE_QUEUE, f"{QUEUES}/own")
        await until(lambda: is_state(world, "own", "Closed"))
        await world.command(CLOSE_QUEUE, f"{QUEUES}/top")
        await until(lambda: is_state(world, "low", "Closed"))
        annotations = (await world.get(f"{QUEUES}/low"))["metadata"]["annotations"]
        assert annotations["volcano.sh/closed-by-parent"] == "true"
        # A queue with a closed parent cannot be opened; an event says so.
        await world.command(OPEN_QUEUE, f"{QUEUES}/low")
        await until(lambda: said(world, "low", "open that one first"))
        assert await world.state("low") == "Closed"
        await world.command(OPEN_QUEUE, f"{QUEUES}/top")
        await until(lambda: is_state(world, "low", "Open"))
        # This queue was closed by a command.
        assert await world.state("own") == "Closed"


async def test_the_root_queue_cannot_be_closed(world: World) -> None:
    async with controllers(world):
        await until(lambda: is_state(world, "root", "Open"))
        await world.command(CLOSE_QUEUE, f"{QUEUES}/root")
        await until(lambda: said(world, "root", "cannot be closed"))
    assert await world.state("root") == "Open"


async def test_pod_groups_are_counted_by_phase(world: World) -> None:
    await world.queue("q")
    async with controllers(world) as program:
        for name, phase in (("a", "Pending"), ("b", "Inqueue"), ("c", "Inqueue"), ("d", "Running")):
            await world.group(name, queue="q", phase=phase)
        await until(lambda: counts(world, "q", pending=1, inqueue=2, running=1, unknown=0, completed=0))
        await world.merge(f"{GROUPS}/d", {"status": {"phase": "Completed"}})
        await until(lambda: counts(world, "q", pending=1, inqueue=2, running=0, unknown=0, completed=1))
        text = program.metrics.render()[0].decode()
    assert 'volcano_queue_pod_group_inqueue_count{queue_name="q"} 2.0' in text


async def is_state(world: World, name: str, state: str) -> bool:
    return await world.state(name) == state


async def counts(world: World, name: str, **wanted: int) -> bool:
    status = (await world.get(f"{QUEUES}/{name}")).get("status", {})
    return {key: status.get(key, 0) for key in wanted} == wanted


async def said(world: World, name: str, text: str) -> bool:
    events = await world.items("/apis/events.k8s.io/v1/events")
    return any(each["regarding"]["name"] == name and text in each.get("note", "") for each in events)
