"""The reflector against a real server: whatever breaks, every change is told once and in order."""

import asyncio
import contextlib
import copy
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from mooring.api import Pod
from mooring.kube import Access, Backoff, BadAnswer, Change, Client, Forbidden, Reflector
from tests.kube.server import PODS, Api, Fault, Happening
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE, until


def quick(seed: int = 0) -> Backoff:
    return Backoff(first=0.001, cap=0.01, random=random.Random(seed))


class Story:
    """What a reflector told, checked as it is told."""

    def __init__(self) -> None:
        self.told: list[Change[Pod]] = []
        self.view: dict[str, Pod] = {}

    def __call__(self, changes: list[Change[Pod]]) -> None:
        for change in changes:
            key = change.object.key
            # What was is exactly what was told last, so nothing was lost, doubled or turned round.
            assert change.old is self.view.get(key)
            if change.new is None:
                del self.view[key]
            else:
                if change.old is not None:
                    assert change.old.uid == change.new.uid
                    assert version(change.new) > version(change.old)
                self.view[key] = change.new
            self.told.append(change)

    def actions(self) -> list[tuple[str, str]]:
        return [(change.action, change.object.name) for change in self.told]


def version(pod: Pod) -> int:
    return int(pod.metadata.resource_version)


def server_view(api: Api) -> dict[str, str]:
    return {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
        for each in api.in_collection("/api/v1/pods")
    }


def client_view(reflector: Reflector[Pod]) -> dict[str, str]:
    return {key: pod.metadata.resource_version for key, pod in reflector.objects.items()}


@contextlib.asynccontextmanager
async def following(api: Api, story: Story, **options: Any) -> AsyncIterator[Reflector[Pod]]:
    async with Client(Access(server=api.url), rng=random.Random(0)) as client:
        reflector = Reflector(client, Pod, story, backoff=options.pop("backoff", quick()), **options)
        task = asyncio.create_task(reflector.run())
        try:
            await asyncio.wait_for(reflector.synced.wait(), PATIENCE)
            yield reflector
            assert not task.done(), task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.mark.parametrize("stream_lists", [False, True])
async def test_tells_what_exists_then_what_happens(api: Api, stream_lists: bool) -> None:
    for name in "abc":
        api.put(f"{PODS}/{name}", {})
    story = Story()
    async with following(api, story, stream_lists=stream_lists, page_size=2) as reflector:
        assert story.actions() == [("add", "a"), ("add", "b"), ("add", "c")]
        api.put(f"{PODS}/a", {"spec": {"nodeName": "n"}})
        api.delete(f"{PODS}/b")
        api.put(f"{PODS}/d", {})
        await until(lambda: len(story.told) == 6)
        assert story.actions()[3:] == [("update", "a"), ("delete", "b"), ("add", "d")]
        assert story.view["default/a"].node_name == "n"
        assert client_view(reflector) == server_view(api)
    queries = [query for _, _, query in api.requests]
    if stream_lists:
        assert len(queries) == 1
        assert "sendInitialEvents=true" in queries[0]
        assert "resourceVersionMatch=NotOlderThan" in queries[0]
    else:
        assert "limit=2" in queries[0]
        assert "continue=" in queries[1]
        assert "resourceVersion=" not in queries[0]
        assert "allowWatchBookmarks=true" in queries[2]


async def test_a_server_that_cannot_stream_lists_is_asked_for_pages(api: Api) -> None:
    api.watch_lists = False
    api.put(f"{PODS}/a", {})
    story = Story()
    async with following(api, story, stream_lists=True):
        assert story.actions() == [("add", "a")]
    assert [("watch=true" in query) for _, _, query in api.requests[:3]] == [True, False, True]


