"""Who leads: of several schedulers only the one that holds the Lease binds pods. The rules are client-go's.

Only the rules are here, for one event loop and any place that keeps leases; `mooring.kube.leader_election` runs them.
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

#: How far waits between attempts to acquire are drawn out at random, as a share of the retry period.
_JITTER: Final = 1.2

log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ElectionSettings:
    """The lease to hold and how: the same names and defaults as in a scheduler's `leaderElection`."""

    identity: str
    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    #: Give the lease back when stopped, so that another need not wait until it runs out.
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
    """Where the lease is kept: an API server, or a stand-in in tests."""

    async def get(self, namespace: str, name: str) -> Lease:
        """Read it. Raises NotFound."""
        ...

    async def create(self, lease: Lease) -> Lease:
        """Create it. Raises AlreadyExists."""
        ...

    async def replace(self, lease: Lease) -> Lease:
        """Write it at the version it carries. Raises Conflict."""
        ...


class LeaseElector:
    """Acquires the lease, renews it, and says when it is lost. Reads time from its event loop, never from the lease.

    The clocks of two machines differ, so what counts is how long ago *we* saw the lease change.
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
        #: When the last renewal that succeeded began: others count from a moment after that.
        self._renewed_at = float("-inf")
        #: What was said last to be in the way.
        self._told = ""
        self._reported = ""

    @property
    def leader(self) -> str:
        """Who was seen to hold the lease last; empty if nobody."""
        return self._seen.holder_identity or ""

    @property
    def is_leader(self) -> bool:
        """Whether we were seen to hold it last."""
        return self.leader == self._settings.identity

    def holds(self, time: float) -> bool:
        """Whether at that time of our loop nobody else can have the lease, for all we know."""
        return self.is_leader and time < self._renewed_at + self._settings.lease_duration

    def overdue(self, time: float) -> float:
        """By how many seconds a lease that we believe to hold has run out by that time of our loop; 0 if it has not."""
        if not self.is_leader:
            return 0.0
        return max(0.0, time - self._seen_at - self._settings.lease_duration)

    async def acquire(self) -> None:
        """Try until we hold the lease."""
        log.info("Attempting to acquire leader lease...", lock=self._described())
        while not await self._attempt(self._settings.renew_deadline):
            await asyncio.sleep(self._settings.retry_period * (1 + _JITTER * self._random.random()))
        log.info("Successfully acquired lease", lock=self._described())

    async def hold(self) -> None:
        """Renew the lease until somebody else has it or that fails for as long as the renew deadline; then return."""
        while True:
            await asyncio.sleep(self._settings.retry_period)
            if not await self._renew():
                log.error("Failed to renew lease", lock=self._described())
                return

    async def release(self) -> None:
        """Give the lease back if we hold it, so that another can have it at once."""
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
        """Take or renew the lease if that is ours to do. False if it is not, or if it did not work."""
        begun = self._time()
        try:
            async with asyncio.timeout(limit):
                done = await self._try()
        except (KubeError, TimeoutError) as error:
            self._tell(error)
            done = False
        if done:
            self._renewed_at = begun
            self._told = ""
        self._report()
        return done

    def _tell(self, error: Exception) -> None:
        """Say what is in the way, once; that somebody else was quicker is usual."""
        text = str(error) or "timed out"
        tell = log.debug if isinstance(error, Conflict) or text == self._told else log.warning
        self._told = text
        tell("the lease was not acquired or renewed", lock=self._described(), error=text)

    async def _try(self) -> bool:
        now = self._timestamp()
        if self.is_leader and self._is_valid() and self._lease is not None:
            try:
                await self._write(self._spec(now, self._seen))
            except KubeError as error:
                # Somebody else wrote it, or an earlier write of ours got through after all: look and try again.
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
            self._see(self._lease.spec)

    async def _create(self, spec: LeaseSpec) -> None:
        metadata = ObjectMeta(name=self._settings.name, namespace=self._settings.namespace)
        self._lease = await self._store.create(Lease(metadata=metadata, spec=spec))
        self._see(self._lease.spec)

    async def _write(self, spec: LeaseSpec) -> None:
        assert self._lease is not None
        self._lease = await self._store.replace(Lease(metadata=self._lease.metadata, spec=spec))
        self._see(self._lease.spec)

    def _see(self, spec: LeaseSpec) -> None:
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
