"""The process as a whole: several profiles, pods held at Permit, and a stop while some are held."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from mooring import Scheduler
from mooring.framework import PermitWait, Plugin
from tests.live.embedded import Embedded
from tests.waiting import PATIENCE


class OnlyTwo(Plugin):
    """Wants one node only."""

    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        return None if node.name == "node-2" else "not here"


class Hold(Plugin):
    """Holds pods at Permit for as long as their name says, and notes what is undone."""

    undone: ClassVar[list[str]] = []
    handles: ClassVar[list[Any]] = []

    def __init__(self, args: Any, handle: Any) -> None:
        self.handles.append(handle)

    def reserve(self, state: Any, pod: Any, node_name: str) -> None:
        """Nothing: what counts is that it is undone."""

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self.undone.append(pod.name)

    def permit(self, state: Any, pod: Any, node_name: str) -> PermitWait:
        return PermitWait(0.3 if pod.name == "brief" else 600)


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    Hold.undone, Hold.handles = [], []


def two_profiles(folder: Path) -> Path:
    def enabled(*names: str) -> dict[str, Any]:
        return {"multiPoint": {"enabled": [{"name": name} for name in names]}}

    file = folder / "config.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {"schedulerName": "picky", "plugins": enabled("OnlyTwo")},
            {"schedulerName": "holding", "plugins": enabled("Hold")},
        ],
    }
    file.write_text(yaml.safe_dump(document))
    return file


def scheduler(embedded: Embedded, tmp_path: Path) -> Scheduler:
    plugins = {"OnlyTwo": OnlyTwo, "Hold": Hold}
    return Scheduler(two_profiles(tmp_path), kubeconfig=embedded.kubeconfig, plugins=plugins)


async def held(count: int) -> dict[str, Any]:
    """The pods held at Permit by name, once there are so many."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = {each.pod.name: each for handle in Hold.handles for each in handle.waiting_pods}
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


async def test_each_pod_is_placed_by_the_profile_that_it_names(embedded: Embedded, tmp_path: Path) -> None:
    async with scheduler(embedded, tmp_path) as running:
        await running.ready()
        for name in ("a", "b", "c"):
            embedded.add_pod(name, scheduler="picky")
        embedded.add_pod("mine", scheduler="holding")
        embedded.add_pod("foreign")
        (await held(1))["mine"].allow("Hold")
        assert {await embedded.node_of(name) for name in ("a", "b", "c")} == {"node-2"}
        assert await embedded.node_of("mine")
        await embedded.event("Scheduled")
    events = [each.document for each in embedded.cluster.store.objects("events")]
    told = {
        each["involvedObject"]["name"]: each["reportingComponent"] for each in events if each["reason"] == "Scheduled"
    }
    assert told == {"a": "picky", "b": "picky", "c": "picky", "mine": "holding"}
    foreign = embedded.cluster.store.get("pods", "default", "foreign")
    assert foreign is not None
    assert "nodeName" not in foreign.document["spec"]
    assert "conditions" not in foreign.document["status"]


async def test_a_held_pod_is_turned_down_by_a_plugin_or_by_time(embedded: Embedded, tmp_path: Path) -> None:
    async with scheduler(embedded, tmp_path) as running:
        await running.ready()
        embedded.add_pod("brief", scheduler="holding")
        assert "timeout" in await embedded.message_of("brief")
        embedded.add_pod("long", scheduler="holding")
        while "long" not in (waiting := await held(1)):
            await asyncio.sleep(0.01)
        waiting["long"].reject("Hold", "not today")
        assert "not today" in await embedded.message_of("long")
    assert set(Hold.undone) == {"brief", "long"}


async def test_a_stop_does_not_wait_for_held_pods_but_gives_back_what_they_reserved(
    embedded: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.live.scheduler._GRACE_SECONDS", 600.0)
    async with scheduler(embedded, tmp_path) as running:
        await running.ready()
        embedded.add_pod("long", scheduler="holding")
        await held(1)
    assert Hold.undone == ["long"]
    pod = embedded.cluster.store.get("pods", "default", "long")
    assert pod is not None
    assert "nodeName" not in pod.document["spec"]
    assert not [each for each in embedded.cluster.store.objects("events") if each.document["type"] == "Warning"]
