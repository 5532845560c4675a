"""AdmissionWebhook: reviews requests of the API server by Volcano's rules, on the secure port of the controller."""

from __future__ import annotations

import asyncio
import base64
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.core import Namespace
from mooring.api.volcano import Queue
from mooring.apiserver.documents import Document
from mooring.apiserver.volcano_admission.review import HOOKS, Admission, AdmissionSettings, Hook, Request
from mooring.controllers.jobs.job_admission import PluginRules
from mooring.controllers.reconciler import Context
from mooring.late_certificates import web
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.live.endpoints.endpoint_server import EndpointServer
from mooring.unexpected_errors import shortened

_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
#: The maximum size of a request: an update contains two objects, and etcd stores at most 1.5 MiB of one.
_MAX_BYTES: Final = 4 * 1024 * 1024
_CHUNK: Final = 65536
#: The API server waits ten seconds by default.
_SECONDS: Final = 8.0
#: The number of reviews at the same time.
_CONCURRENT: Final = 8
#: The maximum length of a message.
_MAX_MESSAGE: Final = 4000
#: The API server shows clients about 4 KiB of warnings.
_MAX_WARNINGS: Final = 10


class _Resource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: str
    resource: _Resource
    name: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel"):
    request: _Request | None = None
    api_version: str = ""
    kind: str = ""


_DECODER: Final = msgspec.json.Decoder(_Review)


class _Snapshot(NamedTuple):
    """The objects that a review looks up."""

    all_queues: Mapping[str, Queue]
    annotations: Mapping[str, str]

    def queues(self) -> Mapping[str, Queue]:
        """Return all queues by name."""
        return self.all_queues

    def namespace_annotations(self, _name: str) -> Mapping[str, str]:
        """Return the annotations of the namespace of the request."""
        return self.annotations


class AdmissionWebhook:
    """The paths of the webhook. Requests need no authorization: they only ask, and change nothing."""

    def __init__(self, context: Context, paths: Sequence[str], settings: AdmissionSettings) -> None:
        self._context = context
        self._settings = settings
        self._hooks = [each for each in HOOKS if each.path in paths]
        self._places: asyncio.Semaphore | None = None

    def add_routes(self, app: web.Application, server: EndpointServer) -> None:
        """Add a path for each review."""
        self._places = asyncio.Semaphore(_CONCURRENT)
        for hook in self._hooks:
            app.router.add_post(hook.path, self._handler(hook, server))

    def _handler(self, hook: Hook, server: EndpointServer) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            assert self._places is not None
            given = _read_review(await _body(request), hook)
            snapshot = await server.read(functools.partial(self._snapshot, given.namespace))
            try:
                async with asyncio.timeout(_SECONDS), self._places:
                    # Not in the event loop of this thread, which serves the health checks too.
                    response = await asyncio.to_thread(self._review, hook, given, snapshot)
            except TimeoutError:
                raise HttpError(503, f"the review took more than {_SECONDS:.0f} s") from None
            except RecursionError:
                raise HttpError(400, "the object is nested too deeply") from None
            body = {"apiVersion": _VERSION, "kind": _KIND, "response": {"uid": given.uid, **response}}
            return web.Response(body=msgspec.json.encode(body), content_type="application/json")

        return handle

    def _snapshot(self, namespace: str) -> _Snapshot:
        cache = self._context.cache
        found = cache.get(Namespace, namespace)
        return _Snapshot(dict(cache.all(Queue)), {} if found is None else found.annotations)

    def _review(self, hook: Hook, given: _Request, snapshot: _Snapshot) -> Document:
        admission = Admission(snapshot, self._settings, PluginRules(self._context.job_plugins))
        document, old = given.object, given.old_object
        request = Request(given.operation, hook.group, hook.resource, given.namespace, given.name, document, old)
        if hook.mutates:
            assert document is not None
            return _with_patch(patch_between(document, admission.defaulted(request)))
        reason = admission.refusal(request)
        if reason:
            return {"allowed": False, "status": {"message": shortened(reason, _MAX_MESSAGE)}}
        warnings = [shortened(each) for each in admission.warnings(request)[:_MAX_WARNINGS]]
        return {"allowed": True, **({"warnings": warnings} if warnings else {})}


async def _body(request: web.Request) -> bytes:
    """Return the body of a request. Raises HttpError."""
    if request.content_type != "application/json":
        raise HttpError(415, f"Content-Type: {request.content_type!r} is not supported; use application/json")
    if (request.content_length or 0) > _MAX_BYTES:
        raise HttpError(413, f"the body has more than {_MAX_BYTES} bytes")
    parts = bytearray()
    async for part in request.content.iter_chunked(_CHUNK):
        parts += part
        if len(parts) > _MAX_BYTES:
            raise HttpError(413, f"the body has more than {_MAX_BYTES} bytes")
    return bytes(parts)


def _read_review(body: bytes, hook: Hook) -> _Request:
    """Return the request of a review. Raises HttpError."""
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, f"the body is not an {_KIND}: {error}") from None
    if review.kind != _KIND or review.api_version != _VERSION:
        raise HttpError(400, f"the body is {review.api_version} {review.kind}; expected {_VERSION} {_KIND}")
    given = review.request
    if given is None:
        raise HttpError(400, "request: missing")
    found, wanted = (given.resource.group, given.resource.resource), (hook.group, hook.resource)
    if found != wanted:
        raise HttpError(400, f"request.resource: {'/'.join(found)} is not reviewed here; expected {'/'.join(wanted)}")
    if given.operation not in hook.operations:
        raise HttpError(400, f"request.operation: {given.operation}; expected {' or '.join(hook.operations)}")
    if given.operation != "DELETE" and given.object is None:
        raise HttpError(400, "request.object: missing")
    if given.operation == "UPDATE" and given.old_object is None:
        raise HttpError(400, "request.oldObject: missing")
    return given


def _with_patch(patch: list[Document]) -> Document:
    if not patch:
        return {"allowed": True}
    text = base64.b64encode(msgspec.json.encode(patch)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def patch_between(old: Any, new: Any, path: str = "") -> list[Document]:
    """Return the JSON patch that turns a value into another."""
    if isinstance(old, dict) and isinstance(new, dict):
        patch = [{"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in old if key not in new]
        for key, value in new.items():
            here = f"{path}/{_escaped(key)}"
            patch += (
                patch_between(old[key], value, here) if key in old else [{"op": "add", "path": here, "value": value}]
            )
        return patch
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [each for number, (one, other) in pairs for each in patch_between(one, other, f"{path}/{number}")]
    return [] if old == new and type(old) is type(new) else [{"op": "replace", "path": path, "value": new}]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
