"""The REST client: typed objects, rate limit, priorities and retries."""

import asyncio
import contextlib
import enum
import functools
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from mooring import __version__
from mooring.api import Event, KubeObject, NamespacedObject, Pod
from mooring.api.codec import decode_json, encode_json
from mooring.api.decode_errors import ManifestError
from mooring.api.events import CoreEvent
from mooring.api.json_depth import prune_json
from mooring.kube.access import Access
from mooring.kube.api_resources import Resource, resource_of
from mooring.kube.binding_bodies import JSON, PROTOBUF, encode_json_binding, encode_protobuf_binding
from mooring.kube.client_errors import (
    NOT_LEADING,
    BadAnswer,
    BadRequest,
    ConnectionFailed,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    NotLeading,
    TooManyRequests,
    error_from_answer,
)
from mooring.kube.client_tls import TlsContexts
from mooring.kube.decoding import (
    Expected,
    OnInvalid,
    Page,
    RelaxedGarbageCollection,
    ServedResources,
    ServerVersion,
    check_object,
    continue_token,
    decode_page,
    next_page_size,
)
from mooring.kube.event_bodies import encode_protobuf_event
from mooring.kube.failure_log import FailureLog
from mooring.kube.identity import IdentitySource, identity_source
from mooring.kube.request_limits import Priority, RateLimiter
from mooring.kube.retry_backoff import Backoff
from mooring.kube.transport import Answer, Chunks, HttpTransport, RequestObserver, Timeouts, Transport
from mooring.logs import get_logger

ObjectT = TypeVar("ObjectT", bound=KubeObject)
T = TypeVar("T")
PAGE_SIZE: Final = 500
_TRIES: Final = 5
_DIGITS: Final = re.compile(r"[0-9]+")
#: The answers of a server that does not know the type of the body, or cannot answer in an accepted one.
_TYPE_REFUSED: Final = (406, 415)
_TRIES_WHEN_THROTTLED: Final = 10

log: Final = get_logger(__name__)


