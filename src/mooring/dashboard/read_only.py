"""ReadOnlyServer: the dashboard, or the what-if service, of a cluster that is only read, with any scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType

from mooring.api.meta import KubeObject
from mooring.dashboard.dashboard_routes import ROOT, Dashboard, DashboardSource
from mooring.dashboard.what_if_service import WhatIfService
from mooring.dashboard.what_if_worker import WhatIfWorker
from mooring.kube import Access, Client
from mooring.live.endpoints.endpoint_server import EndpointServer, ServerSettings, Sources
from mooring.live.informers import KINDS, Informers, RawObjects
from mooring.loading import Setup
from mooring.loading.plugin_rows import plugin_rows
from mooring.scheduler.engine import Engine
from mooring.simulation.sources import Given
from mooring.simulation.what_if_question import objects_of


class ReadOnlyServer:
    """A server on this machine, between entering and leaving the context.

    An engine with the objects of the cluster evaluates pods on request. It schedules nothing.
    """

    def __init__(self, access: Access, setup: Setup, *, port: int = 0, token: str = "") -> None:
        """With ``token``, serve the what-if service to clients with this token, and otherwise the dashboard."""
        self._client = Client(access)
        self._engine = Engine(setup.config, plugins=setup.plugins)
        self._informers = Informers(self._client, self._engine, lambda: None, shown=RawObjects())
        config = setup.config
        self._dashboard = Dashboard(
            DashboardSource(
                engine=self._engine,
                config=lambda: config,
                plugins=lambda: plugin_rows(config, setup.catalog),
                reported=True,
                what_if=WhatIfWorker(lambda: setup).answer,
                kinds=self._kinds,
            )
        )
        settings = ServerSettings(port=port, insecure=True)
        service = WhatIfService(self._objects, lambda: setup, token=token)
        extension = service if token else self._dashboard
        self.server = EndpointServer(settings, _no_sources(), None, extensions=[extension])
        self._started = asyncio.Event()
        self._watching: asyncio.Task[None]

    def _kinds(self) -> list[type[KubeObject]]:
        return [*KINDS, *self._engine.profiles.kinds]

    def _objects(self) -> list[KubeObject]:
        return objects_of(self._engine, self._kinds())

    def link(self) -> str:
        """Return a new link, which works once."""
        return f"{self.server.url}{ROOT}?token={self._dashboard.sessions.create_link_token()}"

    async def wait(self) -> None:
        """Wait until cancelled, or until the cluster cannot be read. Raises that error."""
        await self._watching

    async def __aenter__(self) -> ReadOnlyServer:
        await self.server.start()
        self._watching = asyncio.create_task(self._watch(), name="informers")
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait((self._watching, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        return self

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._informers.start(tasks)
            await self._informers.synced()
            await self._informers.custom.watch(self._engine.profiles.kinds)
            self._started.set()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self.server.stop()
        await self._client.close()


@asynccontextmanager
async def serve_manifests(
    given: Sequence[Given], objects: Sequence[KubeObject], setup: Setup, *, port: int = 0, token: str
) -> AsyncIterator[EndpointServer]:
    """Serve the what-if service on this machine, for clients with the token.

    Questions are about ``given``, and snapshots about ``objects``: those of the manifests, with pods on their nodes.
    """
    service = WhatIfService(lambda: objects, lambda: setup, token=token, given=given)
    server = EndpointServer(ServerSettings(port=port, insecure=True), _no_sources(), None, extensions=[service])
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _no_sources() -> Sources:
    """Return the sources of endpoints other than the dashboard, which have no data here."""
    return Sources(
        metrics=lambda _: (b"", "text/plain"),
        resources=lambda _: (b"", "text/plain"),
        config=dict,
        decisions=lambda _: [],
        live={},
        ready={},
    )
