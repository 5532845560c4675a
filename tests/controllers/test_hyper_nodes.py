"""The controllers of HyperNodes on the embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers import hyper_nodes as module
from mooring.controllers.reconciler import Settings
from mooring.controllers.topology_discovery import SOURCE_LABEL, NetworkTopology, TopologySettings
from tests.controllers.world import World, controllers
from tests.log_capture import capture_logs
from tests.waiting import until

HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
NODES = "/api/v1/nodes"
RACKS = Settings(topology=TopologySettings((NetworkTopology("t", ("rack", "zone")),)))


@pytest.fixture(autouse=True)
def _without_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.02)


async def label(world: World, node: str, **labels: str | None) -> None:
    await world.merge(f"{NODES}/{node}", {"metadata": {"labels": labels}})


async def hyper_node(world: World, name: str, *members: Any, **metadata: Any) -> None:
    spec = {"tier": 1, "members": list(members)}
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name, **metadata}}
    await world.post(HYPER_NODES, **head, spec=spec)


def named(name: str, kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


async def discovered(world: World) -> dict[str, list[str]]:
    """Return the members of each discovered HyperNode, named by the value of its label."""
    items = [
        each
        for each in await world.items(HYPER_NODES)
        if each["metadata"].get("labels", {}).get(SOURCE_LABEL) == "label"
    ]
    value = {
        each["metadata"]["name"]: each["metadata"]["labels"].get(each["spec"].get("tierName"), "") for each in items
    }
    found = {}
    for each in items:
        names = [member["selector"]["exactMatch"]["name"] for member in each["spec"]["members"]]
        found[value[each["metadata"]["name"]]] = sorted(value.get(name, name) for name in names)
    return found


async def becomes(world: World, expected: dict[str, list[str]]) -> None:
    async def done() -> bool:
        return await discovered(world) == expected

    await until(done)


async def test_hyper_nodes_follow_the_labels_of_nodes(world: World) -> None:
    await hyper_node(world, "mine", named("node-0"), labels={"rack": "r1"})
    await hyper_node(world, "stale", named("node-9"), labels={SOURCE_LABEL: "label", "rack": "r9"})
    await hyper_node(world, "switch", named("node-0"), labels={SOURCE_LABEL: "ufm"})
    before = {name: (await world.get(f"{HYPER_NODES}/{name}"))["spec"] for name in ("mine", "switch")}
    for node, rack in (("node-0", "r1"), ("node-1", "r1"), ("node-2", "r2")):
        await label(world, node, rack=rack, zone="z")
    async with controllers(world, settings=RACKS):
        await becomes(world, {"r1": ["node-0", "node-1"], "r2": ["node-2"], "z": ["r1", "r2"]})
        await label(world, "node-1", rack="r2")
        await becomes(world, {"r1": ["node-0"], "r2": ["node-1", "node-2"], "z": ["r1", "r2"]})
        await world.client.send("DELETE", f"{NODES}/node-0")
        await becomes(world, {"r2": ["node-1", "node-2"], "z": ["r2"]})
        # A discovered HyperNode that somebody changes or deletes is restored.
        (name,) = [
            each["metadata"]["name"]
            for each in await world.items(HYPER_NODES)
            if each["metadata"].get("labels", {}).get("rack") == "r2"
        ]
        await world.merge(f"{HYPER_NODES}/{name}", {"spec": {"members": [named("node-7")]}})
        await becomes(world, {"r2": ["node-1", "node-2"], "z": ["r2"]})
        await world.client.send("DELETE", f"{HYPER_NODES}/{name}")
        await becomes(world, {"r2": ["node-1", "node-2"], "z": ["r2"]})
        await label(world, "node-1", zone=None)
        await label(world, "node-2", zone=None)
        await becomes(world, {"r2": ["node-1", "node-2"]})
    for name, spec in before.items():
        assert (await world.get(f"{HYPER_NODES}/{name}"))["spec"] == spec


async def test_too_many_values_change_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HYPER_NODES", 2)
    for node, rack in (("node-0", "r0"), ("node-1", "r1"), ("node-2", "r2")):
        await label(world, node, rack=rack)

    def warnings() -> list[str]:
        return [each["problem"] for each in lines if each["event"] == "discovery of HyperNodes"]

    with capture_logs() as lines:
        async with controllers(world, settings=RACKS):
            await until(warnings)
            assert await discovered(world) == {}
            await label(world, "node-2", rack="r1")
            await becomes(world, {"r0": ["node-0"], "r1": ["node-1", "node-2"]})
    (warning,) = warnings()
    assert warning.startswith("the labels of nodes have 3 values, but at most 2 HyperNodes are created")


async def test_the_status_has_the_number_of_members(world: World) -> None:
    selector = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}}
    pattern = {"type": "Node", "selector": {"regexMatch": {"pattern": "node-[01]"}}}
    await hyper_node(world, "by-label", selector)
    await hyper_node(world, "by-pattern", pattern, named("node-1"), named("node-2"))
    await hyper_node(world, "above", named("by-label", "HyperNode"), named("by-pattern", "HyperNode"))
    await label(world, "node-0", rack="r1")

    async def counts() -> dict[str, int]:
        items = await world.items(HYPER_NODES)
        return {each["metadata"]["name"]: each.get("status", {}).get("nodeCount", 0) for each in items}

    async def become(**expected: int) -> None:
        async def done() -> bool:
            return await counts() == {name.replace("_", "-"): count for name, count in expected.items()}

        await until(done)

    async with controllers(world):
        await become(by_label=1, by_pattern=3, above=2)
        await label(world, "node-1", rack="r1")
        await become(by_label=2, by_pattern=3, above=2)
        await world.client.send("DELETE", f"{NODES}/node-0")
        # node-1 and node-2 remain.
        await become(by_label=1, by_pattern=2, above=2)
        await label(world, "node-1", rack=None)
        await become(by_label=0, by_pattern=2, above=2)
    assert await discovered(world) == {}
