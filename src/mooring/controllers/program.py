"""The controllers as a program: one client, one set of reflectors, one loop; a lease, health and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import structlog

from mooring.controllers.groups import PodGroups
from mooring.controllers.informers import Informers
from mooring.controllers.jobs import FinishedJobs, Jobs
from mooring.controllers.loop import Loop
from mooring.controllers.metrics import ControllerMetrics
from mooring.controllers.queues import Queues
from mooring.controllers.reconciler import Reconciler, Settings, Tools
from mooring.controllers.serving import Endpoints, make_endpoints
from mooring.controllers.volcano_detection import Neighbours
from mooring.kube import Access, Client, ElectionSettings, ElectionThread, EventRecorder
from mooring.live import LostLeaseError, ServerSettings
from mooring.live.scheduler import from_thread

log = structlog.get_logger("mooring.controller")

#: All that the program looks after.
RECONCILERS: Final[tuple[type[Reconciler], ...]] = (Queues, PodGroups, Jobs, FinishedJobs)
_NEIGHBOURS_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 5.0


class ProgramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the program runs."""

    settings: Settings = Settings()
    #: None: nobody else runs these controllers on this cluster.
    election: ElectionSettings | None = None
    #: Where health and metrics are served; None for nowhere.
    serve: ServerSettings | None = None
    qps: float = 50.0
    burst: int = 100


class ControllerProgram:
    """Looks after batch objects until cancelled."""

    def __init__(
        self,
        access: Access,
        settings: ProgramSettings,
        *,
        reconcilers: Sequence[type[Reconciler]] = RECONCILERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._settings = settings
        self._client = Client(access, qps=settings.qps, burst=settings.burst, may_write=self._may_write)
        self._events = EventRecorder(self._client)
        self.metrics = ControllerMetrics()
        tools = Tools(self._client, self._events, settings=settings.settings, metrics=self.metrics, clock=clock)
        self._reconcilers = [kind(tools) for kind in reconcilers]
        self.loop = Loop(tools.view, self._reconcilers, self.metrics)
        self._informers = Informers(
            self._client, [each for one in self._reconcilers for each in one.selections()], self.loop.apply
        )
        self._neighbours = Neighbours(self._client, clock)
        self._election: ElectionThread | None = None
        self._leading = asyncio.Event()
        self._lost = False
        #: Set when everything was read and the lease, if any, is held.
        self.ready = asyncio.Event()
        #: Who does the work instead of us, in words; empty if we do.
        self.standing_aside = ""
        #: Health and metrics, if they are served.
        self.server: Endpoints | None = None
        if settings.serve is not None:
            self.server = make_endpoints(
                settings.serve,
                client=self._client,
                metrics=self.metrics,
                election=lambda: self._election,
                lagging=self._informers.lagging,
            )

    async def run(self) -> None:
        """Work until cancelled. Raises LostLeaseError when another process took over, ServerError."""
        try:
            if self.server is not None:
                await self.server.start()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._events.run(), name="events")
                self._informers.start(tasks)
                lease = tasks.create_task(self._hold_lease(), name="lease") if self._settings.election else None
                await self._informers.settled()
                if lease is not None:
                    await self._leading.wait()
                for reconciler in self._reconcilers:
                    for key in reconciler.first():
                        self.loop.put(reconciler, key)
                tasks.create_task(self.loop.run(), name="reconcile")
                try:
                    await self._mind_neighbours()
                finally:
                    self.loop.pause()
                    if not self._lost:
                        await asyncio.shield(self._events.drain(_GRACE_SECONDS))
        except* LostLeaseError as lost:
            raise LostLeaseError(str(lost.exceptions[0])) from None
        finally:
            if self.server is not None:
                await self.server.stop()
            await self._client.close()

    async def _mind_neighbours(self) -> None:
        """Act as long as nobody else does."""
        while True:
            found = await self._neighbours.found()
            if found and found != self.standing_aside:
                log.warning("Volcano's own controllers run: ours stay away", found=found)
            elif not found and (self.standing_aside or not self.ready.is_set()):
                log.info("Controllers act", controllers=[each.name for each in self._reconcilers])
            self.standing_aside = found
            self.metrics.acting.set(not found)
            # Theirs know nothing of the other reconcilers.
            self.loop.act(without=[each for each in self._reconcilers if found and each.volcano])
            self.ready.set()
            await asyncio.sleep(_NEIGHBOURS_SECONDS)

    def _may_write(self) -> bool:
        if self._settings.election is None:
            return True
        return not self._lost and self._election is not None and self._election.holds()

    async def _hold_lease(self) -> None:
        """Stand for election; a lost lease ends everything."""
        assert self._settings.election is not None
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        thread = self._election = ElectionThread(
            self._access,
            self._settings.election,
            on_started=from_thread(loop, self._leading),
            on_lost=from_thread(loop, lost),
        )
        thread.start()
        try:
            await lost.wait()
            self._lost = True
            raise LostLeaseError("the lease was lost: another process leads, or the API server cannot be reached")
        finally:
            await asyncio.to_thread(thread.stop)
