"""Typed requests, errors by kind, and what is sent again."""

import asyncio
import json
import random
import sys
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from mooring.api import Event, KubeObject, Lease, LeaseSpec, Node, ObjectMeta, ObjectReference, Pod
from mooring.api.protobuf import decode_object
from mooring.kube import (
    Access,
    AlreadyExists,
    ApiError,
    BadAnswer,
    BadRequest,
    Client,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotLeading,
    OutcomeUnknown,
    PatchType,
    ServerError,
    ServerTimeout,
    Timeouts,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    User,
    custom_resource,
    resource_of,
)
from mooring.kube.aiohttp_transport import AiohttpTransport
from tests.kube.server import PODS, Api, Fault
from tests.waiting import PATIENCE

POD = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u-1"))


def client(api: Api, **options: Any) -> Client:
    return Client(Access(server=api.url), rng=random.Random(0), **options)


def first(*faults: Fault) -> Any:
    """The first requests meet these faults, the others none."""
    left = list(faults)
    return lambda request: left.pop(0) if left else None


async def test_get_list_create_replace_patch_delete(api: Api) -> None:
    async with client(api) as kube:
        made = await kube.create(Node(metadata=ObjectMeta(name="n", labels={"a": "b"})))
        assert (made.name, made.labels, made.uid) == ("n", {"a": "b"}, "uid-101")
        assert await kube.get(Node, "n") == made
        patched = await kube.patch(Node, "n", {"metadata": {"labels": {"a": None, "c": "d"}}})
        assert patched.labels == {"c": "d"}
        listed = await kube.list(Node)
        assert listed.items == [patched]
        assert listed.resource_version == "102"
        with pytest.raises(Conflict):
            await kube.delete(Node, "n", uid="another")
        await kube.delete(Node, "n", uid=made.uid, grace_seconds=0)
        with pytest.raises(NotFound):
            await kube.get(Node, "n")
    assert json.loads(api.bodies[-2]) == {
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": made.uid}, "gracePeriodSeconds": 0,
    }  # fmt: skip
    assert api.headers[2]["Content-Type"] == "application/merge-patch+json"


async def test_a_lease_is_replaced_only_at_its_version(api: Api) -> None:
    async with client(api) as kube:
        metadata = ObjectMeta(name="l", namespace="kube-system")
        lease = await kube.create(Lease(metadata=metadata, spec=LeaseSpec(holder_identity="a")))
        with pytest.raises(AlreadyExists):
            await kube.create(lease)
        newer = await kube.replace(Lease(metadata=lease.metadata, spec=LeaseSpec(holder_identity="b")))
        assert newer.spec.holder_identity == "b"
        with pytest.raises(Conflict) as caught:
            await kube.replace(lease)
        assert not isinstance(caught.value, AlreadyExists)


async def test_binding(api: Api) -> None:
    async with client(api) as kube:
        with pytest.raises(NotFound):
            await kube.bind(POD, "n")
        api.put(f"{PODS}/p", {})
        await kube.bind(POD, "n")
        with pytest.raises(Conflict):
            await kube.bind(POD, "n")
    assert api.requests[-1][:2] == ("POST", f"{PODS}/p/binding")
    assert decode_object(api.bodies[-1]) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "default", "uid": "u-1"},
        "target": {"kind": "Node", "name": "n"},
    }


async def test_an_eviction_that_a_budget_forbids_is_not_repeated(api: Api) -> None:
    api.fault = lambda request: Fault(status=429, headers={"Retry-After": "1"})
    async with client(api) as kube:
        for dry_run in (True, False):
            with pytest.raises(TooManyRequests):
                await kube.evict(POD, dry_run=dry_run)
    assert [each[:2] for each in api.requests] == [("POST", f"{PODS}/p/eviction")] * 2