async def test_selectors_and_namespace_go_with_list_and_watch(api: Api) -> None:
    async with following(api, Story(), namespace="default", labels="a in (b,c)", fields="status.phase!=Failed"):
        await until(lambda: api.watches == 1)
    for _, path, query in api.requests:
        assert path == PODS
        assert "labelSelector=a in (b,c)&" in query
        assert "fieldSelector=status.phase!%3DFailed" in query


async def test_a_broken_watch_resumes_from_the_last_version_without_listing(api: Api) -> None:
    story = Story()
    async with following(api, story) as reflector:
        await until(lambda: api.watches == 1)
        for round_ in range(5):
            api.put(f"{PODS}/a", {"spec": {"nodeName": f"n{round_}"}})
            api.cut_watches()
            await until(lambda: api.watches == 1 and client_view(reflector) == server_view(api))
    assert [change.action for change in story.told] == ["add", "update", "update", "update", "update"]
    assert sum("watch=true" not in query for _, _, query in api.requests) == 1


async def test_bookmarks_move_the_version_on(api: Api) -> None:
    async with following(api, Story()) as reflector:
        await until(lambda: api.watches == 1)
        api.bookmark()
        await until(lambda: reflector.version == str(api.version))
        api.cut_watches("close")
        await until(lambda: api.watches == 1 and f"resourceVersion={reflector.version}" in api.requests[-1][2])


@pytest.mark.parametrize("stream_lists", [False, True])
async def test_410_makes_it_list_again_and_tell_the_difference(api: Api, stream_lists: bool) -> None:
    for name in "abc":
        api.put(f"{PODS}/{name}", {})
    story = Story()
    async with following(api, story, stream_lists=stream_lists) as reflector:
        await until(lambda: api.watches == 1)
        blocked = True
        api.fault = lambda request: Fault(status=503) if blocked else None
        api.cut_watches()
        await until(lambda: api.watches == 0)
        api.put(f"{PODS}/a", {"spec": {"nodeName": "n"}})
        api.delete(f"{PODS}/b")
        api.delete(f"{PODS}/c")
        api.put(f"{PODS}/c", {})
        api.put(f"{PODS}/d", {})
        api.compact()
        blocked = False
        await until(lambda: client_view(reflector) == server_view(api))
    # A pod of the same name but another identity is told as two changes.
    assert story.actions()[3:] == [("update", "a"), ("delete", "c"), ("add", "c"), ("add", "d"), ("delete", "b")]


