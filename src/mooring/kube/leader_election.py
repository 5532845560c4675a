"""Leader election by the rules of client-go: only the scheduler that holds the Lease binds pods.

`LeaseElector` acquires and renews the lease. `ElectionThread` runs it on a thread with its own event loop and
connection, so that slow work does not lose the lease. `Leadership` is its counterpart on the event loop of a process.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from mooring.api import Lease, LeaseSpec, ObjectMeta, format_time
from mooring.kube.access import Access
from mooring.kube.client_errors import Conflict, KubeError, NotFound
from mooring.kube.failure_log import FailureLog
from mooring.kube.rest import Client
from mooring.kube.transport import RequestObserver, Timeouts
from mooring.logs import get_logger

#: The jitter of waits between attempts to acquire, as a factor of the retry period.
_JITTER: Final = 1.2

_LEASES: Final = "leases.coordination.k8s.io"

log: Final = get_logger(__name__)


@dataclass(frozen=True)
class ElectionSettings:
    """The settings of the lease, with the names and defaults of a scheduler's `leaderElection`."""

    identity: str
    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    #: Whether to release the lease on stop, so that another process need not wait until it expires.
    release_on_stop: bool = True

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("leaderElection: a unique identity is required")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaderElection.leaseDuration: must be greater than renewDeadline")
        if self.renew_deadline <= _JITTER * self.retry_period:
            raise ValueError(f"leaderElection.renewDeadline: must be greater than {_JITTER} times retryPeriod")
        if min(self.lease_duration, self.renew_deadline, self.retry_period) <= 0:
            raise ValueError("leaderElection: durations must be greater than zero")


class LeaseStore(Protocol):
    """The storage of the lease: an API server, or a fake in tests."""

    async def get(self, namespace: str, name: str) -> Lease:
        """Read the lease. Raises NotFound."""
        ...

    async def create(self, lease: Lease) -> Lease:
        """Create the lease. Raises AlreadyExists."""
        ...

    async def replace(self, lease: Lease) -> Lease:
        """Update the lease at its resource version. Raises Conflict."""
        ...