async def test_status_patches_and_events(api: Api) -> None:
    api.put(f"{PODS}/p", {})
    async with client(api) as kube:
        await kube.patch_status(Pod, "p", b'{"status": {"phase": "Running"}}', namespace="default")
        assert api.objects[f"{PODS}/p"]["status"] == {"phase": "Running"}
        assert api.headers[-1]["Content-Type"] == PatchType.STRATEGIC
        assert api.requests[-1][1] == f"{PODS}/p/status"
        regarding = ObjectReference(kind="Pod", name="p", namespace="default")
        event = Event(metadata=ObjectMeta(name="e", namespace="default"), regarding=regarding, note="hello")
        await kube.create_event(event)
        await kube.patch_event("default", "e", b'{"series": {"count": 2}}')
    stored = api.objects["/apis/events.k8s.io/v1/namespaces/default/events/e"]
    assert stored["note"] == "hello"
    assert stored["series"]["count"] == 2
    assert stored["apiVersion"] == "events.k8s.io/v1"


async def test_lists_come_in_pages_and_begin_again_when_they_expire(api: Api) -> None:
    for index in range(2601):
        api.objects[f"/api/v1/nodes/n{index:04}"] = {"metadata": {"name": f"n{index:04}", "resourceVersion": "1"}}
    expired = []

    def expire(request: web.Request) -> None:
        if "continue" in request.query and not expired:
            expired.append(1)
            api.compact()

    api.fault = expire
    async with client(api) as kube:
        page = await kube.list(Node, labels="x", fields="y")
    assert [node.name for node in page.items] == [f"n{index:04}" for index in range(2601)]
    sizes = [int(parse_qs(query)["limit"][0]) for _, _, query in api.requests]
    assert sizes == [500, 2000, 500, 2000, 2000]  # the second page of the first list had expired
    assert all("labelSelector=x&fieldSelector=y&limit=" in query for _, _, query in api.requests)


class Widget(KubeObject, kw_only=True):
    spec: dict[str, int] | None = None


async def test_custom_resources(api: Api) -> None:
    widgets = custom_resource(
        Widget, group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=True
    )
    api.put("/apis/example.com/v1/namespaces/a/widgets/w", {"spec": {"size": 3}})
    api.objects["/apis/example.com/v1"] = {"kind": "APIResourceList", "resources": [{"name": "widgets"}]}
    async with client(api) as kube:
        assert (await kube.get(widgets, "w", namespace="a")).spec == {"size": 3}
        assert [each.name for each in (await kube.list(widgets)).items] == ["w"]
        assert await kube.serves(widgets)
        assert not await kube.serves(
            custom_resource(Widget, group="other.com", version="v1", kind="W", plural="ws", namespaced=True)
        )
        api.objects["/apis/example.com/v1"] = {"kind": "APIResourceList", "resources": [{}]}
        with pytest.raises(BadAnswer, match="cannot be read"):
            await kube.serves(widgets)
        with pytest.raises(TypeError, match="custom_resource"):
            await kube.get(Widget, "w")


@pytest.mark.parametrize(
    ("answer", "minor"),
    [
        ({"major": "1", "minor": "36", "gitVersion": "v1.36.4"}, 36),
        ({"major": "1", "minor": "32+", "gitVersion": "v1.32.1-eks"}, 32),
        ({"gitVersion": "unknown"}, None),
        ({"minor": 5}, None),
        (None, None),
    ],
)
async def test_the_minor_version_of_the_server(api: Api, answer: dict[str, object] | None, minor: int | None) -> None:
    if answer is not None:
        api.objects["/version"] = answer
    async with client(api) as kube:
        assert await kube.server_minor() == minor


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (418, "", ApiError),
        (422, "Invalid", Invalid),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", ServerTimeout),
    ],
)
async def test_errors_by_kind(api: Api, status: int, reason: str, kind: type[ApiError]) -> None:
    body = {"code": status, "reason": reason, "message": "because", "details": {"causes": [{"reason": "Why"}]}}
    api.fault = lambda request: Fault(status=status, body=body)
    async with client(api) as kube:
        # A creation is not repeated whatever the server says, so this is its first word.
        with pytest.raises(ApiError) as caught:
            await kube.create(POD)
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.reason, error.message, error.causes) == (status, reason, "because", ("Why",))
    assert str(error) == f"because ({status}{' ' + reason if reason else ''})"
    assert error.outcome_unknown == (status >= 500)
    # Without permission nothing was done, so it is sent once more, with renewed credentials.
    assert len(api.requests) == (2 if kind is Unauthorized else 1)


