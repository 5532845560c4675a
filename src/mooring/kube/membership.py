"""Membership of several schedulers that work side by side: each holds a Lease, and reads those of the others.

A member renews its lease several times within the lease duration. A member whose lease was not renewed for that time is
expelled: another one deletes the lease at the version that it has observed. Expiry is measured by the monotonic clock
of each process, from when a renewal was sent (by its holder) or observed (by others), so that a member knows that it
has expired before the others do. `MembershipThread` runs on a thread with its own event loop and connection, so that
slow work does not lose the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from mooring.api import Lease, LeaseSpec, ObjectMeta, format_time
from mooring.kube.access import Access
from mooring.kube.client_errors import Conflict, KubeError, NotFound
from mooring.kube.decoding import Page
from mooring.kube.rest import Client
from mooring.kube.transport import RequestObserver, Timeouts
from mooring.logs import get_logger

#: The label of the leases of a group; its value is the name of the group.
GROUP: Final = "mooring.dev/active-active"
#: The annotation with the members that a member knows: it uses no node that belongs to one of them. Absent: no node.
VIEW: Final = "mooring.dev/active-active-members"
#: The annotation with the former members whose binds can no longer succeed.
FENCED: Final = "mooring.dev/active-active-fenced"
#: The annotation with the former members whose binds this member is about to make fail.
FENCING: Final = "mooring.dev/active-active-fencing"
#: The annotation with the lease duration in seconds, which may be a fraction.
DURATION: Final = "mooring.dev/active-active-lease-duration"
#: The annotation of a member that has finished its binds and stopped.
LEFT: Final = "mooring.dev/active-active-left"
#: How many renewals are sent within the lease duration.
_RENEWALS: Final = 4
#: How many former members are published as fenced.
FENCED_KEPT: Final = 32

log: Final = get_logger(__name__)


def member_identity(group: str) -> str:
    """Return the beginning of the names of this process's leases: the group and the host."""
    host = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-")
    return f"{group}-{host[:40].strip('-')}"


class MembershipSettings(msgspec.Struct, frozen=True):
    """The settings of a member. ``identity`` is the beginning of the lease's name, such as the name of the host."""

    identity: str
    group: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 0.6

    @property
    def interval(self) -> float:
        """The time between two renewals."""
        return self.lease_duration / _RENEWALS


class Published(msgspec.Struct, frozen=True):
    """What a member tells the others: the members that it knows (None: it uses no node), and those that it fences."""

    view: frozenset[str] | None = None
    fenced: tuple[str, ...] = ()
    fencing: tuple[str, ...] = ()
    left: bool = False
    #: The number of this state among those of this process; 0 if it was read from a lease.
    number: int = 0


class MemberState(msgspec.Struct, frozen=True):
    """Another member, as its lease shows it at a resource version."""

    name: str
    version: str
    published: Published


class MembersSnapshot(msgspec.Struct, frozen=True):
    """The members at one moment."""

    #: The name of this member's lease. It changes when the member was expelled and joins again.
    me: str
    #: What this member had published before the others were read.
    published: Published
    others: tuple[MemberState, ...]
    #: The members that this one has just expelled, as their leases showed them at the end.
    expelled: tuple[MemberState, ...]
    #: The resource version of the list of leases.
    version: str


class LeaseClient(Protocol):
    """The requests about leases: a client of an API server, or a fake in tests."""

    async def get(self, kind: type[Lease], name: str, *, namespace: str) -> Lease:
        """Read a lease. Raises NotFound."""
        ...

    async def create(self, value: Lease) -> Lease:
        """Create a lease."""
        ...

    async def replace(self, value: Lease) -> Lease:
        """Update a lease at its resource version. Raises Conflict and NotFound."""
        ...

    async def list(self, kind: type[Lease], *, namespace: str, labels: str) -> Page[Lease]:
        """List leases by label."""
        ...

    async def delete(self, kind: type[Lease], name: str, *, namespace: str, uid: str, version: str) -> None:
        """Delete a lease at a resource version. Raises Conflict and NotFound."""
        ...


