"""Watches."""

import asyncio
import json
import random
from typing import Any

import pytest

from mooring.cluster.selectors import SelectionPredicate, parse_label_selector
from mooring.cluster.watch import Watcher
from tests.cluster.conftest import PODS, Client, make, pod
from tests.waiting import PATIENCE

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def _pods(client: Client) -> None:
    for name, label, node in (("a", "x", ""), ("b", "y", "n1"), ("c", "x", "n1")):
        body = pod(name, **({"nodeName": node} if node else {}))
        body["metadata"]["labels"] = {"l": label}
        await client.create(PODS, body)


async def test_watches_tell_what_happens(client: Client) -> None:
    """From the version of a list on, each change once and in order."""
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a"))
    version = (await client.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    async with client.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as stream:
        await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "b"))
        await client.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}})
        await client.delete(f"{CONFIG_MAPS}/b")
        assert await stream.names(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    async with client.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as stream:
        assert await stream.names(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_a_watch_without_a_version_begins_with_what_is_there(client: Client) -> None:
    """In the order of a list."""
    await _pods(client)
    async with client.watch(f"{PODS}?watch=true") as stream:
        assert await stream.names(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_objects_come_and_go_from_a_selected_watch(client: Client) -> None:
    """What is no longer chosen is deleted, as far as the watch is concerned."""
    await _pods(client)
    async with client.watch(f"{PODS}?watch=true&labelSelector=l%3Dx") as stream:
        assert await stream.names(2) == [("ADDED", "a"), ("ADDED", "c")]
        await client.patch(f"{PODS}/a", {"metadata": {"labels": {"l": "y"}}})
        await client.patch(f"{PODS}/b", {"metadata": {"labels": {"l": "x"}}})
        await client.patch(f"{PODS}/b", {"metadata": {"labels": {"m": "n"}}})
        kind, gone = await stream.event()
        assert (kind, gone["metadata"]["labels"]) == ("DELETED", {"l": "x"})
        current = await client.get(f"{PODS}/a")
        assert gone["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
        assert await stream.names(2) == [("ADDED", "b"), ("MODIFIED", "b")]


async def test_bindings_leave_the_watch_of_unbound_pods(client: Client) -> None:
    """So a scheduler that watches only those sees its own binds as deletions."""
    await client.create(PODS, pod("a"))
    async with client.watch(f"{PODS}?watch=true&fieldSelector=spec.nodeName%3D") as stream:
        assert await stream.names(1) == [("ADDED", "a")]
        assert (await client.bind("a", "n1")).status == 201
        assert await stream.names(1) == [("DELETED", "a")]


async def test_streamed_lists_end_with_a_bookmark(client: Client) -> None:
    """As `sendInitialEvents` asks."""
    await _pods(client)
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with client.watch(f"{PODS}?{query}") as stream:
        assert [name for _, name in await stream.names(3)] == ["a", "b", "c"]
        kind, bookmark = await stream.event()
        assert kind == "BOOKMARK"
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert bookmark["metadata"]["resourceVersion"] == str(client.cluster.store.version)
    answer = await client.ask("GET", f"{PODS}?watch=true&sendInitialEvents=true")
    assert answer.status == 400


async def test_bookmarks_come_on_idle_watches_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every so often, whether anything happens or not: a client may take silence for a dead connection."""
    monkeypatch.setattr("mooring.cluster.http.read_handlers.BOOKMARK_EVERY", 0.05)
    version = client.cluster.store.version
    async with client.watch(f"{PODS}?watch=true&resourceVersion={version}&allowWatchBookmarks=true") as stream:
        events = [await stream.event() for _ in range(3)]
    assert [(kind, each["metadata"]["resourceVersion"]) for kind, each in events] == [("BOOKMARK", str(version))] * 3


async def test_bookmarks_come_before_the_end(client: Client) -> None:
    """So that a client that was idle need not list again."""
    query = f"watch=true&resourceVersion={client.cluster.store.version}&allowWatchBookmarks=true&timeoutSeconds=2"
    async with client.watch(f"{PODS}?{query}") as stream:
        await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "elsewhere"))
        kind, bookmark = await stream.event()
        assert (kind, bookmark["metadata"]["resourceVersion"]) == ("BOOKMARK", str(client.cluster.store.version))
        assert (await stream.event())[0] == "END"


@pytest.mark.parametrize("version", [1, 999999])
async def test_watch_from_an_unavailable_version_gets_410(client: Client, version: int) -> None:
    """A version before the history or in the future ends the watch with an Expired error."""
    await _pods(client)
    client.cluster.store.restart(client.cluster.store.version)
    async with client.watch(f"{PODS}?watch=true&resourceVersion={version}") as stream:
        kind, status = await stream.event()
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert (await stream.event())[0] == "END"


async def test_watches_end_when_their_time_is_up(client: Client) -> None:
    """Clients ask for it, to spread their reconnections."""
    async with asyncio.timeout(PATIENCE), client.watch(f"{PODS}?watch=true&timeoutSeconds=1") as stream:
        assert (await stream.event())[0] == "END"


@pytest.mark.parametrize("seed", range(8))
async def test_watches_that_break_off_and_resume_miss_and_repeat_nothing(client: Client, seed: int) -> None:
    """Random changes seen through random selectors: what a watcher has put together is what a list shows."""
    rng = random.Random(seed)
    store, broadcaster = client.cluster.store, client.cluster.api.broadcaster
    resource = client.cluster.api.mapper.of("configmaps")
    predicate = SelectionPredicate(
        namespace=rng.choice([None, "a"]), labels=parse_label_selector("l=x") if rng.random() < 0.7 else None
    )
    seen: dict[tuple[str, str], str] = {}
    version, stream = 0, None
    for _ in range(300):
        if stream is None:
            stream = Watcher(resource, predicate)
            broadcaster.start(stream, str(version or store.version), initial=False, bookmarks=False)
        namespace, name = rng.choice("ab"), rng.choice("pqr")
        if store.get("configmaps", namespace, name) is not None and rng.random() < 0.3:
            store.remove("configmaps", namespace, name)
        else:
            metadata = {"name": name, "namespace": namespace, "labels": {"l": rng.choice("xy")}}
            store.put("configmaps", namespace, name, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        if rng.random() < 0.2:
            version = _replay(stream, seen, version)
            broadcaster.stop(stream)
            stream = None
    if stream is not None:
        _replay(stream, seen, version)
    page = client.cluster.api.paginator.first(resource, predicate, 0)
    listed = {_key(each.document): each.document["metadata"]["resourceVersion"] for each in page.items}
    assert seen == listed


def _key(document: dict[str, Any]) -> tuple[str, str]:
    return document["metadata"]["namespace"], document["metadata"]["name"]


def _replay(stream: Watcher, seen: dict[tuple[str, str], str], version: int) -> int:
    """Take all events; each must make sense after those before it."""
    for line in stream.take().splitlines():
        event = json.loads(line)
        key, number = _key(event["object"]), event["object"]["metadata"]["resourceVersion"]
        assert int(number) > version
        version = int(number)
        assert (key in seen) is (event["type"] != "ADDED"), (event["type"], key)
        if event["type"] == "DELETED":
            del seen[key]
        else:
            seen[key] = number
    return version