async def test_an_answer_that_is_no_status_is_still_told(api: Api) -> None:
    async def html(request: web.Request, body: bytes) -> web.Response:
        return web.Response(status=502, text="<h1>Bad   gateway</h1>")

    api._serve = html  # type: ignore[method-assign]
    async with client(api) as kube:
        with pytest.raises(Unavailable, match="<h1>Bad gateway</h1>"):
            await kube.create(POD)


async def test_an_answer_that_is_no_object_is_told(api: Api) -> None:
    api.objects["/api/v1/nodes/n"] = {"kind": "Node", "metadata": {"name": "n"}, "spec": "nonsense"}
    api.objects["/api/v1/nodes/s"] = {"kind": "Status", "metadata": {}, "status": "Success"}
    async with Client(Access(server=api.url), rng=_Impatient()) as kube:
        with pytest.raises(BadAnswer, match="the response is not a Node"):
            await kube.get(Node, "n")
        with pytest.raises(BadAnswer, match="the response is not a Node but a Status"):
            await kube.get(Node, "s")


#: What a proxy in front of an API server answers with code 200.
PAGES = [
    b"<html><body>Please log in</body></html>",
    b"",
    b"OK",
    b'{"error": "log in"}',
    b"[]",
    b"null",
    b'"kind"',
    b"\xff\xfe",
]


@pytest.mark.parametrize("fast_writes", [True, False])
@pytest.mark.parametrize("page", PAGES)
async def test_a_success_that_is_not_of_an_api_server_is_of_unknown_outcome(
    api: Api, page: bytes, fast_writes: bool
) -> None:
    async def proxy(request: web.Request, body: bytes) -> web.Response:
        return web.Response(status=201 if request.method == "POST" else 200, body=page)

    api._serve = proxy  # type: ignore[method-assign]
    patch = b'{"status":{}}'
    async with Client(Access(server=api.url), fast_writes=fast_writes, rng=_Impatient()) as kube:
        for call in (
            lambda: kube.bind(POD, "node"),
            lambda: kube.create(POD),
            lambda: kube.create_event(Event(metadata=ObjectMeta(name="e"))),
            lambda: kube.patch_status(Pod, "p", patch, namespace="default"),
            lambda: kube.patch(Pod, "p", patch, namespace="default"),
            lambda: kube.delete(Pod, "p", namespace="default"),
            lambda: kube.get(Pod, "p", namespace="default"),
            lambda: kube.list(Pod),
            lambda: kube.serves(resource_of(Pod)),
            lambda: kube.send("GET", "/api/v1/nodes/n"),
        ):
            with pytest.raises(BadAnswer) as caught:
                await call()
            assert caught.value.outcome_unknown
            assert len(str(caught.value)) < 400


FAILURE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 409, "reason": "Conflict"}
LEASE = Lease(metadata=ObjectMeta(name="p", namespace="default", uid="u-1"))
EVENT = Event(metadata=ObjectMeta(name="p", namespace="default"))
#: The calls that are answered with an object, and the kind of it.
CALLS: dict[str, tuple[str, Any]] = {
    "get": ("Pod", lambda kube: kube.get(Pod, "p", namespace="default")),
    "create": ("Pod", lambda kube: kube.create(POD)),
    "replace": ("Lease", lambda kube: kube.replace(LEASE)),
    "patch": ("Pod", lambda kube: kube.patch(Pod, "p", {}, namespace="default")),
    "patch_status": ("Pod", lambda kube: kube.patch_status(Pod, "p", b"{}", namespace="default")),
    "delete": ("Pod", lambda kube: kube.delete(Pod, "p", namespace="default", uid="u-1")),
    "create_event": ("Event", lambda kube: kube.create_event(EVENT)),
    "patch_event": ("Event", lambda kube: kube.patch_event("default", "p", b"{}")),
}
#: Calls that name the object by its UID.
BY_UID = {"replace", "delete"}