class LeaseElector:
    """A candidate that acquires and renews the lease. Time comes from the event loop, never from the lease.

    Clocks of machines differ, so expiry is measured from when this process observed a change of the lease.
    """

    def __init__(
        self,
        store: LeaseStore,
        settings: ElectionSettings,
        *,
        on_new_leader: Callable[[str], None] | None = None,
        rng: random.Random | None = None,
        now: Callable[[], float] = time.time,
        failures: FailureLog | None = None,
    ) -> None:
        self._store = store
        self._failures = failures
        #: Whether the last attempt was reported as a failure.
        self._failed = False
        self._settings = settings
        self._on_new_leader = on_new_leader
        self._random = rng or random.Random()
        self._now = now
        self._lease: Lease | None = None
        self._seen: LeaseSpec = LeaseSpec()
        self._seen_at = float("-inf")
        #: The time when the last successful renewal began. Other processes measure from a later time.
        self._renewed_at = float("-inf")
        #: The last logged problem.
        self._logged = ""
        self._reported = ""

    @property
    def leader(self) -> str:
        """The last observed holder of the lease; empty if there is none."""
        return self._seen.holder_identity or ""

    @property
    def is_leader(self) -> bool:
        """Whether this process is the last observed holder."""
        return self.leader == self._settings.identity

    def holds(self, time: float) -> bool:
        """Return whether no other process can hold the lease at a time of the event loop."""
        return self.is_leader and time < self._renewed_at + self._settings.lease_duration

    def overdue(self, time: float) -> float:
        """Return the seconds between the expiry of the held lease and a time of the event loop; 0 if not expired."""
        if not self.is_leader:
            return 0.0
        return max(0.0, time - self._seen_at - self._settings.lease_duration)

    async def acquire(self) -> None:
        """Retry until the lease is acquired."""
        log.info("Attempting to acquire leader lease...", lock=self._described())
        while not await self._attempt(self._settings.renew_deadline):
            await asyncio.sleep(self._settings.retry_period * (1 + _JITTER * self._random.random()))
        log.info("Successfully acquired lease", lock=self._described())

    async def hold(self) -> None:
        """Renew the lease. Return when another process holds it or renewal failed for the renew deadline."""
        while True:
            await asyncio.sleep(self._settings.retry_period)
            if not await self._renew():
                log.error("Failed to renew lease", lock=self._described())
                return

    async def release(self) -> None:
        """Release the lease if this process holds it."""
        try:
            async with asyncio.timeout(self._settings.renew_deadline):
                await self._fetch()
                if not self.is_leader:
                    return
                now = self._timestamp()
                spec = LeaseSpec(
                    holder_identity="",
                    lease_duration_seconds=1,
                    acquire_time=now,
                    renew_time=now,
                    lease_transitions=self._seen.lease_transitions,
                )
                await self._write(spec)
        except (KubeError, TimeoutError) as error:
            log.warning("Failed to release lease", lock=self._described(), error=str(error))

    async def _renew(self) -> bool:
        deadline = self._time() + self._settings.renew_deadline
        while (left := deadline - self._time()) > 0:
            if await self._attempt(left):
                return True
            if self.leader and not self.is_leader and self._is_valid():
                log.warning("The lease was taken over", lock=self._described(), leader=self.leader)
                return False
            await asyncio.sleep(min(self._settings.retry_period, max(0.0, deadline - self._time())))
        return False

    async def _attempt(self, limit: float) -> bool:
        """Acquire or renew the lease. Return False if another process holds it or the request failed."""
        begun = self._time()
        try:
            async with asyncio.timeout(limit):
                done = await self._try()
        except (KubeError, TimeoutError) as error:
            self._log_problem(error)
            done = False
        if done:
            self._renewed_at = begun
            self._logged = ""
            if self._failed and self._failures is not None:
                self._failed = False
                self._failures.succeeded(_LEASES)
        self._report()
        return done

    def _log_problem(self, error: Exception) -> None:
        """Log a problem once. A conflict with another process is normal."""
        if self._failures is not None and isinstance(error, KubeError) and not isinstance(error, Conflict):
            self._failed = True
            self._failures.failed(_LEASES, error)
            return
        text = str(error) or "timed out"
        log_problem = log.debug if isinstance(error, Conflict) or text == self._logged else log.warning
        self._logged = text
        log_problem("the lease was not acquired or renewed", lock=self._described(), error=text)

    async def _try(self) -> bool:
        now = self._timestamp()
        if self.is_leader and self._is_valid() and self._lease is not None:
            try:
                await self._write(self._spec(now, self._seen))
            except KubeError as error:
                # Another process wrote the lease, or an earlier write succeeded: read it and retry.
                log.debug("Failed to update lease optimistically", lock=self._described(), error=str(error))
            else:
                return self.is_leader  # the response shows who holds it
        try:
            await self._fetch()
        except NotFound:
            await self._create(self._spec(now, None))
            return self.is_leader
        if self.leader and self._is_valid() and not self.is_leader:
            return False
        await self._write(self._spec(now, self._seen))
        return self.is_leader

    def _spec(self, now: str, before: LeaseSpec | None) -> LeaseSpec:
        settings = self._settings
        acquired, transitions = now, 0
        if before is not None:
            transitions = before.lease_transitions or 0
            if self.is_leader:
                acquired = before.acquire_time or now
            else:
                transitions += 1
        return LeaseSpec(
            holder_identity=settings.identity,
            lease_duration_seconds=int(settings.lease_duration),
            acquire_time=acquired,
            renew_time=now,
            lease_transitions=transitions,
        )

    async def _fetch(self) -> None:
        before = self._lease
        self._lease = await self._store.get(self._settings.namespace, self._settings.name)
        if before is None or self._lease.spec != self._seen:
            self._observe(self._lease.spec)

    async def _create(self, spec: LeaseSpec) -> None:
        metadata = ObjectMeta(name=self._settings.name, namespace=self._settings.namespace)
        self._lease = await self._store.create(Lease(metadata=metadata, spec=spec))
        self._observe(self._lease.spec)

    async def _write(self, spec: LeaseSpec) -> None:
        assert self._lease is not None
        self._lease = await self._store.replace(Lease(metadata=self._lease.metadata, spec=spec))
        self._observe(self._lease.spec)

    def _observe(self, spec: LeaseSpec) -> None:
        self._seen = spec
        self._seen_at = self._time()

    def _is_valid(self) -> bool:
        return self._seen_at + (self._seen.lease_duration_seconds or 0) > self._time()

    def _report(self) -> None:
        if self.leader != self._reported:
            self._reported = self.leader
            if self._on_new_leader is not None:
                self._on_new_leader(self.leader)

    def _timestamp(self) -> str:
        return format_time(self._now(), micros=True)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _described(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"


class ApiLeaseStore:
    """The store of leases on an API server."""

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
    """A thread that takes part in leader election until stopped. The callbacks run on this thread.

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
        failures: FailureLog | None = None,
        observer: RequestObserver | None = None,
    ) -> None:
        self._access = access
        self._failures = failures
        self._observer = observer
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
        """Whether this process holds the lease, according to the last observation."""
        elector = self._elector
        return elector is not None and elector.is_leader

    @property
    def leader(self) -> str:
        """The last observed holder of the lease."""
        elector = self._elector
        return elector.leader if elector is not None else ""

    def holds(self) -> bool:
        """Return whether no other process can hold the lease now. Call this before each write. Thread-safe."""
        elector, loop = self._elector, self._loop
        return elector is not None and loop is not None and elector.holds(loop.time())

    def overdue(self) -> float:
        """Return the seconds since the held lease expired, for health checks. Thread-safe."""
        elector, loop = self._elector, self._loop
        return elector.overdue(loop.time()) if elector is not None and loop is not None else 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._ready.wait()

    def stop(self, timeout: float | None = None) -> None:
        """Stop, release the lease if configured, and wait for the thread to end. Call this from another thread."""
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
        async with Client(self._access, fast_writes=False, timeouts=timeouts, observer=self._observer) as client:
            store = ApiLeaseStore(client)
            elector = self._elector = LeaseElector(
                store, settings, on_new_leader=self._on_new_leader, failures=self._failures
            )
            try:
                await elector.acquire()
                self._on_started()
                await elector.hold()
            finally:
                if not self._stopping:
                    self._on_lost()
                if settings.release_on_stop and elector.is_leader:
                    await elector.release()


class LostLeaseError(RuntimeError):
    """The lease is lost: another process may hold it, so this one must stop writing."""


class Leadership:
    """The leadership of this process. Without settings there is no election, and the process is always the leader."""

    def __init__(
        self, access: Access, settings: ElectionSettings | None, *, observer: RequestObserver | None = None
    ) -> None:
        """``observer`` is told about the requests for the lease, on another thread."""
        self._access = access
        self._settings = settings
        self._observer = observer
        #: Set when the lease is acquired.
        self.acquired = asyncio.Event()
        #: Whether the lease was lost after it was acquired.
        self.lost = False
        #: The thread that holds the lease, after the start.
        self.thread: ElectionThread | None = None
        if settings is None:
            self.acquired.set()

    @property
    def lease(self) -> str:
        """The name of the lease; empty without leader election."""
        return self._settings.name if self._settings is not None else ""

    @property
    def is_leader(self) -> bool:
        """Whether this process leads, according to the last observation of the lease."""
        return self._settings is None or (self.thread is not None and self.thread.is_leader)

    def may_write(self) -> bool:
        """Return whether writes are allowed. Call this before each write, because the lease may expire in between."""
        if self._settings is None:
            return True
        return not self.lost and self.thread is not None and self.thread.holds()

    async def hold(self, failures: FailureLog | None = None) -> None:
        """Run leader election until cancelled. Raises LostLeaseError when the lease is lost.

        ``failures`` is the log that the requests of this process share.
        """
        if self._settings is None:
            return
        loop, lost = asyncio.get_running_loop(), asyncio.Event()
        thread = self.thread = ElectionThread(
            self._access,
            self._settings,
            on_started=lambda: _call_soon(loop, self.acquired.set),
            on_lost=lambda: _call_soon(loop, lost.set),
            failures=failures,
            observer=self._observer,
        )
        thread.start()
        try:
            await lost.wait()
            self.lost = True
            raise LostLeaseError("the lease was lost: another process leads, or the API server cannot be reached")
        finally:
            await asyncio.to_thread(thread.stop)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(callback)
