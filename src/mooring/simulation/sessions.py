"""Sessions: batch sessions on the cache of a simulated engine, as on a live cluster."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup, Queue
from mooring.batch.actions import ACTIONS
from mooring.batch.actions.complete import complete
from mooring.batch.plugin import SessionGuards
from mooring.batch.resource import Resource, share
from mooring.batch.run import Outcome, action_steps, amounts, close_session, open_session
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo
from mooring.framework.api_clients import ClaimWriter
from mooring.live.batch.batch_settings import batch_cluster
from mooring.live.batch.session_figures import accounts_of
from mooring.loading.circuit_breaker import Log
from mooring.observe.plugin_metrics import PluginHealth
from mooring.scheduler.cache import Cache, placed
from mooring.simulation.device_cases import run_at_once
from mooring.simulation.session_settings import SessionSettings

_replace = msgspec.structs.replace
#: Plugins whose answers depend on the time.
_TIMELY: Final = frozenset({"sla", "tdm", "cdp", "usage"})


class SessionResult(msgspec.Struct, frozen=True):
    """The decisions of one session."""

    #: The pods that were bound, with their node.
    bound: list[Pod]
    #: The evicted pods, and the actions that evicted them.
    evicted: list[tuple[Pod, str]]
    #: Why pods are pending, by uid.
    reasons: dict[str, str]
    #: The warnings about the arguments of plugins.
    warnings: list[str]


class Sessions:
    """The sessions of a simulation, and the last results about gangs and queues."""

    def __init__(
        self,
        settings: SessionSettings,
        cache: Cache,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        claims: ClaimWriter,
        health: PluginHealth,
        warn: Log,
    ) -> None:
        """``health`` counts the failures of users' plugins, and ``warn`` is called for each of them."""
        self.settings = settings
        self._cache = cache
        self._cluster = batch_cluster(
            cache,
            scheduler_names=settings.scheduler_names,
            default_queue=settings.default_queue,
            clock=clock,
            rng=rng,
            claims=claims,
        )
        self._guards = SessionGuards(settings.options, clock=clock, health=health, log=warn)
        self._actions = {
            name: action if ACTIONS.get(name) is action else self._guards.action(name, action)
            for name, action in settings.actions.items()
        }
        #: The number of sessions that were run.
        self.count = 0
        #: From the last session: why gangs were not admitted, and the deserved amounts and shares of queues.
        self.notes: dict[str, str] = {}
        self.deserved: dict[str, dict[str, str]] = {}
        self.shares: dict[str, float] = {}

    @property
    def depends_on_time(self) -> bool:
        """Whether the decisions of a session can change only because time has passed."""
        named = {option.name for option in self.settings.conf.options()}
        return bool(named & (_TIMELY | self.settings.users))

    def put_finished(self, pods: Iterable[Pod]) -> None:
        """Add finished pods, which gangs count and which are not in the cache."""
        for pod in pods:
            self._cluster.put(pod)

    def run(self) -> SessionResult:
        """Run a session on the current state of the cache. Its pods are assumed on their nodes."""
        self.count += 1
        session = self._cluster.session(self.settings.conf)
        try:
            opened = open_session(session, self.settings.plugins, self._guards)
            complete(session)
            done = 0
            for _ in action_steps(session, self._actions):
                for task in session.bindings[done:]:
                    self._cache.assume(task.pod, task.node_name)
                    self._write_claims(task)
                done = len(session.bindings)
            outcome = close_session(session, opened)
            self._publish(session, outcome, [plugin for plugin, _ in opened])
        finally:
            session.end(keep=self._cache.assumed)
        return SessionResult(
            bound=[placed(task.pod, task.node_name) for task in session.bindings],
            evicted=[(task.pod, reason) for task, reason in session.evictions],
            reasons={note.task.uid: _shared_text(note.task.pod, note.reason.message) for note in outcome.pods},
            warnings=session.warnings,
        )

    def _write_claims(self, task: TaskInfo) -> None:
        """Write the claims of a task that is bound; simulated writes do not fail."""
        devices = self._cluster.kube.device_reservations.pop(task.uid, None)
        writes = devices.pre_bind() if devices is not None else None
        if writes is not None:
            run_at_once(writes)

    def _publish(self, session: Session, outcome: Outcome, plugins: list[Any]) -> None:
        """Store the statuses that a live scheduler would write."""
        objects = self._cache.objects
        for uid, status in outcome.groups.items():
            objects.put(_replace(session.jobs[uid].group, status=status))
        for name, held in outcome.queues.items():
            queue = session.queues[name].queue
            objects.put(_replace(queue, status=_replace(queue.status, allocated=dict(held))))
        self.notes = {job.uid: text for job, text in session.notes}
        self.deserved = _deserved(plugins)
        self.shares = _shares(session, outcome)

    def groups(self) -> dict[str, PodGroup]:
        """Return the PodGroups with their statuses, by namespace/name."""
        return {group.key: group for group in self._cache.objects.lister(PodGroup).list()}

    def queues(self) -> dict[str, Queue]:
        """Return the queues with their statuses, by name."""
        return {queue.name: queue for queue in self._cache.objects.lister(Queue).list()}


def _shared_text(pod: Pod, message: str) -> str:
    """Return a message without the pod's name, so that equal pods have equal messages."""
    return message.replace(f"Pod {pod.namespace}/{pod.name} ", "The pod ")


def _deserved(plugins: list[Any]) -> dict[str, dict[str, str]]:
    """Return what each queue deserves, by proportion or capacity."""
    return {name: amounts(account.deserved) for name, account in accounts_of(plugins).items()}


def _shares(session: Session, outcome: Outcome) -> dict[str, float]:
    """Return the highest share of any resource of the cluster that each queue has, including its child queues."""
    total = session.total
    found: dict[str, float] = {}
    for name, held in outcome.queues.items():
        own = Resource.of(held)
        found[name] = max((share(own.get(each), total.get(each)) for each in own.names()), default=0.0)
    return found