async def _answered(api: Api, call: Any, body: bytes, *, fast_writes: bool) -> None:
    async def serve(request: web.Request, _: bytes) -> web.Response:
        return web.Response(status=201 if request.method == "POST" else 200, body=body)

    api._serve = serve  # type: ignore[method-assign]
    async with Client(Access(server=api.url), fast_writes=fast_writes, rng=_Impatient()) as kube:
        await call(kube)


@pytest.mark.parametrize("fast_writes", [True, False])
@pytest.mark.parametrize("name", CALLS)
async def test_a_response_is_the_object_that_was_asked_for(api: Api, name: str, fast_writes: bool) -> None:
    """Otherwise the outcome is unknown: the answer may be that to another request, mixed up by a proxy."""
    kind, call = CALLS[name]
    metadata = {"name": "p", "namespace": "default", "uid": "u-1"}
    right = {"kind": kind, "metadata": metadata}
    await _answered(api, call, json.dumps(right).encode(), fast_writes=fast_writes)
    wrong: list[dict[str, Any]] = [
        FAILURE,
        {**FAILURE, "status": None},
        {"kind": "Node", "metadata": metadata},
        {"kind": f"{kind}List", "metadata": {}, "items": [right]},
        {"kind": kind, "metadata": {**metadata, "name": "q"}},
        {"kind": kind, "metadata": {**metadata, "namespace": "other"}},
        {"kind": kind},
        {"kind": kind, "metadata": None},
    ]
    if name in BY_UID:
        wrong.append({"kind": kind, "metadata": {**metadata, "uid": "u-2"}})
    bodies = [json.dumps(each).encode() for each in wrong]
    for body in (*bodies, json.dumps(right).encode()[:-2], json.dumps(right).encode() * 2):
        with pytest.raises(BadAnswer) as caught:
            await _answered(api, call, body, fast_writes=fast_writes)
        assert caught.value.outcome_unknown


@pytest.mark.parametrize("fast_writes", [True, False])
async def test_only_a_status_with_success_is_a_bind(api: Api, fast_writes: bool) -> None:
    def bind(kube: Client) -> Any:
        return kube.bind(POD, "n")

    await _answered(api, bind, b'{"kind": "Status", "status": "Success", "code": 201}', fast_writes=fast_writes)
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u-1"}}
    for body in (FAILURE, {**FAILURE, "status": "success"}, {"kind": "Status"}, pod):
        with pytest.raises(BadAnswer):
            await _answered(api, bind, json.dumps(body).encode(), fast_writes=fast_writes)


async def test_the_next_page_is_requested_while_one_is_handled(api: Api) -> None:
    names = [f"n{index}" for index in range(9)]
    for name in names:
        api.objects[f"/api/v1/nodes/{name}"] = {"metadata": {"name": name, "resourceVersion": "1"}}
    async with client(api) as kube:
        pages = kube.pages(Node, limit=1)
        first_page = await anext(pages)
        while len(api.requests) < 2:
            await asyncio.sleep(0)
        assert [node.name for node in first_page.items] == names[:1]
        await pages.aclose()  # the page that nobody wants is no error
        found = [[node.name for node in page.items] async for page in kube.pages(Node, limit=1)]
    assert found == [names[:1], names[1:5], names[5:]]
    assert len(api.requests) == 2 + 3


async def test_a_list_has_the_kind_that_was_asked_for(api: Api) -> None:
    item = {"metadata": {"name": "n"}}
    for kind in ("PodList", "Status", "Node", "List"):
        body = json.dumps({"kind": kind, "metadata": {"resourceVersion": "5"}, "items": [item]}).encode()
        with pytest.raises(BadAnswer, match=f"a list of nodes has the kind '{kind}'"):
            await _answered(api, lambda kube: kube.list(Node), body, fast_writes=False)


class _Impatient(random.Random):
    """Makes retries wait as short as possible."""

    def random(self) -> float:
        return 1.9999999


