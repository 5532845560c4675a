"""Handle: the scheduler's interface for plugins."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo, PodInfo, PodListener, WhatIfNode
from mooring.columns.nodes import Nodes
from mooring.columns.nominator import Nominator
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.framework.api_clients import ApiReader, Binder, ClaimWriter, NoBinder, VolumeWriter
from mooring.framework.device_allocations import AllocationScorer
from mooring.framework.listers import ListenerError, Lister, ObjectStore, PluginLister
from mooring.framework.plugin_errors import HangsError, contain
from mooring.framework.state import CycleState
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPods
from mooring.releases import Release

if TYPE_CHECKING:
    from mooring.framework.preemption.candidate import PreemptionExtenders

T = TypeVar("T", bound=KubeObject)


class EventRecorder(Protocol):
    """Records Kubernetes events about objects, which ``kubectl get events`` shows."""

    def record(
        self,
        regarding: KubeObject,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | None = None,
    ) -> None:
        """Record an event about an object, and optionally a related object."""


class NoEvents:
    """An event recorder for runs without a cluster."""

    def record(
        self,
        regarding: KubeObject,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | None = None,
    ) -> None:
        """Record nothing."""


class Runner(Protocol):
    """Runs the profile's plugins on hypothetical changes, for preemption."""

    def filter_what_if(self, state: CycleState, pod: Pod, node: WhatIfNode) -> Status:
        """Run the Filter plugins on a node with pods added or removed, including nominated pods."""

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """Run the PreFilter plugins' ``add_pod``."""

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Run the PreFilter plugins' ``remove_pod``."""

    def filter_plugins(self, state: CycleState) -> tuple[object, ...]:
        """Return the Filter plugins that run in this attempt, in order."""

    @property
    def restricts_evictions(self) -> bool:
        """Whether a plugin defines ``may_evict``."""

    def may_evict(self, pod: Pod, victim: Pod) -> bool:
        """Return whether all plugins that define ``may_evict`` allow the eviction of a pod for another."""

    @property
    def allocation_scorers(self) -> tuple[AllocationScorer, ...]:
        """The plugins that define ``score_allocation``."""


class _GuardedListener:
    """Reports errors of a plugin's listener; those during the subscription are raised."""

    def __init__(self, listener: PodListener, on_error: ListenerError) -> None:
        self.volumes_only = listener.volumes_only
        self.subscribed = False
        self._listener = listener
        self._on_error = on_error
        #: Whether a call hung. The listener is not called any more, because the next call would hang too.
        self._hung = False

    def pod_added(self, info: PodInfo, row: int) -> None:
        self._call("pod_added", info, row)

    def pod_removed(self, info: PodInfo, row: int) -> None:
        self._call("pod_removed", info, row)

    def _call(self, method: str, info: PodInfo, row: int) -> None:
        if self._hung:
            return
        try:
            getattr(self._listener, method)(info, row)
        except BaseException as error:
            contain(error)
            if not self.subscribed:
                raise
            self._hung = isinstance(error, HangsError)
            self._on_error(method, error)


