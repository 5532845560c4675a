"""A small real API server for tests: lists in pages, watches, conflicts, and faults on demand.

It keeps objects as dictionaries under their URL path, with one resource version for all, and the whole history, so that
tests can compare what a client saw with what happened.
"""

import asyncio
import copy
import json
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from mooring.api.protobuf import decode_object

CERTS = Path(__file__).parent / "certs"
PODS = "/api/v1/namespaces/default/pods"
_KINDS = {"pods": "Pod", "nodes": "Node", "leases": "Lease", "events": "Event", "widgets": "Widget"}


class Happening(NamedTuple):
    version: int
    type: str
    object: dict[str, Any]


class Fault(NamedTuple):
    """What happens to a request instead of, or before, an answer."""

    status: int = 0
    headers: Mapping[str, str] = MappingProxyType({})
    body: dict[str, Any] | None = None
    #: Cut the connection, before or after doing what was asked.
    cut: str = ""
    delay: float = 0.0


class Api:
    def __init__(self, *, tls: bool = False, seed: int = 0, tokens: tuple[str, ...] = ()) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.history: list[Happening] = []
        #: Versions at or below this are forgotten.
        self.compacted = 0
        self.requests: list[tuple[str, str, str]] = []
        self.bodies: list[bytes] = []
        self.headers: list[Any] = []
        self.tokens = tokens
        #: Called for each request; what it returns happens to it.
        self.fault: Callable[[web.Request], Fault | None] = lambda request: None
        self.watch_lists = True
        self.max_watch = 3600.0
        self.random = random.Random(seed)
        self.fragments = False
        self._snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._changed = asyncio.Event()
        self._cuts: set[asyncio.Future[str]] = set()
        self._tls = tls
        self._server: TestServer | None = None

    # Life.

    async def __aenter__(self) -> "Api":
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._server = TestServer(app, scheme="https" if self._tls else "http")
        await self._server.start_server(ssl=server_context() if self._tls else None)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches("close")
        assert self._server is not None
        await self._server.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._server.port}"

    # What tests do to the cluster.

    def put(self, path: str, value: dict[str, Any]) -> dict[str, Any]:
        """Create or replace the object at a path of a collection and its name."""
        self.version += 1
        collection, _, name = path.rpartition("/")
        known = self.objects.get(path)
        value = {"kind": _KINDS.get(collection.rpartition("/")[2], "Object"), **copy.deepcopy(value)}
        metadata = value.setdefault("metadata", {})
        metadata["name"] = name
        if "/namespaces/" in collection:
            metadata["namespace"] = collection.split("/namespaces/")[1].split("/")[0]
        metadata["uid"] = known["metadata"]["uid"] if known else f"uid-{self.version}"
        metadata["resourceVersion"] = str(self.version)
        self.objects[path] = value
        self._happen("MODIFIED" if known else "ADDED", value)
        return value

    def delete(self, path: str) -> dict[str, Any]:
        self.version += 1
        value = copy.deepcopy(self.objects.pop(path))
        value["metadata"]["resourceVersion"] = str(self.version)
        self._happen("DELETED", value)
        return value

    def _happen(self, kind: str, value: dict[str, Any]) -> None:
        self.history.append(Happening(self.version, kind, copy.deepcopy(value)))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def bookmark(self) -> None:
        """Send a bookmark to every watch."""
        self.version += 1
        self.history.append(Happening(self.version, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))
        self._wake()

    def compact(self) -> None:
        """Forget history: a watch or a page that goes on from an older version is told 410."""
        self.compacted = self.version
        self._snapshots.clear()
        self.cut_watches("expire")

    def cut_watches(self, how: str = "abort") -> None:
        """End all watches: abort (the connection breaks, perhaps inside a line), close (in order), expire (410)."""
        for cut in list(self._cuts):
            if not cut.done():
                cut.set_result(how)

    @property
    def watches(self) -> int:
        return len(self._cuts)

    def in_collection(self, collection: str) -> list[dict[str, Any]]:
        """The objects of a collection, of one namespace or all."""
        return [value for path, value in sorted(self.objects.items()) if _belongs(path, collection)]

    # Requests.

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path, request.query_string))
        self.headers.append(request.headers)
        body = await request.read()
        self.bodies.append(body)
        if self.tokens and request.headers.get("Authorization") not in {f"Bearer {each}" for each in self.tokens}:
            return status(401, "Unauthorized", "Unauthorized")
        fault = self.fault(request)
        if fault is not None:
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.cut == "before":
                return await self._abort(request)
            if fault.status:
                return web.json_response(fault.body or {}, status=fault.status, headers=fault.headers)
        response = await self._serve(request, body)
        if fault is not None and fault.cut == "after":
            return await self._abort(request)
        return response

    async def _abort(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def _serve(self, request: web.Request, body: bytes) -> web.StreamResponse:
        path = request.path
        if request.method == "GET" and request.query.get("watch"):
            return await self._watch(request)
        serve: dict[str, Callable[[web.Request, str, bytes], Awaitable[web.StreamResponse]]] = {
            "GET": self._get, "POST": self._post, "PUT": self._put, "PATCH": self._patch, "DELETE": self._delete,
        }  # fmt: skip
        return await serve[request.method](request, path, body)

    async def _get(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        if path in self.objects:
            return web.json_response(self.objects[path])
        if path.rpartition("/")[2] in {"pods", "nodes", "leases", "events", "widgets"}:
            return self._list(request, path)
        return status(404, "NotFound", f"{path} not found")

    def _list(self, request: web.Request, path: str) -> web.StreamResponse:
        limit = int(request.query.get("limit", 0))
        token = request.query.get("continue", "")
        if token:
            if token.split(":")[0] not in self._snapshots:
                return status(410, "Expired", "The provided continue parameter is too old")
            snapshot, _, start = token.partition(":")
            version, items = self._snapshots[snapshot]
        else:
            version, items, start = self.version, copy.deepcopy(self.in_collection(path)), "0"
            snapshot = f"s{len(self._snapshots)}-{self.version}"
            self._snapshots[snapshot] = (version, items)
        end = int(start) + limit if limit else len(items)
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if end < len(items):
            metadata["continue"] = f"{snapshot}:{end}"
        kind = f"{_KINDS.get(path.rpartition('/')[2], 'Object')}List"
        found = {"kind": kind, "metadata": metadata, "items": items[int(start) : end]}
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def _post(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        is_protobuf = request.content_type == "application/vnd.kubernetes.protobuf"
        value = decode_object(body) if is_protobuf else json.loads(body)
        if path.endswith("/binding"):
            pod = self.objects.get(path.removesuffix("/binding"))
            if pod is None:
                return status(404, "NotFound", "pod not found")
            if pod.setdefault("spec", {}).get("nodeName"):
                return status(409, "Conflict", "pod is already assigned to a node")
            self.put(
                path.removesuffix("/binding"), {**pod, "spec": {**pod["spec"], "nodeName": value["target"]["name"]}}
            )
            return web.json_response({"kind": "Status", "status": "Success", "code": 201}, status=201)
        path = f"{path}/{value['metadata']['name']}"
        if path in self.objects:
            return status(409, "AlreadyExists", f"{path} already exists")
        return web.json_response(self.put(path, value), status=201)

    async def _put(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        value = json.loads(body)
        known = self.objects.get(path)
        if known is None:
            return status(404, "NotFound", f"{path} not found")
        if value["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        return web.json_response(self.put(path, value))

    async def _patch(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        path = path.removesuffix("/status")
        if path not in self.objects:
            return status(404, "NotFound", f"{path} not found")
        return web.json_response(self.put(path, merged(self.objects[path], json.loads(body))))

    async def _delete(self, request: web.Request, path: str, body: bytes) -> web.StreamResponse:
        if path not in self.objects:
            return status(404, "NotFound", f"{path} not found")
        wanted = (json.loads(body or b"{}").get("preconditions") or {}).get("uid")
        if wanted and wanted != self.objects[path]["metadata"]["uid"]:
            return status(409, "Conflict", "the UID in the precondition does not match")
        self.delete(path)
        return web.json_response({"kind": "Status", "status": "Success"})

    # Watches.

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = request.query.get("resourceVersion", "")
        initial = bool(request.query.get("sendInitialEvents"))
        if initial and not self.watch_lists:
            return status(422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch")
        if since and int(since) < self.compacted:
            return status(410, "Expired", "too old resource version")
        cut: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._cuts.add(cut)
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            return await self._stream(request, response, int(since or self.version), initial, cut)
        except ConnectionError:
            return response
        finally:
            self._cuts.discard(cut)

    async def _stream(
        self, request: web.Request, response: web.StreamResponse, since: int, initial: bool, cut: "asyncio.Future[str]"
    ) -> web.StreamResponse:
        if initial:
            await self._write(response, self._initial_lines(request.path))
        ends = asyncio.get_running_loop().time() + min(self.max_watch, float(request.query["timeoutSeconds"]))
        while True:
            changed = asyncio.ensure_future(self._changed.wait())
            fresh = [each for each in self.history if each.version > since and self._concerns(each, request.path)]
            since = max(since, self.version)
            lines = b"".join(line(each.type, each.object) for each in fresh)
            how = cut.result() if cut.done() else ""
            if how == "abort":
                changed.cancel()
                # Perhaps inside a line: what was cut off must come again.
                await self._write(response, lines[: self.random.randrange(len(lines) + 1)])
                return await self._abort(request)
            if how == "expire":
                # What had not been sent yet is lost with the history, as it is with a real server.
                lines = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
            await self._write(response, lines)
            left = ends - asyncio.get_running_loop().time()
            if how or left <= 0:
                changed.cancel()
                return response
            await asyncio.wait({changed, cut}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()

    def _initial_lines(self, path: str) -> bytes:
        lines = [line("ADDED", each) for each in self.in_collection(path)]
        metadata = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        return b"".join([*lines, line("BOOKMARK", {"metadata": metadata})])

    def _concerns(self, each: Happening, collection: str) -> bool:
        if each.type == "BOOKMARK":
            return True
        namespace = each.object["metadata"].get("namespace", "")
        return (
            "/namespaces/" not in collection
            or collection.split("/namespaces/")[1].split("/", maxsplit=1)[0] == namespace
        )

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        while data:
            size = self.random.randrange(1, 200) if self.fragments else len(data)
            await response.write(data[:size])
            data = data[size:]
            if self.fragments:
                await asyncio.sleep(0)


def status(code: int, reason: str, message: str, **details: Any) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, **details}
    return web.json_response(body, status=code)


def line(kind: str, value: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    value = dict(value) if isinstance(value, dict) else {}
    for key, each in patch.items():
        if each is None:
            value.pop(key, None)
        else:
            value[key] = merged(value.get(key), each)
    return value


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
    context.load_verify_locations(CERTS / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _belongs(path: str, collection: str) -> bool:
    root, _, plural = collection.rpartition("/")
    if "/namespaces/" in collection:
        return path.rpartition("/")[0] == collection
    return path.startswith(f"{root}/") and path.split("/")[-2] == plural