class PatchType(enum.StrEnum):
    """The format of a patch; the values are media types."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


#: The resources of requests for each pod.
_PODS: Final = resource_of(Pod)
_EVENTS: Final = resource_of(Event)
_CORE_EVENTS: Final = resource_of(CoreEvent)
#: The response to a bind is a Status, that to other requests any object.
_BOUND: Final = Expected("Status")
_ANY: Final = Expected()


class Client:
    """A client for one API server. Use it as an async context manager, in one event loop.

    `qps` and `burst` limit all requests together: binds first, then status and reads, then events. `qps` of 0 or less
    means no limit. Failed requests are retried a few times if that is safe: reads, deletes and patches always, binds
    and creations only if they were not carried out. `observer` is told about each request. `may_write` is called before
    each attempt to change an object; if it returns false, NotLeading is raised.
    """

    def __init__(
        self,
        access: Access,
        *,
        qps: float = 0,
        burst: int = 0,
        fast_writes: bool = True,
        timeouts: Timeouts | None = None,
        user_agent: str = f"mooring/{__version__}",
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        observer: RequestObserver | None = None,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        self.access = access
        self.timeouts = timeouts or Timeouts()
        self.random = rng or random.Random()
        #: Called with an object of a list or watch that cannot be decoded, and the reason. The object is skipped.
        self.on_invalid: OnInvalid | None = None
        #: Raises the thresholds of the garbage collector while lists are read; shared by reflectors.
        self.relaxed_gc = RelaxedGarbageCollection()
        identities = identity_source(access, clock=clock)
        tls = TlsContexts(access, clock=clock)
        self._http = _http_transport(access, identities, tls, user_agent=user_agent, timeouts=self.timeouts)
        self._fast_writer: Transport = self._http
        if fast_writes and not access.proxy:
            with contextlib.suppress(ImportError):
                from mooring.kube.fast_writer import FastWriter

                self._fast_writer = FastWriter(
                    access,
                    identities,
                    tls,
                    self._http,
                    user_agent=user_agent,
                    timeouts=self.timeouts,
                    may_write=may_write,
                )
        #: Logs failures of reflectors and leader election once for each cause.
        self.failures = FailureLog(access, clock=clock)
        self._limiter = RateLimiter(qps, burst, clock=clock)
        self._clock = clock
        self._observer = observer
        self._may_write = may_write
        #: Whether binds and events are sent in protobuf; until the server refuses it.
        self._protobuf = True

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Pending requests fail."""
        await self._fast_writer.close()
        await self._http.close()

    # Reads

    async def get(self, kind: "type[ObjectT] | Resource[ObjectT]", name: str, *, namespace: str = "") -> ObjectT:
        """Read one object. Raises NotFound."""
        resource = resource_of(kind)
        expected = Expected(resource.kind, name, namespace)
        answer = await self._call("GET", resource.path(namespace=namespace, name=name), expected=expected)
        return _decode(answer, resource)

    async def list(
        self,
        kind: "type[ObjectT] | Resource[ObjectT]",
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> Page[ObjectT]:
        """Read all objects of a kind at one version, in pages. Starts over if the version expires."""
        for limit in (PAGE_SIZE, PAGE_SIZE, 0):
            items: list[ObjectT] = []
            version = ""
            try:
                async for page in self.pages(kind, namespace=namespace, labels=labels, fields=fields, limit=limit):
                    items += page.items
                    version = page.resource_version
            except Gone:
                if not limit:
                    raise
                continue
            break
        return Page(items, version, "")

    async def pages(
        self,
        kind: "type[ObjectT] | Resource[ObjectT]",
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = PAGE_SIZE,
    ) -> AsyncGenerator[Page[ObjectT], None]:
        """Yield the pages of a list, at the version of the first page. Raises Gone if that expires.

        The server prepares a page while the one before it is decoded and handled. `limit` is the size of the first
        page. The following ones are larger if the objects are small.
        """
        resource = resource_of(kind)
        path = resource.path(namespace=namespace)
        size = limit

        def download(token: str) -> Coroutine[Any, Any, bytes]:
            selection = query(labelSelector=labels, fieldSelector=fields, limit=size, **{"continue": token})
            return self._download(path + selection)

        body = await download("")
        while True:
            token = continue_token(body)
            size = next_page_size(limit, size, len(body))
            following = asyncio.create_task(download(token)) if token else None
            try:
                await asyncio.sleep(0)  # send the request
                page = decode_page(body, resource, self.on_invalid)
                yield page
                if not page.continue_token:
                    return
                if following is not None and page.continue_token == token:
                    body = await following
                else:  # an unusual order of fields
                    body = await download(page.continue_token)
            finally:
                if following is not None and not following.done():
                    following.cancel()
                elif following is not None and not following.cancelled():
                    following.exception()  # retrieve it, because the caller may not read all pages

    @contextlib.asynccontextmanager
    async def stream(self, target: str) -> AsyncIterator[Chunks]:
        """Open a watch and return its body as a stream."""
        begun, opened = self._clock(), False
        try:
            async with self._http.stream(target, idle=self.timeouts.watch_idle) as chunks:
                opened = True
                self._report("GET", 200, begun, None)
                yield chunks
        except KubeError as error:
            if not opened:
                self._report("GET", getattr(error, "status", 0), begun, None)
            raise

    async def admit(self, priority: Priority = Priority.STATUS) -> None:
        """Wait for the rate limit, for requests that this class does not send itself."""
        await self._limiter.acquire(priority)

    async def serves(self, resource: Resource[Any]) -> bool:
        """Return whether the server serves the kind."""
        path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        try:
            answer = await self._call("GET", path, expected=Expected("APIResourceList"))
        except NotFound:
            return False
        try:
            found = msgspec.json.decode(answer.body, type=ServedResources)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise BadAnswer(f"the list of resources at {path} cannot be read: {error}") from None
        return any(each.name == resource.plural for each in found.resources)

    # Writes

    async def server_minor(self) -> int | None:
        """Return the minor version of the API server, such as 36; None if it does not tell. Raises KubeError."""
        try:
            answer = msgspec.json.decode(await self.call("GET", "/version"), type=ServerVersion)
        except (Forbidden, NotFound, msgspec.DecodeError):
            return None
        found = _DIGITS.match(answer.minor)  # some providers append a plus sign
        return int(found[0]) if found is not None else None

    async def create(self, value: ObjectT, *, resource: Resource[ObjectT] | None = None) -> ObjectT:
        """Create an object and return the result. Raises AlreadyExists."""
        resource = resource or resource_of(type(value))
        path = resource.path(namespace=value.namespace)
        expected = Expected(resource.kind, value.name, value.namespace)
        answer = await self._call("POST", path, body=encode_json(value), fast_writes=True, expected=expected)
        return _decode(answer, resource)

    async def replace(
        self, value: ObjectT, *, resource: Resource[ObjectT] | None = None, timeout: float | None = None
    ) -> ObjectT:
        """Replace an object at its resource version. Only for kinds whose struct has every field, such as Lease.

        Raises Conflict if the object has changed.
        """
        resource = resource or resource_of(type(value))
        path = resource.path(namespace=value.namespace, name=value.name)
        expected = Expected(resource.kind, value.name, value.namespace, value.uid)
        answer = await self._call("PUT", path, body=encode_json(value), timeout=timeout, expected=expected)
        return _decode(answer, resource)

    async def patch(
        self,
        kind: "type[ObjectT] | Resource[ObjectT]",
        name: str,
        patch: bytes | Mapping[str, Any],
        *,
        namespace: str = "",
        type: PatchType = PatchType.MERGE,
        subresource: str = "",
        idempotent: bool = True,
    ) -> ObjectT:
        """Patch an object and return the result. Use `idempotent=False` if the patch must not be sent twice."""
        resource = resource_of(kind)
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        body = patch if isinstance(patch, bytes) else msgspec.json.encode(patch)
        expected = Expected(resource.kind, name, namespace)
        answer = await self._call(
            "PATCH", path, body=body, content_type=type, idempotent=idempotent, fast_writes=True, expected=expected
        )
        return _decode(answer, resource)

    async def patch_status(
        self, kind: "type[KubeObject] | Resource[Any]", name: str, patch: bytes, *, namespace: str = ""
    ) -> None:
        """Patch the status of an object by strategic merge with the fast writer. The result is not decoded."""
        resource = resource_of(kind)
        path = resource.path(namespace=namespace, name=name, subresource="status")
        expected = Expected(resource.kind, name, namespace)
        await self._call(
            "PATCH", path, body=patch, content_type=PatchType.STRATEGIC, fast_writes=True, expected=expected
        )

    async def delete(
        self,
        kind: "type[KubeObject] | Resource[Any]",
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object. Raises NotFound, and Conflict if the object has another `uid` or resource `version`."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
        if conditions:
            options["preconditions"] = conditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        resource = resource_of(kind)
        path = resource.path(namespace=namespace, name=name)
        expected = Expected(resource.kind, name, namespace, uid, or_status=True)
        await self._call("DELETE", path, body=msgspec.json.encode(options), fast_writes=True, expected=expected)

    async def evict(self, pod: NamespacedObject, *, dry_run: bool = False) -> None:
        """Evict a pod through the Eviction API. Raises TooManyRequests if a disruption budget does not allow it.

        With `dry_run`, the server only checks whether it would evict the pod.
        """
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if dry_run:
            options["dryRun"] = ["All"]
        document = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        path = resource_of(Pod).path(namespace=pod.namespace, name=pod.name, subresource="eviction")
        target = f"{path}?dryRun=All" if dry_run else path
        await self._call("POST", target, body=msgspec.json.encode(document), expected=_BOUND, waits=False)

    def bind(
        self, pod: NamespacedObject, node: str, annotations: Mapping[str, str] | None = None, *, version: str = ""
    ) -> Coroutine[Any, Any, object]:
        """Bind a pod to a node with the fast writer. The bind is retried only if the server did not carry it out.

        The server adds the annotations to the pod. Raises Conflict if the pod is bound, is being deleted or has
        another UID or, with `version`, another resource version, and NotFound if it does not exist. If
        `outcome_unknown` of the error is set, read the pod to find out.
        """
        name, namespace = pod.metadata.name, pod.namespace
        binding = (name, namespace, pod.metadata.uid, annotations or {}, version, node)
        return self._post(
            _PODS.path(namespace=namespace, name=name, subresource="binding"),
            functools.partial(encode_protobuf_binding, *binding),
            functools.partial(encode_json_binding, *binding),
            priority=Priority.BIND,
            expected=_BOUND,
        )

    def create_event(self, event: Event | CoreEvent) -> Coroutine[Any, Any, object]:
        """Create an event with the fast writer, at the lowest priority. Raises AlreadyExists."""
        namespace = event.namespace
        return self._post(
            (_EVENTS if isinstance(event, Event) else _CORE_EVENTS).path(namespace=namespace),
            functools.partial(encode_protobuf_event, event) if isinstance(event, Event) else None,
            functools.partial(encode_json, event),
            priority=Priority.EVENT,
            expected=Expected("Event", event.metadata.name, namespace),
        )

    def _post(
        self,
        path: str,
        in_protobuf: Callable[[], bytes] | None,
        in_json: Callable[[], bytes],
        *,
        priority: Priority,
        expected: Expected,
    ) -> Coroutine[Any, Any, object]:
        """Create an object with the fast writer, in protobuf if there is such an encoder and the server accepts it."""
        if not self._protobuf:
            in_protobuf = None
        return self._call(
            "POST",
            path,
            body=in_json() if in_protobuf is None else in_protobuf(),
            content_type=JSON if in_protobuf is None else PROTOBUF,
            in_json=None if in_protobuf is None else in_json,
            priority=priority,
            idempotent=False,
            fast_writes=True,
            expected=expected,
        )

    async def patch_event(self, namespace: str, name: str, patch: bytes, *, core: bool = False) -> None:
        """Patch an event by strategic merge with the fast writer. Raises NotFound if it has expired."""
        await self._call(
            "PATCH",
            (_CORE_EVENTS if core else _EVENTS).path(namespace=namespace, name=name),
            body=patch,
            content_type=PatchType.STRATEGIC,
            priority=Priority.EVENT,
            fast_writes=True,
            expected=Expected("Event", name, namespace),
        )

    async def call(self, method: str, target: str, body: bytes | None = None) -> bytes:
        """Send a request that changes no object, such as a TokenReview, and return the raw body. Raises KubeError.

        The caller checks the response.
        """
        answer = await self._call(method, target, body=body, writes=False, expected=None)
        return answer.body

    async def send(self, method: str, target: str, document: Any = None, *, type: str = JSON) -> Any:
        """Send an unmodified document and return the response, for objects whose structs omit fields."""
        body = None if document is None else msgspec.json.encode(document)
        expected = Expected(document.get("kind", "")) if method in ("POST", "PUT") and document else _ANY
        answer = await self._call(method, target, body=body, content_type=type, expected=expected)
        try:
            return msgspec.json.decode(answer.body)
        except RecursionError:
            return msgspec.json.decode(prune_json(answer.body))

    # Implementation

    async def _call(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        in_json: Callable[[], bytes] | None = None,
        priority: Priority = Priority.STATUS,
        idempotent: bool | None = None,
        fast_writes: bool = False,
        timeout: float | None = None,
        writes: bool = True,
        expected: Expected | None = _ANY,
        waits: bool = True,
    ) -> Answer:
        """Send a request, again if it may be. `in_json` returns the body as JSON, if a server refuses protobuf."""
        transport = self._fast_writer if fast_writes else self._http
        limit = timeout or self.timeouts.request
        fence = self._may_write if writes and method != "GET" else None
        sent = len(body) if body is not None else 0
        backoff: Backoff | None = None
        while True:
            begun, limited = self._clock(), 0.0
            if not self._limiter.try_acquire(begun):
                begun, limited = await self._admitted(priority)
            try:
                if fence is not None and not fence():
                    raise NotLeading(NOT_LEADING)
                answer = await transport.request(
                    method, target, body=body, content_type=content_type, timeout=limit, priority=priority
                )
                if answer.status >= 300:
                    raise error_from_answer(answer.status, answer.headers, answer.body)
                if expected is not None:
                    check_object(answer.body, expected)
            except KubeError as error:
                if in_json is not None and isinstance(error, BadRequest) and error.status in _TYPE_REFUSED:
                    # It was not carried out. The server is not kube-apiserver, or there is a proxy.
                    self._report(method, error.status, begun, limited, sent)
                    self._protobuf = False
                    body, content_type, in_json = in_json(), JSON, None
                    sent = len(body)
                    continue
                backoff = backoff or self._backoff()
                harmless = method not in {"POST", "PUT"} if idempotent is None else idempotent
                await self._failed(method, error, begun, limited, backoff, idempotent=harmless, sent=sent, waits=waits)
            else:
                self._report(method, answer.status, begun, limited, sent, len(answer.body))
                return answer

    async def _download(self, target: str) -> bytes:
        """Send a GET request with a timeout for each part of the response instead of the whole."""
        backoff = self._backoff()
        while True:
            begun, limited = await self._admitted(Priority.STATUS)
            try:
                async with self._http.stream(target, idle=self.timeouts.listing) as chunks:
                    body = await chunks.read()
            except KubeError as error:
                await self._failed("GET", error, begun, limited, backoff, idempotent=True)
            else:
                self._report("GET", 200, begun, limited, received=len(body))
                return body

    async def _admitted(self, priority: Priority) -> tuple[float, float]:
        """Wait for the rate limit. Return the time after that, and the seconds that it took."""
        asked = self._clock()
        await self._limiter.acquire(priority)
        begun = self._clock()
        return begun, begun - asked

    async def _failed(
        self,
        method: str,
        error: KubeError,
        begun: float,
        limited: float,
        backoff: Backoff,
        *,
        idempotent: bool,
        sent: int = 0,
        waits: bool = True,
    ) -> None:
        """Wait until a failed request may be sent again; raise the error if it may not.

        Without ``waits``, a server that is too busy has refused it.
        """
        status = getattr(error, "status", 0)
        self._report(method, status, begun, limited, sent)
        refused = not waits and isinstance(error, TooManyRequests)
        if refused or not _may_repeat(error, backoff.tries, idempotent):
            raise error
        delay = max(backoff.next(), getattr(error, "retry_after", None) or 0.0)
        log.debug("retrying a request", method=method, error=str(error), seconds=delay)
        if self._observer is not None:
            self._observer.request_retried(method, status)
        await asyncio.sleep(delay)

    def _backoff(self) -> Backoff:
        return Backoff(first=0.1, cap=5.0, random=self.random)

    def _report(
        self, method: str, status: int, begun: float, limited: float | None, sent: int = 0, received: int = 0
    ) -> None:
        if self._observer is not None:
            seconds = self._clock() - begun
            self._observer.request_finished(method, status, seconds, limited=limited, sent=sent, received=received)


def _http_transport(
    access: Access, identities: IdentitySource, tls: TlsContexts, *, user_agent: str, timeouts: Timeouts
) -> HttpTransport:
    """Return the transport for all requests that the fast writer does not send. aiohttp is imported only if needed."""
    if not access.proxy and access.server.isascii():
        with contextlib.suppress(ImportError):
            from mooring.kube.http1_transport import Http1Transport

            return Http1Transport(access, identities, tls, user_agent=user_agent, timeouts=timeouts)
    from mooring.kube.aiohttp_transport import AiohttpTransport

    return AiohttpTransport(access, identities, tls, user_agent=user_agent, timeouts=timeouts)


def query(**values: str | int) -> str:
    """Return a query string of the values that are not empty."""
    given = {name: value for name, value in values.items() if value not in {"", 0}}
    return "?" + urlencode(given) if given else ""


def _may_repeat(error: KubeError, tries: int, idempotent: bool) -> bool:
    if isinstance(error, TooManyRequests):
        return tries < _TRIES_WHEN_THROTTLED
    if tries >= _TRIES:
        return False
    return isinstance(error, ConnectionFailed) or (idempotent and error.outcome_unknown)


def _decode(answer: Answer, resource: Resource[ObjectT]) -> ObjectT:
    try:
        return decode_json(answer.body, resource.model)
    except ManifestError as error:
        raise BadAnswer(f"the response is not a {resource.kind}: {error}") from None