class Lagging:
    """A second API server behind the same address, whose lists are those of the time when this was made."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._then = (api.version, copy.deepcopy(api.objects))
        self._list, self._initial = api._list, api._initial_lines
        self.lists = 0

    def answer(self) -> None:
        self._api._list = self._as_then(self._list)  # type: ignore[method-assign]
        self._api._initial_lines = self._as_then(self._initial)  # type: ignore[method-assign]

    def _as_then(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def answered(*arguments: Any) -> Any:
            self.lists += 1
            now = (self._api.version, self._api.objects)
            self._api.version, self._api.objects = self._then
            try:
                return answer(*arguments)
            finally:
                self._api.version, self._api.objects = now

        return answered

    def catch_up(self) -> None:
        self._api._list, self._api._initial_lines = self._list, self._initial  # type: ignore[method-assign]


@pytest.mark.parametrize("stream_lists", [False, True])
async def test_a_list_of_a_server_that_lags_behind_is_not_believed(api: Api, stream_lists: bool) -> None:
    """In it, pods that have a node would wait again, and new ones would be gone: their room would be given away."""
    api.put(f"{PODS}/bound", {})
    story = Story()
    lagging = Lagging(api)
    async with following(api, story, stream_lists=stream_lists) as reflector:
        api.put(f"{PODS}/bound", {"spec": {"nodeName": "n"}})
        api.put(f"{PODS}/new", {"spec": {"nodeName": "n"}})
        await until(lambda: len(story.told) == 3)
        lagging.answer()
        api.compact()
        api.cut_watches("expire")
        await until(lambda: lagging.lists >= 3)
        assert len(story.told) == 3, "nothing changed"
        assert client_view(reflector) == server_view(api)
        lagging.catch_up()
        api.put(f"{PODS}/later", {})
        await until(lambda: client_view(reflector) == server_view(api))
    assert story.actions() == [("add", "bound"), ("update", "bound"), ("add", "new"), ("add", "later")]


@pytest.mark.parametrize("stream_lists", [False, True])
async def test_a_restored_backup_is_believed_in_the_end(api: Api, stream_lists: bool) -> None:
    api.put(f"{PODS}/bound", {})
    api.put(f"{PODS}/old", {})
    told: list[Change[Pod]] = []
    version, objects = api.version, copy.deepcopy(api.objects)
    async with following(api, told.extend, stream_lists=stream_lists) as reflector:  # type: ignore[arg-type]
        api.put(f"{PODS}/bound", {"spec": {"nodeName": "n"}})
        api.put(f"{PODS}/new", {})
        await until(lambda: len(told) == 4)
        api.version, api.objects, api.history = version, objects, []
        api.cut_watches("expire")
        await until(lambda: client_view(reflector) == server_view(api))
    assert {(change.action, change.object.name) for change in told[4:]} == {("update", "bound"), ("delete", "new")}


async def test_a_watch_that_goes_back_in_time_brings_no_deleted_pod_back(api: Api) -> None:
    api.put(f"{PODS}/a", {})
    story = Story()
    async with following(api, story) as reflector:
        await until(lambda: api.watches == 1)
        api.put(f"{PODS}/b", {})
        api.delete(f"{PODS}/a")
        await until(lambda: len(story.told) == 3)
        # The same events again, as from a server that lags behind, and then one that is new.
        for each in api.history[-2:]:
            api.history.append(each._replace(version=api.version + 1))
        api.version += 1
        api._wake()
        api.put(f"{PODS}/c", {})
        await until(lambda: client_view(reflector) == server_view(api))
    assert story.actions() == [("add", "a"), ("add", "b"), ("delete", "a"), ("add", "c")]


async def test_a_flood_of_events_waits_in_the_connection(api: Api) -> None:
    """While the handler cannot keep up, nothing is read, and other tasks run."""
    api.put(f"{PODS}/a", {})
    story, opened, waits = Story(), asyncio.Event(), 0

    async def throttle() -> None:
        nonlocal waits
        waits += 1
        await opened.wait()

    async with following(api, story, throttle=throttle) as reflector:
        await until(lambda: api.watches == 1)
        for number in range(20_000):
            api.history.append(_modified(api, number))
        api.version += 20_000
        api._wake()
        await until(lambda: waits == 1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(story.told) < 5_000, "one buffer"
        assert waits == 1
        opened.set()
        await until(lambda: len(story.told) == 20_001)
        assert reflector.version == str(api.version)


def _modified(api: Api, number: int) -> Happening:
    found = copy.deepcopy(api.objects[f"{PODS}/a"])
    found["metadata"]["resourceVersion"] = str(api.version + 1 + number)
    return Happening(api.version + 1 + number, "MODIFIED", found)


async def test_a_line_without_an_end_is_an_error(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.reflector._MAX_LINE", 1 << 20)
    story = Story()
    async with following(api, story) as reflector:
        await until(lambda: api.watches == 1)
        api.version += 1
        api._happen("ADDED", {"kind": "Pod", "metadata": {"name": "x" * (2 << 20)}})
        await until(lambda: "a line of more than 1 MiB" in str(reflector.last_error))
        assert not story.told


async def test_a_watch_of_another_kind_is_an_error(api: Api) -> None:
    story = Story()
    async with following(api, story) as reflector:
        await until(lambda: api.watches == 1)
        api.version += 1
        api._happen("ADDED", {"kind": "Node", "metadata": {"name": "n", "namespace": "default", "uid": "u"}})
        await until(lambda: isinstance(reflector.last_error, BadAnswer) or bool(story.told))
        assert not story.told


async def test_a_list_that_expires_half_way_is_read_in_one_piece_in_the_end(api: Api) -> None:
    for index in range(10):
        api.put(f"{PODS}/p{index}", {})

    def expire(request: web.Request) -> Fault | None:
        if "continue" in request.query:
            api.compact()
        return None

    api.fault = expire
    story = Story()
    async with following(api, story, page_size=3) as reflector:
        assert client_view(reflector) == server_view(api)
    assert len(story.told) == 10
    assert ["limit" in query for _, _, query in api.requests][-2:] == [False, False]


async def test_a_node_or_pod_that_makes_no_sense_does_not_stop_it(api: Api) -> None:
    api.put(f"{PODS}/good", {})
    api.put(f"{PODS}/bad", {"spec": {"containers": "none"}})
    api.put(f"{PODS}/nulls", {"spec": {"containers": None, "tolerations": None}, "status": {"conditions": None}})
    story = Story()
    async with following(api, story) as reflector:
        assert sorted(story.view) == ["default/good", "default/nulls"]
        api.put(f"{PODS}/good", {"spec": "nonsense"})
        api.put(f"{PODS}/later", {})
        await until(lambda: "default/later" in story.view)
        assert version(story.view["default/good"]) < api.version - 1
        api.delete(f"{PODS}/good")
        await until(lambda: "default/good" not in story.view)
        assert reflector.version == str(api.version)


async def test_what_went_wrong_can_be_asked_for_and_passes(api: Api) -> None:
    denied = True
    api.fault = lambda request: Fault(status=403, body={"message": "no", "reason": "Forbidden"}) if denied else None
    async with Client(Access(server=api.url)) as client:
        reflector = Reflector(client, Pod, Story(), backoff=quick())
        task = asyncio.create_task(reflector.run())
        await until(lambda: isinstance(reflector.last_error, Forbidden))
        assert not reflector.synced.is_set()
        denied = False
        await until(reflector.synced.is_set)
        # Though nothing changes: a kind of which there are no objects is not unhealthy for ever.
        await until(lambda: reflector.last_error is None)
        assert api.watches == 1
        task.cancel()


async def test_what_the_handler_raises_is_reported(api: Api) -> None:
    seen: list[str] = []

    def broken(changes: list[Change[Pod]]) -> None:
        seen.extend(change.object.name for change in changes)
        if seen == ["a"]:
            raise RuntimeError("a bug")

    api.put(f"{PODS}/a", {})
    async with Client(Access(server=api.url)) as client:
        with capture_logs() as logs:
            reflector = Reflector(client, Pod, broken, backoff=quick())
            task = asyncio.create_task(reflector.run())
            await until(reflector.synced.is_set)
        api.put(f"{PODS}/b", {})
        await until(lambda: seen == ["a", "b"])
        task.cancel()
    assert [each["error"] for each in logs if each["log_level"] == "error"] == ["RuntimeError: a bug"]


@pytest.mark.parametrize("page", [b"<html>\n<body>Please log in</body>", b"<html>Please log in</html>", b'["no"]'])
async def test_a_watch_that_a_proxy_answers_is_an_error(api: Api, page: bytes) -> None:
    serve, logged_in = api._serve, False

    async def proxy(request: web.Request, body: bytes) -> web.StreamResponse:
        if request.query.get("watch") and not logged_in:
            return web.Response(body=page)
        return await serve(request, body)

    api._serve = proxy  # type: ignore[method-assign]
    story = Story()
    async with Client(Access(server=api.url)) as client:
        reflector = Reflector(client, Pod, story, backoff=quick())
        task = asyncio.create_task(reflector.run())
        await until(lambda: isinstance(reflector.last_error, BadAnswer))
        logged_in = True
        api.put(f"{PODS}/a", {})
        await until(lambda: "default/a" in reflector.objects)
        task.cancel()


class Weather:
    """Changes to the cluster and faults, at random."""

    def __init__(self, api: Api, seed: int, *, expiry: bool) -> None:
        self.api = api
        self.random = random.Random(seed)
        self.expiry = expiry
        self.stormy = True
        api.random.seed(seed)
        api.fragments = True
        api.fault = self.fault

    def fault(self, request: web.Request) -> Fault | None:
        if not self.stormy or self.random.random() > 0.2:
            return None
        faults = [
            Fault(status=500),
            Fault(status=429, headers={"Retry-After": "0"}),
            Fault(cut="before"),
            Fault(delay=0.01),
        ]
        if self.expiry:
            faults.append(Fault(status=410, body={"reason": "Expired", "code": 410}))
        return self.random.choice(faults)

    async def blow(self, steps: int) -> None:
        for step in range(steps):
            self.change()
            draw = self.random.random()
            if draw < 0.10:
                self.api.cut_watches(self.random.choice(["abort", "close"]))
            elif draw < 0.15:
                self.api.bookmark()
            elif draw < 0.20 and self.expiry:
                self.api.compact()
            if step % 25 == 24:
                # However slow this machine is, some watches are up when they are cut.
                await until(lambda: self.api.watches == 1)
                self.api.cut_watches()
            if self.random.random() < 0.5 or step % 7 == 0:
                await asyncio.sleep(self.random.choice([0, 0, 0.001, 0.004]))
        self.stormy = False
        self.api.fault = lambda request: None

    def change(self) -> None:
        namespace = self.random.choice(["default", "other"])
        path = f"/api/v1/namespaces/{namespace}/pods/p{self.random.randrange(12)}"
        if path in self.api.objects and self.random.random() < 0.3:
            self.api.delete(path)
            if self.random.random() < 0.3:
                self.api.put(path, {})
        else:
            self.api.put(path, {"spec": {"nodeName": f"n{self.random.randrange(9)}"}})


@pytest.mark.parametrize("stream_lists", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_no_change_is_lost_or_doubled_while_connections_break(api: Api, seed: int, stream_lists: bool) -> None:
    weather = Weather(api, seed, expiry=False)
    weather.stormy = False
    for _ in range(20):
        weather.change()
    story = Story()
    async with following(api, story, stream_lists=stream_lists, page_size=4) as reflector:
        api.history.clear()
        story.told.clear()
        requests = len(api.requests)
        weather.stormy = True
        await weather.blow(150)
        await until(lambda: client_view(reflector) == server_view(api))
        # Nothing expired, so there was no new list, and all that happened was told, each once, in its order.
        assert all("watch=true" in query for _, _, query in api.requests[requests:])
        assert len(api.requests) > requests + 5
        words = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}
        happened = [
            (words[each.type], each.object["metadata"]["name"], each.object["metadata"]["uid"], each.version)
            for each in api.history
            if each.type != "BOOKMARK"
        ]
        told = [
            (each.action, each.object.name, each.object.uid, version(each.new) if each.new else happened[index][3])
            for index, each in enumerate(story.told)
        ]
        assert told == happened


@pytest.mark.parametrize("stream_lists", [False, True])
@pytest.mark.parametrize("seed", range(100, 108))
async def test_the_view_is_right_in_the_end_whatever_expires(api: Api, seed: int, stream_lists: bool) -> None:
    weather = Weather(api, seed, expiry=True)
    for _ in range(20):
        weather.change()
    story = Story()
    async with following(api, story, stream_lists=stream_lists, page_size=4) as reflector:
        await weather.blow(150)
        await until(lambda: client_view(reflector) == server_view(api))
        assert {key: pod.metadata.resource_version for key, pod in story.view.items()} == server_view(api)
        real = {str(each.version) for each in api.history}
        assert all(change.new is None or change.new.metadata.resource_version in real for change in story.told)
