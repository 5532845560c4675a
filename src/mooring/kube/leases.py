"""Acquires and renews a Lease by the rules of client-go. Only the scheduler that holds it binds pods.

This module has no threads and no connections; `mooring.kube.leader_election` runs it.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from mooring.api import Lease, LeaseSpec, ObjectMeta, format_time
from mooring.kube.client_errors import Conflict, KubeError, NotFound

#: The jitter of waits between attempts to acquire, as a factor of the retry period.
_JITTER: Final = 1.2

log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ElectionSettings:
    """The settings of the lease, with the names and defaults of a scheduler's `leaderElection`."""

    identity: str
    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    #: Release the lease on stop, so that another process need not wait until it expires.
    release_on_stop: bool = True

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("leaderElection: an identity is needed, different for each scheduler")
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
    """Acquires and renews the lease. Time comes from the event loop, never from the lease.

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
    ) -> None:
        self._store = store
        self._settings = settings
        self._on_new_leader = on_new_leader
        self._random = rng or random.Random()
        self._now = now
        self._lease: Lease | None = None
        self._seen: LeaseSpec = LeaseSpec()
        self._seen_at = float("-inf")
        #: When the last successful renewal began. Others measure from a later time.
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
        """Report whether this process is the last observed holder."""
        return self.leader == self._settings.identity

    def holds(self, time: float) -> bool:
        """Report whether no other process can hold the lease at that time of the event loop."""
        return self.is_leader and time < self._renewed_at + self._settings.lease_duration

    def overdue(self, time: float) -> float:
        """Return how many seconds before that time of the event loop the held lease expired; 0 if it did not."""
        if not self.is_leader:
            return 0.0
        return max(0.0, time - self._seen_at - self._settings.lease_duration)

    async def acquire(self) -> None:
        """Try to acquire the lease until that succeeds."""
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
        self._report()
        return done

    def _log_problem(self, error: Exception) -> None:
        """Log a problem once. A conflict with another process is normal."""
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
                # Another process wrote it, or an earlier write succeeded: read it and try again.
                log.debug("Failed to update lease optimistically", lock=self._described(), error=str(error))
            else:
                return True
        try:
            await self._fetch()
        except NotFound:
            await self._create(self._spec(now, None))
            return True
        if self.leader and self._is_valid() and not self.is_leader:
            return False
        await self._write(self._spec(now, self._seen))
        return True

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