class Handle:
    """The scheduler's interface for a plugin, as ``self.handle``. Each plugin has its own.

    Time, random numbers and the cluster come from here, so that tests and replays can supply them.

    Attributes:
        profile_name: The scheduler name of the profile, as pods name it in ``spec.schedulerName``.
        table: All nodes and the pods on them, in columns, for advanced use. ``nodes`` and ``pods`` are simpler.
        objects: The objects of all other kinds that the scheduler watches. ``lister`` is simpler.
        nominator: The pods that wait for victims of a preemption to terminate, by nominated node.
        waiting_pods: The pods that wait at Permit: ``handle.waiting_pods.get(uid)``.
        events: Records Kubernetes events, which ``kubectl get events`` shows.
        clock: Returns the time, in seconds since the epoch. Use it instead of ``time.time()``.
        random: A source of random numbers. Use it instead of the module ``random``.
        binder: Writes bindings to the API server, for ``bind``.
        volumes: Writes volumes and claims. None without a cluster.
        claims: Writes resource claims. None without a cluster.
        api: Reads from the API server, for ``run``: ``await self.handle.api.get(path)``. None without a cluster.
        extenders: The extenders that support preemption; None if there are none.
        release: The release of kube-scheduler that is emulated, with its feature gates:
            ``self.handle.release.enabled("VolumeLimitScaling")``.
    """

    def __init__(
        self,
        *,
        profile_name: str = "default-scheduler",
        table: NodeTable | None = None,
        objects: ObjectStore | None = None,
        nominator: Nominator | None = None,
        waiting_pods: WaitingPods | None = None,
        recorder: EventRecorder | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        activate: Callable[[Iterable[str]], None] | None = None,
        retry: Callable[[str, str], None] | None = None,
        binder: Binder | None = None,
        volumes: VolumeWriter | None = None,
        claims: ClaimWriter | None = None,
        api: ApiReader | None = None,
        extenders: PreemptionExtenders | None = None,
        release: Release | None = None,
    ) -> None:
        self.profile_name = profile_name
        self.table = table if table is not None else NodeTable()
        self.release = release if release is not None else self.table.release
        self.objects = objects if objects is not None else ObjectStore()
        self.nominator = nominator if nominator is not None else Nominator()
        self.waiting_pods = waiting_pods if waiting_pods is not None else WaitingPods()
        self.events: EventRecorder = recorder if recorder is not None else NoEvents()
        self.clock = clock
        self.random = rng if rng is not None else random.Random()
        self.binder: Binder = binder if binder is not None else NoBinder()
        self.volumes = volumes
        self.claims = claims
        self.api = api
        self.extenders = extenders
        self._activate = activate
        self._retry = retry
        #: The plugin that has this handle; empty for the profile's handle.
        self._plugin = ""
        #: The profile's handle, which has the runner; plugins have handles of their own.
        self._profile_handle = self
        self._runner: Runner | None = None
        self._listers: dict[type, PluginLister[Any]] = {}
        self._subscriptions: list[Callable[[], None]] = []
        self._closed = False
        #: Called with errors of the plugin's listeners; None raises them.
        self._on_error: ListenerError | None = None

    def for_plugin(self, name: str = "", on_error: ListenerError | None = None) -> Handle:
        """Return a handle for one plugin of the profile; closing it ends the plugin's subscriptions.

        ``on_error`` is called if a listener of the plugin raises, so that it does not stop the scheduler.
        """
        made = copy.copy(self)
        made._plugin = name
        made._runner, made._listers, made._subscriptions = None, {}, []
        made._on_error = on_error
        return made

    def close(self) -> None:
        """End all subscriptions made through this handle; later ones are ended at once."""
        self._closed = True
        for unsubscribe in self._subscriptions:
            unsubscribe()
        self._subscriptions.clear()

    def _subscribed(self, unsubscribe: Callable[[], None]) -> None:
        if self._closed:
            unsubscribe()
        else:
            self._subscriptions.append(unsubscribe)

    @property
    def runner(self) -> Runner:
        """Runs the profile's Filter plugins on hypothetical changes; available once the profile is active."""
        runner = self._profile_handle._runner
        if runner is None:
            raise RuntimeError(f"profile {self.profile_name} is not active yet")
        return runner

    @runner.setter
    def runner(self, runner: Runner) -> None:
        self._profile_handle._runner = runner

    @property
    def allocation_scorers(self) -> tuple[AllocationScorer, ...]:
        """The plugins of the profile that define ``score_allocation``; none before the profile is active."""
        runner = self._profile_handle._runner
        return () if runner is None else runner.allocation_scorers

    @property
    def nodes(self) -> Nodes:
        """All nodes of the cluster, with their current pods: iterate over them, or read columns."""
        return Nodes(self.table)

    @property
    def pods(self) -> Iterable[PodInfo]:
        """All pods that are on a node, including those whose bind is in progress."""
        return self.table.pods.values()

    def lister(self, kind: type[T]) -> Lister[T]:
        """Return the lister of a kind, which reads objects from memory.

        ``handle.lister(PersistentVolumeClaim).get("data", "default")`` returns an object or None. A class attribute
        ``claims = Lister(PersistentVolumeClaim)`` does the same and requeues pods when such an object changes.
        """
        found = self._listers.get(kind)
        if found is None:
            found = self._listers[kind] = PluginLister(self.objects.lister(kind), self._subscribed, self._on_error)
        return found

    def template(self, pod: Pod) -> PodTemplate:
        """Return the pod's template: its requests, ports, selectors and so on, compiled once for all equal pods."""
        return self.table.templates.of(pod)

    def listen(self, listener: PodListener) -> None:
        """Call ``listener`` whenever a pod is added to, or removed from, a node, so that a plugin can keep an index."""
        if self._on_error is None:
            self._subscribed(self.table.subscribe(listener))
            return
        guarded = _GuardedListener(listener, self._on_error)
        self._subscribed(self.table.subscribe(guarded))
        guarded.subscribed = True

    def touch(self, node_name: str) -> None:
        """Invalidate the cached results for a node.

        A plugin that reads an object of its own for each node may declare ``depends_on("node")`` if it calls this
        whenever such an object changes.
        """
        self.table.touch(node_name)

    def activate(self, pods: Iterable[str]) -> None:
        """Move pods, given as ``namespace/name``, to the active queue without a backoff."""
        if self._activate is not None:
            self._activate(pods)

    def retry(self) -> None:
        """Try the pods that this plugin rejected or gates again.

        Call it when something changed that no event of the cluster reports: a file, a price, the answer of a service.
        The pods return to the active queue at the end of their backoff, which is usually over; gated pods pass
        PreEnqueue again. Call it on the scheduler's event loop: in ``run``, in a listener, or in an extension point.
        On another thread, use ``loop.call_soon_threadsafe(self.handle.retry)``. It has no effect without a queue (in
        ``mooring evaluate`` and ``PluginHarness``) or with ``isolation: process``.
        """
        if self._retry is not None and not self._closed:
            self._retry(self.profile_name, self._plugin)
