"""ActiveActive: this scheduler's part in a group of schedulers that work side by side, without a shared lock.

docs/active-active.md describes the protocol and why no node is overcommitted. In short: every node has one owner, and
only the owner binds pods to it. A member uses the nodes that are its own among all members that it has published, while
all live members have published that they know it. Before it publishes a new member, it finishes its binds to the nodes
that it gives up. The nodes of a member that crashed are used after a fence: all pods that it could be binding are
changed, so that its binds, which name the version of the pod, fail.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.api.pod import Pod
from mooring.columns.node_share import NodeShare, decides
from mooring.framework.api_clients import Binding
from mooring.framework.status import Status
from mooring.kube import Access, Backoff, Client, Conflict, KubeError, NotFound, PatchType, resource_of
from mooring.kube.membership import (
    FENCED_KEPT,
    MembershipSettings,
    MembershipThread,
    MembersSnapshot,
    MemberState,
    Published,
)
from mooring.kube.object_store import is_newer
from mooring.kube.transport import RequestObserver
from mooring.live.api_adapters import ApiBinder
from mooring.live.informers import UNFINISHED, Informers
from mooring.logs import get_logger
from mooring.scheduler.engine import Engine

log = get_logger("mooring.live")

#: The annotation of a pod that a survivor has fenced: the member whose earlier binds of this pod fail now.
FENCE: Final = "mooring.dev/fence"
#: How many pods are fenced at a time.
_CONCURRENT: Final = 16
#: The time between two changes of pods that are made only to observe them.
_NUDGE_SECONDS: Final = 0.5
#: How often a bind of a pod that has changed is sent.
_TRIES: Final = 3
#: The value of the annotation of a pod that was changed only to observe the change.
_PROGRESS: Final = "progress"


class Departure(msgspec.Struct):
    """A former member whose last binds are not known yet."""

    #: The members that it knew: the pods that it could be binding follow from them. None if this one does not know.
    view: frozenset[str] | None
    #: When this member fences it, if no other one does so.
    fence_at: float
    #: The resource version at which all of its binds have succeeded or failed; empty if not known.
    version: str = ""
    fencing: bool = False


class ActiveActive:
    """The membership of a scheduler and what follows from it. Belongs to one event loop."""

    def __init__(
        self,
        access: Access,
        settings: MembershipSettings,
        engine: Engine,
        *,
        informers: Informers,
        start: Callable[[Coroutine[Any, Any, None]], object],
        wake: Callable[[], None],
        observer: RequestObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``start`` starts a task, and ``wake`` makes the scheduling loop check its queue."""
        self._settings = settings
        # Fences wait neither for the rate limit nor for the lease: they change nothing that decisions depend on.
        self._client = Client(access, observer=observer)
        self._engine = engine
        self._informers = informers
        self._start = start
        self._wake = wake
        self._clock = clock
        self.share = engine.cache.table.share = NodeShare()
        self._thread = MembershipThread(access, settings, self._on_snapshot, observer=observer)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._me = ""
        self._published = Published()
        #: The state that was to be published last, and all members of the states since the published one.
        self._requested = Published()
        self._promised: frozenset[str] = frozenset()
        #: The other members of the last snapshot.
        self._others: dict[str, MemberState] = {}
        self._departures: dict[str, Departure] = {}
        #: The former members that this one has fenced.
        self._fenced: tuple[str, ...] = ()
        #: The resource version of pods from which this member may act.
        self._joined_at = ""
        #: When a pod may be changed again to observe the change.
        self._nudge_at = float("-inf")
        #: The binds in flight: (namespace/name of the pod, node).
        self.in_flight: Counter[tuple[str, str]] = Counter()
        #: The uids of the pods that had been assumed when this member was expelled.
        self._former: frozenset[str] = frozenset()
        #: Conflicts by reason, takeovers from crashed members, and pods that were fenced for them.
        self.conflicts: Counter[str] = Counter()
        self.takeovers = 0
        self.fenced_pods = 0

    def may_write(self) -> bool:
        """Return whether no other member can have expelled this one, as the member that it is for the event loop."""
        return self._thread.holds(self._me)

    def count_conflict(self, uid: str, reason: str) -> None:
        """Count a placement of a pod that was undone."""
        self.conflicts["expelled" if uid in self._former or not self.may_write() else reason] += 1

    def begin(self) -> None:
        """Join the group. The informers must be synced."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def leave(self) -> None:
        """Leave the group after all binds have ended. If some have not, the others fence this member instead."""
        if self._loop is None:
            return
        if not self.in_flight and not self._departures:
            self._thread.publish(self._me, msgspec.structs.replace(self._requested, left=True))
        self.share.set(self._me, frozenset(), frozenset(), active=False)
        await asyncio.to_thread(self._thread.stop)
        await self._client.close()

    # Members

    def _on_snapshot(self, snapshot: MembersSnapshot) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.observe, snapshot)

    def observe(self, snapshot: MembersSnapshot) -> None:
        """Follow the members of a snapshot."""
        if snapshot.me != self._me:
            self._rejoin(snapshot.me)
        self._published = snapshot.published
        if self._published.number == self._requested.number:
            self._promised = frozenset()
        others = {member.name: member for member in snapshot.others}
        self._find_departures(others, snapshot)
        self._others = others
        self._settle(others)
        self._update(snapshot)
        self._publish()

    def _rejoin(self, me: str) -> None:
        """Start as a new member: the group has expelled the former one and has fenced its binds."""
        self._former = frozenset(self._engine.cache.assumed) if self._me else frozenset()
        self._me, self._joined_at, self._others, self._departures = me, "", {}, {}
        self._fenced = ()
        self._requested, self._promised, self.share.published = Published(), frozenset(), frozenset()
        self._apply(frozenset(), frozenset(), active=False)

    def _find_departures(self, others: dict[str, MemberState], snapshot: MembersSnapshot) -> None:
        now = self._clock()
        for name, before in self._others.items():
            after = others.get(name)
            gone, left = after is None, (after or before).published.left
            if name in self._departures or not (gone or left) or before.published.view is None:
                continue
            if left:
                self._departures[name] = Departure(before.published.view, now, (after or before).version)
                continue
            last = next((each for each in snapshot.expelled if each.name == name), None)
            self.takeovers += 1
            if last is not None:
                self._departures[name] = Departure(last.published.view or frozenset(), now)
            else:
                # Another member fences it; or somebody has deleted the lease of a member that runs until it renews.
                self._departures[name] = Departure(None, now + self._patience)
            log.warning("A member of the active-active group is gone", member=name, fencing=last is not None)

    def _settle(self, others: dict[str, MemberState]) -> None:
        """Use the nodes of former members whose last binds have been observed."""
        for member in others.values():
            for name in member.published.fenced:
                found = self._departures.get(name)
                if found is not None and not found.version:
                    found.version = member.version
            for name in member.published.fencing:
                if name in self._departures and not self._departures[name].fencing:
                    self._departures[name].fence_at = self._clock() + self._patience
        for name, departure in list(self._departures.items()):
            if departure.version and self._has_observed(departure.version):
                del self._departures[name]
                log.info("The nodes of a former member are taken over", member=name)
            elif not departure.version and not departure.fencing and self._clock() >= departure.fence_at:
                departure.fencing = True
                self._start(self._fence(name, departure))

    def _has_observed(self, version: str) -> bool:
        """Return whether all changes of pods up to a version have been applied."""
        seen = self._informers.pods_version
        if not seen or self._engine.lock.held:
            return False
        if is_newer(version, seen):
            self._nudge(version)
            return False
        return True

    def _nudge(self, version: str) -> None:
        """Change a pod that waits, so that a change after the version is observed even if nothing else happens."""
        if self._clock() < self._nudge_at:
            return
        for pod in self._informers.pods():
            if not pod.node_name and pod.scheduler_name in self._engine.profiles.runners:
                self._nudge_at = self._clock() + _NUDGE_SECONDS
                self._start(self._try_touch(pod, f"{_PROGRESS}-{version}"))
                return

    @property
    def _patience(self) -> float:
        """How long this member waits for another one to fence a former member."""
        return 2 * self._settings.lease_duration

    @property
    def _live(self) -> dict[str, MemberState]:
        return {name: member for name, member in self._others.items() if not member.published.left}

    def _update(self, snapshot: MembersSnapshot) -> None:
        live, view = self._live, snapshot.published.view
        known = view is not None and all(
            member.published.view is None or self._me in member.published.view for member in live.values()
        )
        if known and not self._joined_at:
            self._joined_at = snapshot.version if live else "0"
        active = known and (self.share.active or self._has_observed(self._joined_at))
        # A member that is gone keeps its keys until the others are told.
        members = frozenset((self._me, *live, *(view or ())))
        self._apply(members, frozenset(self._departures), active=active)

    def _apply(self, members: frozenset[str], departed: frozenset[str], *, active: bool) -> None:
        if not self.share.set(self._me, members, departed, active=active):
            return
        log.info(
            "The active-active group has changed",
            member=self._me,
            active=active,
            members=",".join(sorted(members)),
            departed=",".join(sorted(departed)),
        )
        self._engine.share_changed()
        delayed, self.share.delayed = self.share.delayed, set()
        self._engine.lock.defer(self._engine.queue.activate, delayed)
        self._wake()

    def _publish(self) -> None:
        """Publish the members that this one knows, once its binds to their nodes have ended."""
        view, live = self._published.view, self._live
        wanted = frozenset((self._me, *live))
        if view is not None and any(not departure.version for departure in self._departures.values()):
            wanted &= view  # a new member does not know whose binds are awaited
        if view is not None and not wanted <= view and not self._drained(wanted):
            wanted &= view
        fencing = tuple(name for name, each in self._departures.items() if each.fencing and not each.version)
        number = self._requested.number
        published = Published(wanted, self._fenced[-FENCED_KEPT:], fencing, number=number)
        if published != self._requested:
            self._requested = msgspec.structs.replace(published, number=number + 1)
        if self._requested.number != self._published.number:
            self._thread.publish(self._me, self._requested)
        # All members that others may read in the lease: renewals may be on their way.
        self._promised |= wanted
        self.share.published = self._promised | (view or frozenset())

    def _drained(self, wanted: frozenset[str]) -> bool:
        """Return whether all binds in flight are of pods and nodes that stay with this member."""
        share = NodeShare()
        share.set(self._me, wanted, frozenset(), active=True)
        for key, node in self.in_flight:
            pod = self._informers.pod(key)
            if not share.usable(node) or (pod is not None and not share.takes(pod)):
                return False
        return True

    # Fences

    async def _fence(self, name: str, departure: Departure) -> None:
        """Change all pods that a former member could be binding: it has not observed this, so its binds fail."""
        backoff = Backoff(first=0.05, cap=1.0)
        me, view = self._me, departure.view
        waiting: deque[Pod] | None = None
        versions: list[str] = []
        while me == self._me:
            try:
                if waiting is None:
                    page = await self._client.list(Pod, fields=f"spec.nodeName=,{UNFINISHED}")
                    waiting = deque(self._pods_of(name, view, page.items))
                    versions.append(page.resource_version)
                await self._touch_all(waiting, name, versions)
            except KubeError as error:
                log.warning("could not fence a former member", member=name, error=str(error))
                await asyncio.sleep(backoff.next())
                continue
            departure.version = max(filter(None, versions), key=lambda version: (len(version), version))
            self._fenced = (*self._fenced, name)
            self._publish()
            return

    def _pods_of(self, name: str, view: frozenset[str] | None, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Yield the pods that a former member could be binding: all, if it is not known which members it knew."""
        for pod in pods:
            if pod.scheduler_name in self._engine.profiles.runners and (view is None or decides(pod, view) == name):
                yield pod

    async def _touch_all(self, waiting: deque[Pod], name: str, versions: list[str]) -> None:
        """Change pods until none is left, and add their resource versions. Raises KubeError; those pods stay."""

        async def work() -> None:
            while waiting:
                pod = waiting.popleft()
                latest = self._informers.pod(pod.key)
                if latest is not None and latest.uid == pod.uid and latest.node_name:
                    versions.append(latest.metadata.resource_version)  # no other bind of it can succeed
                    continue
                try:
                    versions.append((await self.touch(pod, name))[0])
                except KubeError:
                    waiting.append(pod)
                    raise
                self.fenced_pods += 1

        done = await asyncio.gather(*(work() for _ in range(_CONCURRENT)), return_exceptions=True)
        for error in done:
            if error is not None:
                raise error

    async def touch(self, pod: Pod, value: str) -> tuple[str, str]:
        """Set the annotation of a pod, so that its resource version changes. Return the version and the node.

        Both are empty if the pod is gone. Raises KubeError.
        """
        path = resource_of(Pod).path(namespace=pod.namespace, name=pod.name, subresource="status")
        body = {"metadata": {"uid": pod.uid, "annotations": {FENCE: value}}}
        try:
            answer = await self._client.send("PATCH", path, body, type=PatchType.STRATEGIC)
        except (NotFound, Conflict):
            return "", ""  # deleted, or the name belongs to another pod now
        return str(answer["metadata"]["resourceVersion"]), str(answer["spec"].get("nodeName", ""))

    async def _try_touch(self, pod: Pod, value: str) -> None:
        try:
            await self.touch(pod, value)
        except KubeError as error:
            log.warning("could not change a pod", pod=pod.key, error=str(error))