async def test_a_deeply_nested_answer_is_read(api: Api) -> None:
    deep = b'{"kind":"Pod","metadata":{"name":"p","namespace":"default"},"unknown":' + b"[" * 9000 + b"]" * 9000 + b"}"

    async def serve(request: web.Request, body: bytes) -> web.Response:
        return web.Response(body=deep)

    api._serve = serve  # type: ignore[method-assign]
    async with client(api) as kube:
        assert (await kube.get(Pod, "p", namespace="default")).name == "p"
        assert (await kube.send("GET", "/api/v1/namespaces/default/pods/p"))["metadata"]["name"] == "p"


@pytest.mark.parametrize(
    "fault",
    [Fault(status=500), Fault(status=503), Fault(cut="before"), Fault(cut="after"), Fault(status=429)],
)
async def test_what_can_do_no_harm_is_sent_again(api: Api, fault: Fault) -> None:
    api.put("/api/v1/nodes/n", {})
    async with client(api) as kube:
        for call in (
            lambda: kube.get(Node, "n"),
            lambda: kube.list(Node),
            lambda: kube.patch(Node, "n", {"metadata": {"labels": {"a": "b"}}}),
            lambda: kube.patch_status(Node, "n", b"{}"),
        ):
            api.fault = first(fault)
            before = len(api.requests)
            await call()
            assert len(api.requests) >= before + 2


@pytest.mark.parametrize(
    ("fault", "error", "bound"),
    [
        (Fault(cut="before"), OutcomeUnknown, False),
        (Fault(cut="after"), OutcomeUnknown, True),
        (Fault(status=500), ServerError, False),
        (Fault(status=504), ServerTimeout, False),
    ],
)
@pytest.mark.parametrize("fast_writes", [False, True])
async def test_a_bind_whose_outcome_is_unknown_is_not_sent_again(
    api: Api, fault: Fault, error: type[Exception], bound: bool, fast_writes: bool
) -> None:
    api.put(f"{PODS}/p", {})
    async with client(api, fast_writes=fast_writes) as kube:
        api.fault = first(fault)
        with pytest.raises(error) as caught:
            await kube.bind(POD, "n")
        assert caught.value.outcome_unknown  # type: ignore[attr-defined]
    assert len(api.requests) == 1
    assert bool(api.objects[f"{PODS}/p"].get("spec", {}).get("nodeName")) == bound


@pytest.mark.parametrize("fast_writes", [False, True])
async def test_a_throttled_bind_is_sent_again_when_the_server_says(api: Api, fast_writes: bool) -> None:
    api.put(f"{PODS}/p", {})
    api.fault = first(Fault(status=429, headers={"Retry-After": "1"}))
    async with client(api, fast_writes=fast_writes) as kube:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await kube.bind(POD, "n")
        assert loop.time() - begun >= 1
    assert len(api.requests) == 2