class Member:
    """One member: it renews its lease, observes the others and expels those that have expired."""

    def __init__(
        self,
        client: LeaseClient,
        settings: MembershipSettings,
        on_snapshot: Callable[[MembersSnapshot], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._settings = settings
        self._on_snapshot = on_snapshot
        self._clock = clock
        self._now = now
        self.name = ""
        #: What the next renewal publishes; replaced by the event loop of the scheduler.
        self.wanted = Published()
        self._lease: Lease | None = None
        self._published = Published()
        self._renewed_at = float("-inf")
        #: The other leases, by name: the version and when it was observed first.
        self._seen: dict[str, tuple[str, float]] = {}
        self._expelled: list[MemberState] = []

    def holds(self, me: str) -> bool:
        """Return whether no other member can have expelled this one, if it still has this name. Thread-safe."""
        return self.name == me and self._clock() < self._renewed_at + self._settings.lease_duration

    async def tick(self) -> None:
        """Renew the lease, read the others, and expel the expired ones. Raises KubeError."""
        await self._renew()
        page = await self._client.list(
            Lease, namespace=self._settings.namespace, labels=f"{GROUP}={self._settings.group}"
        )
        observed = self._clock()
        leases = {lease.name: lease for lease in page.items if lease.name != self.name}
        self._seen = {
            name: seen
            if (seen := self._seen.get(name)) is not None and seen[0] == lease.metadata.resource_version
            else (lease.metadata.resource_version, observed)
            for name, lease in leases.items()
        }
        for name in [name for name, lease in leases.items() if observed > self._seen[name][1] + _duration(lease)]:
            if await self._expel(leases[name]):
                del leases[name]
        states = tuple(member_state(leases[name]) for name in sorted(leases))
        expelled, self._expelled = tuple(self._expelled), []
        self._on_snapshot(MembersSnapshot(self.name, self._published, states, expelled, page.resource_version))

    async def _renew(self) -> None:
        begun, wanted = self._clock(), self.wanted
        if self._lease is None:
            await self._join(begun)
            return
        try:
            try:
                self._lease = await self._client.replace(self._renewed(self._lease, wanted))
            except Conflict:  # an earlier renewal succeeded, but its response was lost
                found = await self._client.get(Lease, self.name, namespace=self._settings.namespace)
                self._lease = await self._client.replace(self._renewed(found, wanted))
        except NotFound:
            log.warning("The membership was lost; joining again", lease=self.name)
            self._lease = None
            self._renewed_at = float("-inf")
            await self._join(self._clock())
            return
        self._published, self._renewed_at = wanted, begun

    def _renewed(self, lease: Lease, published: Published) -> Lease:
        metadata = msgspec.structs.replace(lease.metadata, annotations=self._annotations(published))
        return Lease(metadata=metadata, spec=msgspec.structs.replace(lease.spec, renew_time=self._timestamp()))

    async def _join(self, begun: float) -> None:
        """Create a lease. It has a new name, so that no member takes this one for the expelled one."""
        settings = self._settings
        self.wanted = self._published = Published()
        self.name = f"{settings.identity}-{uuid.uuid4().hex[:10]}"
        now = self._timestamp()
        metadata = ObjectMeta(
            name=self.name,
            namespace=settings.namespace,
            labels={GROUP: settings.group},
            annotations=self._annotations(self.wanted),
        )
        spec = LeaseSpec(
            holder_identity=self.name,
            lease_duration_seconds=max(1, round(settings.lease_duration)),
            acquire_time=now,
            renew_time=now,
        )
        self._lease = await self._client.create(Lease(metadata=metadata, spec=spec))
        self._renewed_at = begun
        log.info("Joined the active-active group", group=settings.group, member=self.name)

    async def _expel(self, lease: Lease) -> bool:
        metadata = lease.metadata
        try:
            await self._client.delete(
                Lease, lease.name, namespace=lease.namespace, uid=metadata.uid, version=metadata.resource_version
            )
        except (NotFound, Conflict):
            return False
        state = member_state(lease)
        if not state.published.left:
            log.warning("Expelled a member that did not renew its lease", member=lease.name)
            self._expelled.append(state)
        return True

    def _annotations(self, published: Published) -> dict[str, str]:
        found = {DURATION: str(self._settings.lease_duration)}
        if published.view is not None:
            found[VIEW] = ",".join(sorted(published.view))
        if published.fenced:
            found[FENCED] = ",".join(published.fenced)
        if published.fencing:
            found[FENCING] = ",".join(published.fencing)
        if published.left:
            found[LEFT] = "true"
        return found

    def _timestamp(self) -> str:
        return format_time(self._now(), micros=True)


def member_state(lease: Lease) -> MemberState:
    """Return the member that a lease describes."""
    annotations = lease.metadata.annotations
    view = frozenset(_names(annotations[VIEW])) if VIEW in annotations else None
    fenced, fencing = (tuple(_names(annotations.get(key, ""))) for key in (FENCED, FENCING))
    published = Published(view, fenced, fencing, LEFT in annotations)
    return MemberState(lease.name, lease.metadata.resource_version, published)


def _names(text: str) -> Iterable[str]:
    return [name for name in text.split(",") if name]


def _duration(lease: Lease) -> float:
    try:
        return max(0.1, min(3600.0, float(lease.metadata.annotations.get(DURATION, ""))))
    except ValueError:
        return float(lease.spec.lease_duration_seconds or 15)


class MembershipThread:
    """A thread that runs a `Member` until stopped. ``on_snapshot`` is called on this thread."""

    def __init__(
        self,
        access: Access,
        settings: MembershipSettings,
        on_snapshot: Callable[[MembersSnapshot], None],
        *,
        observer: RequestObserver | None = None,
    ) -> None:
        self._access = access
        self._settings = settings
        self._on_snapshot = on_snapshot
        self._observer = observer
        self._member: Member | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._now: asyncio.Event | None = None
        self._stopping = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="mooring-membership", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._ready.wait()

    def holds(self, me: str) -> bool:
        """Return whether no other member can have expelled the member of this name. Thread-safe."""
        return self._member is not None and self._member.holds(me)

    def publish(self, me: str, published: Published) -> None:
        """Publish something at once, unless this member was expelled meanwhile. Thread-safe."""
        loop, member = self._loop, self._member
        if loop is not None and member is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._publish, member, me, published)

    def _publish(self, member: Member, me: str, published: Published) -> None:
        if member.name == me:
            member.wanted = published
            if self._now is not None:
                self._now.set()

    def stop(self, timeout: float | None = None) -> None:
        """Stop after the next renewal, which publishes the last state, and wait for the thread to end."""
        self._stopping = True
        if self._thread.ident is None:
            return
        loop, now = self._loop, self._now
        if loop is not None and now is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(now.set)
        self._thread.join(timeout)

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            self._loop = runner.get_loop()
            runner.run(self._run())

    async def _run(self) -> None:
        settings = self._settings
        self._now = asyncio.Event()
        limit = max(0.5, settings.lease_duration)
        timeouts = Timeouts(connect=limit, request=limit)
        async with Client(self._access, fast_writes=False, timeouts=timeouts, observer=self._observer) as client:
            member = self._member = Member(client, settings, self._on_snapshot)
            self._ready.set()
            while True:
                last, begun = self._stopping, time.monotonic()
                self._now.clear()
                try:
                    async with asyncio.timeout(limit):  # retries of requests included
                        await member.tick()
                except (KubeError, TimeoutError) as error:
                    log.warning("the lease of this member was not renewed", lease=member.name, error=str(error))
                if last:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.01, begun + settings.interval - time.monotonic())):
                        await self._now.wait()
