"""WhatIfService: what-if questions, snapshots and transactions over HTTP, for autoscalers and quota managers."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from mooring import __version__
from mooring.api.meta import KubeObject
from mooring.dashboard.what_if_worker import WhatIfWorker
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.live.endpoints.endpoint_server import EndpointServer
from mooring.loading import Setup
from mooring.simulation.snapshot import MAX_STEPS, Answer, Snapshot, Step
from mooring.simulation.sources import Given, InputError
from mooring.simulation.what_if_question import Question

ROOT: Final = "/what-if"
#: The maximum number of snapshots, and how long an unused one is kept.
_SNAPSHOTS: Final = 8
_IDLE_SECONDS: Final = 600.0


class Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps that are run in order on one snapshot."""

    steps: list[Step]


class Answers(msgspec.Struct, frozen=True):
    """The answers to the steps. After an error, the steps before it stay in effect and the rest is not run."""

    answers: list[Answer]
    #: The number of open transactions.
    depth: int
    error: str = ""


class SnapshotInfo(msgspec.Struct, frozen=True):
    """A snapshot."""

    id: str
    nodes: int
    pods: int
    depth: int = 0


class _Kept:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.lock = threading.Lock()
        self.used = time.monotonic()


class WhatIfService:
    """The endpoints below /what-if. With ``token``, clients authenticate with it instead of with the API server."""

    def __init__(
        self,
        objects: Callable[[], Sequence[KubeObject]],
        setup: Callable[[], Setup],
        *,
        token: str = "",
        given: Sequence[Given] | None = None,
    ) -> None:
        """``objects`` returns the objects of the cluster; it is called in the scheduler's loop.

        ``given`` are manifests, which the questions are about instead of these objects.
        """
        self._objects = objects
        self._setup = setup
        self._token = token
        self._worker = WhatIfWorker(setup, given=given)
        self._kept: dict[str, _Kept] = {}
        self._server: EndpointServer

    def add_routes(self, app: web.Application, server: EndpointServer) -> None:
        """Add the routes."""
        self._server = server
        router = app.router
        router.add_post(ROOT, self._authorized(self._ask))
        router.add_get(f"{ROOT}/openapi.json", self._authorized(self._openapi))
        router.add_post(f"{ROOT}/snapshots", self._authorized(self._create))
        router.add_post(f"{ROOT}/snapshots/{{id}}", self._authorized(self._run))
        router.add_get(f"{ROOT}/snapshots/{{id}}", self._authorized(self._get))
        router.add_delete(f"{ROOT}/snapshots/{{id}}", self._authorized(self._delete))

    def _authorized(
        self, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            if self._token:
                given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
                if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
                    raise HttpError(401, "Unauthorized: send the token that the command printed")
            else:
                await self._server.authorize(request)
            return await handler(request)

        return handle

    async def _read(self) -> list[KubeObject]:
        return list(await self._server.read(self._objects))

    async def _ask(self, request: web.Request) -> web.Response:
        return _json(await self._worker.answer(await request.read(), self._read))

    async def _openapi(self, _request: web.Request) -> web.Response:
        return _json(openapi())

    # Snapshots

    async def _create(self, _request: web.Request) -> web.Response:
        now = time.monotonic()
        self._kept = {name: each for name, each in self._kept.items() if now - each.used < _IDLE_SECONDS}
        if len(self._kept) >= _SNAPSHOTS:
            raise HttpError(429, f"Too many requests: there are {_SNAPSHOTS} snapshots already; delete one")
        objects, setup = await self._read(), self._setup()
        made = await asyncio.to_thread(Snapshot, objects, setup)
        name = secrets.token_urlsafe(9)
        self._kept[name] = _Kept(made)
        return _json(SnapshotInfo(name, len(made), made.pods))

    def _found(self, request: web.Request) -> _Kept:
        kept = self._kept.get(request.match_info["id"])
        if kept is None:
            raise HttpError(404, "there is no such snapshot: it was deleted, or not used for ten minutes")
        kept.used = time.monotonic()
        return kept

    async def _get(self, request: web.Request) -> web.Response:
        made = self._found(request).snapshot
        return _json(SnapshotInfo(request.match_info["id"], len(made), made.pods, made.depth))

    async def _delete(self, request: web.Request) -> web.Response:
        self._found(request)
        del self._kept[request.match_info["id"]]
        return _json({})

    async def _run(self, request: web.Request) -> web.Response:
        kept = self._found(request)
        try:
            batch = msgspec.json.decode(await request.read(), type=Batch)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise HttpError(400, f"the steps are not valid: {error}") from None
        if len(batch.steps) > MAX_STEPS:
            raise HttpError(400, f"there are {len(batch.steps)} steps; at most {MAX_STEPS} are allowed")
        return _json(await asyncio.to_thread(_answers, kept, batch))


def _answers(kept: _Kept, batch: Batch) -> Answers:
    found: list[Answer] = []
    with kept.lock:
        for number, step in enumerate(batch.steps):
            try:
                found.append(kept.snapshot.run(step))
            except InputError as error:
                return Answers(found, kept.snapshot.depth, f"steps[{number}]: {error}")
        return Answers(found, kept.snapshot.depth)


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description of the service."""
    types = (Question, Batch, Answers, SnapshotInfo)
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")

    def content(name: str) -> dict[str, Any]:
        return {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{name}"} if name else {"type": "object"}}
        }

    def operation(summary: str, answer: str, body: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {
            "summary": summary,
            "responses": {"200": {"description": "The answer.", "content": content(answer)}},
        }
        return found | ({"requestBody": {"required": True, "content": content(body)}} if body else {})

    snapshot = {
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        "get": operation("Describe a snapshot.", "SnapshotInfo"),
        "post": operation("Run steps on a snapshot.", "Answers", "Batch"),
        "delete": operation("Delete a snapshot.", ""),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mooring what-if", "version": __version__},
        "paths": {
            ROOT: {"post": operation("Show the effect of changes, or how many copies fit.", "", "Question")},
            f"{ROOT}/snapshots": {"post": operation("Copy the cluster into a snapshot.", "SnapshotInfo")},
            f"{ROOT}/snapshots/{{id}}": snapshot,
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