async def test_the_server_is_not_asked_for_ever(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = []

    async def sleep(seconds: float) -> None:
        if seconds:
            slept.append(seconds)

    monkeypatch.setattr("mooring.kube.rest.asyncio.sleep", sleep)
    async with client(api) as kube:
        api.fault = lambda request: Fault(status=429, headers={"Retry-After": "2"})
        with pytest.raises(TooManyRequests) as caught:
            await kube.bind(POD, "n")
        assert caught.value.retry_after == 2
        assert (len(slept), min(slept)) == (10, 2)
        slept.clear()
        api.fault = lambda request: Fault(status=500)
        with pytest.raises(ServerError):
            await kube.get(Node, "n")
        assert len(slept) == 5
        assert all(0 < seconds <= 5 for seconds in slept)
    slept.clear()
    nowhere = Access(server="http://127.0.0.1:1")
    async with Client(nowhere) as kube:
        for call in (lambda: kube.bind(POD, "n"), lambda: kube.get(Node, "n")):
            with pytest.raises(ConnectionFailed, match="cannot be reached"):
                await call()
    assert len(slept) == 10


@pytest.mark.parametrize("fast_writes", [False, True])
async def test_slow_answers_run_into_the_time_limit(api: Api, fast_writes: bool) -> None:
    api.put(f"{PODS}/p", {})
    api.fault = lambda request: Fault(delay=5)
    async with client(api, fast_writes=fast_writes, timeouts=Timeouts(request=0.2)) as kube:
        with pytest.raises(OutcomeUnknown):
            await kube.bind(POD, "n")


async def test_a_list_that_stalls_runs_into_its_own_limit(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.rest._TRIES", 0)
    api.fault = lambda request: Fault(delay=5)
    async with client(api, timeouts=Timeouts(listing=0.1)) as kube:
        with pytest.raises(OutcomeUnknown):
            await kube.list(Node)


async def test_every_wait_can_be_cancelled(api: Api) -> None:
    api.put(f"{PODS}/p", {})
    api.fault = lambda request: Fault(delay=30)
    async with client(api) as kube:
        for call in (kube.bind(POD, "n"), kube.get(Node, "n"), kube.list(Node)):
            task = asyncio.create_task(call)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, PATIENCE)
        # The lane is as good as new afterwards.
        api.fault = lambda request: None
        await kube.bind(POD, "n")


async def test_each_answer_is_observed(api: Api) -> None:
    class Observer:
        finished: ClassVar[list[tuple[str, int]]] = []
        limited: ClassVar[list[float | None]] = []
        retried: ClassVar[list[tuple[str, int]]] = []
        sizes: ClassVar[list[tuple[bool, bool]]] = []

        def request_finished(
            self, method: str, status: int, seconds: float, *, limited: float | None, sent: int, received: int
        ) -> None:
            self.finished.append((method, status))
            self.limited.append(limited)
            self.sizes.append((sent > 0, received > 0))

        def request_retried(self, method: str, status: int) -> None:
            self.retried.append((method, status))

    api.put("/api/v1/nodes/n", {})
    api.fault = first(Fault(status=500))
    async with client(api, observer=Observer()) as kube:
        await kube.get(Node, "n")
        await kube.list(Node)
        with pytest.raises(NotFound):
            await kube.bind(POD, "n")
    assert Observer.finished == [("GET", 500), ("GET", 200), ("GET", 200), ("POST", 404)]
    assert len([each for each in Observer.limited if each is not None]) == 4
    assert Observer.retried == [("GET", 500)]
    assert Observer.sizes == [(False, False), (False, True), (False, True), (True, False)]


async def test_impersonation_and_agent_go_with_every_request(tls_api: Api) -> None:
    user = User(token="t", impersonation=(("Impersonate-User", "bob"), ("Impersonate-Group", "a")))
    access = Access(server=tls_api.url, insecure=True, user=user)
    tls_api.put(f"{PODS}/p", {})
    async with Client(access, user_agent="me/1") as kube:
        await kube.bind(POD, "n")
        await kube.get(Pod, "p", namespace="default")
    for headers in tls_api.headers:
        assert headers["User-Agent"] == "me/1"
        assert headers["Authorization"] == "Bearer t"
        assert (headers["Impersonate-User"], headers["Impersonate-Group"]) == ("bob", "a")


async def test_without_httptools_the_lane_is_aiohttp(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    for name in ("fast_writer", "http1_connection", "http1_stream", "http1_transport"):
        monkeypatch.delitem(sys.modules, f"mooring.kube.{name}", raising=False)
    api.put(f"{PODS}/p", {})
    async with client(api) as kube:
        assert isinstance(kube._fast_writer, AiohttpTransport)
        await kube.bind(POD, "n")
    assert api.objects[f"{PODS}/p"]["spec"]["nodeName"] == "n"


async def test_nothing_is_written_by_one_who_may_not(api: Api) -> None:
    allowed = [True, True]  # asked before and after waiting for a connection
    api.put(f"{PODS}/p", {"metadata": {}})
    api.fault = first(Fault(status=429, headers={"Retry-After": "0"}))

    def may_write() -> bool:
        # What is sent again is asked about again.
        return allowed.pop() if allowed else False

    async with client(api, may_write=may_write) as kube:
        with pytest.raises(NotLeading):
            await kube.bind(POD, "n")
        assert [method for method, *_ in api.requests] == ["POST"]
        with pytest.raises(NotLeading):
            await kube.delete(Pod, "p", namespace="default")
        assert (await kube.get(Pod, "p", namespace="default")).name == "p"
    assert f"{PODS}/p" in api.objects
