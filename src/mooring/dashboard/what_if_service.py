"""WhatIfService: what-if questions, snapshots and transactions over HTTP, for autoscalers and quota managers."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.api.meta import KubeObject
from mooring.late_certificates import web
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.live.endpoints.endpoint_server import EndpointServer
from mooring.loading import Setup

if TYPE_CHECKING:  # simulations are imported with the first request, which makes a start without one faster
    from mooring.dashboard.what_if_snapshots import KeptSnapshot
    from mooring.dashboard.what_if_worker import WhatIfWorker
    from mooring.simulation.sources import Given

ROOT: Final = "/what-if"
#: The maximum number of snapshots, and how long an unused one is kept.
_SNAPSHOTS: Final = 8
_IDLE_SECONDS: Final = 600.0


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
        self._given = given
        self._worker: WhatIfWorker | None = None
        self._kept: dict[str, KeptSnapshot] = {}
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
        from mooring.dashboard.what_if_worker import WhatIfWorker

        if self._worker is None:
            self._worker = WhatIfWorker(self._setup, given=self._given)
        return _json(await self._worker.answer(await request.read(), self._read))

    async def _openapi(self, _request: web.Request) -> web.Response:
        from mooring.dashboard.what_if_snapshots import openapi

        return _json(openapi())

    # Snapshots

    async def _create(self, _request: web.Request) -> web.Response:
        from mooring.dashboard.what_if_snapshots import KeptSnapshot, SnapshotInfo
        from mooring.simulation.snapshot import Snapshot

        now = time.monotonic()
        self._kept = {name: each for name, each in self._kept.items() if now - each.used < _IDLE_SECONDS}
        if len(self._kept) >= _SNAPSHOTS:
            raise HttpError(429, f"Too many requests: there are {_SNAPSHOTS} snapshots already; delete one")
        objects, setup = await self._read(), self._setup()
        made = await asyncio.to_thread(Snapshot, objects, setup)
        name = secrets.token_urlsafe(9)
        self._kept[name] = KeptSnapshot(made)
        return _json(SnapshotInfo(name, len(made), made.pods))

    def _found(self, request: web.Request) -> KeptSnapshot:
        kept = self._kept.get(request.match_info["id"])
        if kept is None:
            raise HttpError(404, "there is no such snapshot: it was deleted, or not used for ten minutes")
        kept.used = time.monotonic()
        return kept

    async def _get(self, request: web.Request) -> web.Response:
        from mooring.dashboard.what_if_snapshots import SnapshotInfo

        made = self._found(request).snapshot
        return _json(SnapshotInfo(request.match_info["id"], len(made), made.pods, made.depth))

    async def _delete(self, request: web.Request) -> web.Response:
        self._found(request)
        del self._kept[request.match_info["id"]]
        return _json({})

    async def _run(self, request: web.Request) -> web.Response:
        from mooring.dashboard.what_if_snapshots import answers, read_batch

        kept = self._found(request)
        batch = read_batch(await request.read())
        return _json(await asyncio.to_thread(answers, kept, batch))


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