class FencedBinder(ApiBinder):
    """A binder for a member of an active-active group. It binds only to its own nodes, and pods at a version."""

    def __init__(self, client: Client, group: Callable[[], ActiveActive], latest: Callable[[str], Pod | None]) -> None:
        """``latest`` returns a pod as it was observed last, by namespace/name."""
        super().__init__(client)
        self._group = group
        self._latest = latest

    async def bind(self, binding: Binding) -> Status | None:
        """Bind a pod. Return None if it is bound to this node."""
        self.in_flight += 1
        try:
            return await self._bind(binding, binding.target.name)
        finally:
            self.in_flight -= 1

    async def _bind(self, binding: Binding, node: str) -> Status | None:
        group, key = self._group(), f"{binding.namespace}/{binding.name}"
        share, pod = group.share, self._latest(key)
        if pod is None or pod.uid != binding.uid or not share.may_bind(pod, node):
            group.count_conflict(binding.uid, "moved")
            return Status.error(f"pod {key} or node {node} belongs to another member of the active-active group now")
        group.in_flight[key, node] += 1
        try:
            return await self._bind_at(pod, binding, node, group)
        finally:
            group.in_flight[key, node] -= 1
            if not group.in_flight[key, node]:
                del group.in_flight[key, node]

    async def _bind_at(self, pod: Pod, binding: Binding, node: str, group: ActiveActive) -> Status | None:
        problem, reason = "", "bind"
        for _ in range(_TRIES):
            # In this order: the version was observed, then the lease was valid. A later fence changes the version.
            if not (group.share.may_bind(pod, node) and group.may_write()):
                reason = "moved"
                break
            try:
                await self._client.bind(binding, node, binding.annotations, version=pod.metadata.resource_version)
            except Conflict as error:
                problem = str(error)
            except KubeError as error:
                settled = await self._settled(pod, group) if error.outcome_unknown else ""
                return None if settled == node else Status.error(str(error))
            else:
                return None
            # The pod has changed, often by this scheduler itself; if only its status has, the decision is still valid.
            try:
                latest = await self._client.get(Pod, binding.name, namespace=binding.namespace)
            except KubeError as error:
                return Status.error(str(error))
            if latest.uid != binding.uid or latest.node_name or latest.spec != pod.spec or latest.labels != pod.labels:
                if latest.uid == binding.uid and latest.node_name == node:
                    return None
                break
            pod = latest
        group.count_conflict(binding.uid, reason)
        return Status.error(problem or f"node {node} belongs to another member of the active-active group now")

    async def _settled(self, pod: Pod, group: ActiveActive) -> str:
        """Return the node of a pod after a bind with an unknown outcome, which cannot succeed later any more."""
        backoff = Backoff(first=0.1, cap=5.0, random=self._client.random)
        while True:
            try:
                return (await group.touch(pod, f"unknown-{pod.metadata.resource_version}"))[1]
            except KubeError:
                await asyncio.sleep(backoff.next())


