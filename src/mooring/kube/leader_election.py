"""Leader election on a thread with its own event loop and connection, so that slow work does not lose the lease."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final

import structlog

from mooring.api import Lease
from mooring.kube.access import Access
from mooring.kube.leases import ElectionSettings, LeaseElector
from mooring.kube.rest import Client
from mooring.kube.transport import Timeouts

log: Final = structlog.get_logger(__name__)


class ApiLeaseStore:
    """Leases on an API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, namespace: str, name: str) -> Lease:
        """Read the lease. Raises NotFound."""
        return await self._client.get(Lease, name, namespace=namespace)

    async def create(self, lease: Lease) -> Lease:
        """Create the lease. Raises AlreadyExists."""
        return await self._client.create(lease)

    async def replace(self, lease: Lease) -> Lease:
        """Update the lease at its resource version. Raises Conflict."""
        return await self._client.replace(lease)


class ElectionThread:
    """Takes part in leader election until stopped. The callbacks run on this thread.

    `on_started` is called when the lease is acquired, `on_lost` when it is lost without `stop`. A scheduler that lost
    the lease must stop binding and exit: the thread does not acquire it again.
    """

    def __init__(
        self,
        access: Access,
        settings: ElectionSettings,
        *,
        on_started: Callable[[], None],
        on_lost: Callable[[], None],
        on_new_leader: Callable[[str], None] | None = None,
    ) -> None:
        self._access = access
        self._settings = settings
        self._on_started = on_started
        self._on_lost = on_lost
        self._on_new_leader = on_new_leader
        self._elector: LeaseElector | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="mooring-election", daemon=True)

    @property
    def is_leader(self) -> bool:
        """Report whether this process holds the lease, according to the last observation."""
        elector = self._elector
        return elector is not None and elector.is_leader

    @property
    def leader(self) -> str:
        """The last observed holder of the lease."""
        elector = self._elector
        return elector.leader if elector is not None else ""

    def holds(self) -> bool:
        """Report whether no other process can hold the lease now. Call it before each write. Thread-safe."""
        elector, loop = self._elector, self._loop
        return elector is not None and loop is not None and elector.holds(loop.time())

    def overdue(self) -> float:
        """Return how many seconds ago the held lease expired. For health checks. Thread-safe."""
        elector, loop = self._elector, self._loop
        return elector.overdue(loop.time()) if elector is not None and loop is not None else 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._ready.wait()

    def stop(self, timeout: float | None = None) -> None:
        """Stop, release the lease if configured, and wait for the thread to end. Call it from another thread."""
        self._stopping = True
        if self._thread.ident is None:
            return
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            # The loop may have ended by itself.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        self._thread.join(timeout)

    def _main(self) -> None:
        # One request every two seconds needs no faster loop than asyncio.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            self._loop = runner.get_loop()
            with contextlib.suppress(asyncio.CancelledError):
                runner.run(self._run())

    async def _run(self) -> None:
        self._task = asyncio.current_task()
        self._ready.set()
        settings = self._settings
        timeouts = Timeouts(connect=settings.renew_deadline / 2, request=max(1.0, settings.renew_deadline / 2))
        async with Client(self._access, fast_writes=False, timeouts=timeouts) as client:
            store = ApiLeaseStore(client)
            elector = self._elector = LeaseElector(store, settings, on_new_leader=self._on_new_leader)
            try:
                await elector.acquire()
                self._on_started()
                await elector.hold()
            finally:
                if not self._stopping:
                    self._on_lost()
                if settings.release_on_stop and elector.is_leader:
                    await elector.release()
