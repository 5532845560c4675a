"""Handle: what the scheduler lends to a plugin.

Time, randomness and the cluster come from here, so that a test or a replay can supply them.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo, PodInfo, WhatIfNode
from mooring.columns.nodes import Nodes
from mooring.columns.nominator import Nominator
from mooring.columns.table import NodeTable, PodListener
from mooring.columns.templates import PodTemplate
from mooring.framework.api_clients import ApiReader, Binder, NoBinder, VolumeWriter
from mooring.framework.listers import Lister, ObjectStore, PluginLister
from mooring.framework.state import CycleState
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPods

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


class Handle:
    """The scheduler's interface for plugins: one per profile, shared by its plugins."""

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
        binder: Binder | None = None,
        volumes: VolumeWriter | None = None,
        api: ApiReader | None = None,
        extenders: PreemptionExtenders | None = None,
    ) -> None:
        self.profile_name = profile_name
        self.table = table if table is not None else NodeTable()
        self.objects = objects if objects is not None else ObjectStore()
        self.nominator = nominator if nominator is not None else Nominator()
        self.waiting_pods = waiting_pods if waiting_pods is not None else WaitingPods()
        self.events: EventRecorder = recorder if recorder is not None else NoEvents()
        #: Seconds since the epoch; never read the machine's clock in a plugin.
        self.clock = clock
        self.random = rng if rng is not None else random.Random()
        #: Writes bindings to the API server.
        self.binder: Binder = binder if binder is not None else NoBinder()
        #: Writes to volumes and claims; None in runs without a cluster, where assumed bindings stay assumed.
        self.volumes = volumes
        #: Reads from the API server, for ``run``; None in runs without a cluster.
        self.api = api
        #: The extenders that support preemption, if any.
        self.extenders = extenders
        self._activate = activate
        #: The profile's handle, which has the runner; plugins have handles of their own.
        self._profile_handle = self
        self._runner: Runner | None = None
        self._listers: dict[type, PluginLister[Any]] = {}
        self._subscriptions: list[Callable[[], None]] = []
        self._closed = False

    def for_plugin(self) -> Handle:
        """Return a handle for one plugin of the profile; closing it ends the plugin's subscriptions."""
        made = copy.copy(self)
        made._runner, made._listers, made._subscriptions = None, {}, []
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
        """Runs the profile's plugins; available once the profile is active."""
        runner = self._profile_handle._runner
        if runner is None:
            raise RuntimeError(f"profile {self.profile_name} is not active yet")
        return runner

    @runner.setter
    def runner(self, runner: Runner) -> None:
        self._profile_handle._runner = runner

    @property
    def nodes(self) -> Nodes:
        """All nodes of the cluster, live."""
        return Nodes(self.table)

    @property
    def pods(self) -> Iterable[PodInfo]:
        """All pods that have a node."""
        return self.table.pods.values()

    def lister(self, kind: type[T]) -> Lister[T]:
        """Return the lister of a kind: ``handle.lister(PersistentVolumeClaim).get("data", "default")``."""
        found = self._listers.get(kind)
        if found is None:
            found = self._listers[kind] = PluginLister(self.objects.lister(kind), self._subscribed)
        return found

    def template(self, pod: Pod) -> PodTemplate:
        """Return the pod's compiled template, which equal pods share."""
        return self.table.templates.of(pod)

    def listen(self, listener: PodListener) -> None:
        """Keep an index of your own: be told about every pod that comes to, or leaves, a node."""
        self._subscribed(self.table.subscribe(listener))

    def touch(self, node_name: str) -> None:
        """Invalidate the cached results for a node.

        A plugin that reads an object of its own for each node may declare ``depends_on("node")`` if it calls this
        whenever such an object changes.
        """
        self.table.touch(node_name)

    def activate(self, pods: Iterable[str]) -> None:
        """Move pods (namespace/name) to the active queue."""
        if self._activate is not None:
            self._activate(pods)