class ActiveActiveMetrics(Collector):
    """The metrics of an active-active group, as this member sees it."""

    def __init__(self, group: ActiveActive, engine: Engine) -> None:
        self._group = group
        self._engine = engine

    def register(self, registry: CollectorRegistry) -> None:
        """Add the metrics to those of the scheduler."""
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        group, share = self._group, self._group.share
        members = GaugeMetricFamily(
            "mooring_active_active_members",
            "Members of the active-active group by state: live, or departed with binds that are not settled.",
            labels=("state",),
        )
        members.add_metric(("live",), len(share.members - share.departed))
        members.add_metric(("departed",), len(share.departed))
        yield members
        table = self._engine.cache.table
        yield GaugeMetricFamily(
            "mooring_active_active_nodes",
            "Nodes that this member may bind pods to.",
            value=int(share.mask(table).sum()),
        )
        conflicts = CounterMetricFamily(
            "mooring_active_active_conflicts",
            "Placements that were undone: another client changed or bound the pod (bind), the pod or node had moved to "
            "another member (moved), the room for a pod that was handed over was gone (handover), or this member could "
            "not renew its lease in time before it bound the pod (expelled).",
            labels=("reason",),
        )
        for reason in ("bind", "moved", "expelled"):
            conflicts.add_metric((reason,), group.conflicts[reason])
        conflicts.add_metric(("handover",), share.refusals)
        yield conflicts
        for name, text, value in (
            ("handovers", "Pods handed over to the owner of a node.", share.handovers),
            ("takeovers", "Members that this one has seen crash.", group.takeovers),
            ("fenced_pods", "Pods that were changed so that binds of a crashed member fail.", group.fenced_pods),
        ):
            yield CounterMetricFamily(f"mooring_active_active_{name}", text, value=value)
