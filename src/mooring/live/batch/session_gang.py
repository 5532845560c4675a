"""SessionGang: a PodGroup of batch sessions, for suggestions.

A decision is a whole session with all gangs, on the changed state, whose result is undone. So a suggestion also holds
against the other gangs that wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from mooring.api.meta import KubeObject, format_time, parse_time
from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, Queue, QueueStatus
from mooring.batch.actions import ACTIONS, Action
from mooring.batch.actions.complete import complete
from mooring.batch.cluster import BatchCluster, Replacements
from mooring.batch.conf import BatchConf
from mooring.batch.job import JobInfo
from mooring.batch.node_amounts import request_of
from mooring.batch.plugin import SessionGuards
from mooring.batch.plugins import PLUGINS
from mooring.batch.plugins.capacity import Capacity
from mooring.batch.plugins.proportion import Proportion
from mooring.batch.plugins.queue_accounts import QueueAccount
from mooring.batch.queue import OPEN, ROOT
from mooring.batch.resource import Resource
from mooring.batch.run import action_steps, amounts, close_plugins, open_session
from mooring.batch.search import ErrorCache, find_nodes, pre_predicate
from mooring.batch.session import Session
from mooring.batch.task import PENDING, PIPELINED, TaskInfo, has_only_queue_gate, wants_queue_gate, without_gates
from mooring.scheduler.gang_suggestions import CORDON, FIT, Gang, GangChange, GangOutcome, named, share_of
from mooring.scheduler.pod_changes import Rows
from mooring.scheduler.pod_group_gang import copy_of

_replace = msgspec.structs.replace

#: The plugin that asks HTTP servers. Its sessions are not repeated for suggestions.
_EXTENDER: Final = "extender"
#: A session of a decision that takes longer is given up.
_SECONDS: Final = 0.5
#: Queues and gangs that are tried for one cause.
_TRIES: Final = 2
#: Words in the reasons of kube-scheduler's filters -> the plugin that gives them.
_REASONS: Final = (
    ("Insufficient", FIT),
    ("Too many pods", FIT),
    ("were unschedulable", CORDON),
    ("untolerated taint", "TaintToleration"),
    ("node affinity/selector", "NodeAffinity"),
    ("free ports", "NodePorts"),
    ("topology spread", "PodTopologySpread"),
    ("affinity", "InterPodAffinity"),
    ("olume", "VolumeBinding"),
)


class SessionSetup(NamedTuple):
    """What sessions are run with."""

    conf: BatchConf
    plugins: Mapping[str, type[Any]] = PLUGINS
    actions: Mapping[str, Action] = ACTIONS
    guards: SessionGuards | None = None

    @property
    def can_repeat(self) -> bool:
        """Whether a session can be repeated without consequences."""
        return all(option.name != _EXTENDER for option in self.conf.options())


class _Account(NamedTuple):
    """A queue, what it would have with the gang, and its limits."""

    name: str
    needed: Resource
    limit: Resource
    deserved: Resource | None


class _Running(NamedTuple):
    """A gang that has nodes."""

    key: str
    queue: str
    allocated: Resource
    tasks: tuple[TaskInfo, ...]


@dataclass(frozen=True)
class SessionOutcome(GangOutcome):
    """What a session decides about a gang, and what keeps it from starting."""

    queue: Queue | None = None
    is_open: bool = True
    #: The number of pods that exist and are not gated.
    valid: int = 0
    #: The accounts of the queue and its ancestors.
    accounts: tuple[_Account, ...] = ()
    #: Whether pods wait for room that is being released, and the pods that the session evicts.
    pipelined: bool = False
    evicted: tuple[Pod, ...] = ()
    running: tuple[_Running, ...] = ()
    #: The queues that accept jobs, and the cluster's resources.
    open_queues: tuple[str, ...] = ()
    total: Resource | None = None
    is_proportion: bool = False


class SessionGang(Gang):
    """A PodGroup of batch sessions."""

    minimum_field = "minMember"

    def __init__(self, cluster: BatchCluster, setup: SessionSetup, group: PodGroup) -> None:
        self._cluster = cluster
        self._setup = setup
        self._group = group
        self.table = cluster.handle.table
        self.key = group.key
        self.minimum = group.spec.min_member
        placed = self.table.pods
        pods = cluster.members(group.key)
        self.pending = sorted((pod for pod in pods if pod.uid not in placed), key=lambda pod: pod.name)
        self.placed = sum(pod.uid in placed for pod in pods)
        #: The pods that wait only for room in their queue, without their gate, as sessions see them later.
        self._admitted = {
            pod.uid: without_gates(pod)
            for pod in self.pending
            if cluster.removes_queue_gates and has_only_queue_gate(pod) and wants_queue_gate(pod)
        }

    def decide(self, change: GangChange) -> SessionOutcome:
        """Run a session on the changed state, and undo it."""
        replaced = Replacements(
            groups={change.group.key: change.group} if isinstance(change.group, PodGroup) else {},
            queues={queue.name: queue for queue in change.queues if isinstance(queue, Queue)},
            pods={**self._admitted, **{pod.uid: pod for pod in change.pods}},
            gone={pod.uid for pod in change.victims},
        )
        rng = self._cluster.handle.random
        before = rng.getstate()
        with self._cluster_with(change):
            session = self._cluster.session(self._setup.conf, replaced)
            session.memory = dict(session.memory)
            try:
                return self._run(session)
            finally:
                session.bindings.clear()  # nothing is kept
                session.end()
                session.discard()
                rng.setstate(before)

    def _run(self, session: Session) -> SessionOutcome:
        opened = open_session(session, self._setup.plugins, self._setup.guards)
        complete(session)
        until = perf_counter() + _SECONDS
        for _ in action_steps(session, self._setup.actions):
            if sum(task.job == self.key for task in session.bindings) >= len(self.pending) or perf_counter() > until:
                break
        found = self._outcome(session, [plugin for plugin, _ in opened])
        close_plugins(session, opened)
        return found

    # Outcomes

    def _outcome(self, session: Session, plugins: list[Any]) -> SessionOutcome:
        nodes = tuple(task.node_name for task in session.bindings if task.job == self.key)
        job = session.jobs.get(self.key)
        if nodes or job is None:
            return SessionOutcome(bool(nodes), nodes, queue=None if job is None else session.queues[job.queue].queue)
        queue = session.queues[job.queue]
        stuck, causes = _causes(session, job)
        accounts = tuple(_accounts(session, job, plugins))
        return SessionOutcome(
            starts=False,
            stuck=stuck,
            causes=tuple(causes),
            queue=queue.queue,
            is_open=queue.is_open,
            valid=sum(not task.gated or has_only_queue_gate(task.pod) for task in job.tasks.values()),
            accounts=accounts,
            pipelined=PIPELINED in job.by_status,
            evicted=tuple(task.pod for task, _ in session.evictions),
            running=tuple(_running(session, self.key)),
            open_queues=tuple(each.name for each in session.queues.values() if each.is_open and each.name != ROOT),
            total=session.total,
            is_proportion=any(isinstance(each, Proportion) for each in plugins),
        )

    def with_minimum(self, minimum: int) -> KubeObject | None:
        """Return the group with another minimum, and the same share of its minimum resources."""
        spec, least = self._group.spec, self._group.spec.min_resources
        least = None if least is None else share_of(least, minimum, self.minimum)
        return _replace(self._group, spec=_replace(spec, min_member=minimum, min_resources=least))

    # Changes

    def changes(self, outcome: GangOutcome, after: GangChange) -> Iterator[GangChange]:
        """Yield changes of the queue, of the number of pods, and of gangs that run."""
        assert isinstance(outcome, SessionOutcome)
        if outcome.queue is None:
            yield from self._without_queue()
            return
        if not after.kind:
            yield from self._missing_pods(outcome)
        if outcome.evicted or outcome.pipelined:
            yield from self._releasing(outcome)
        if not outcome.is_open and not after.queues:
            opened = _replace(outcome.queue, status=_replace(outcome.queue.status, state=OPEN))
            yield GangChange("open-queue", f"Open queue {opened.name}", queues=(opened,))
        short = [each for each in outcome.accounts if _short(each)]
        if short and not after.queues:
            yield from self._at_quota(outcome, short)
        elif outcome.stuck is not None and not after.victims:
            yield from self._after_others(outcome)
        elif outcome.stuck is None and outcome.is_proportion and not after.queues:
            yield from self._heavier(outcome)

    def _without_queue(self) -> Iterator[GangChange]:
        """Create the queue of the group, or use one that exists."""
        name = self._group.spec.queue or self._cluster.default_queue
        made = Queue(metadata=_replace(Queue().metadata, name=name), status=QueueStatus(state=OPEN))
        yield GangChange("create-queue", f"Create queue {name}", queues=(made,))
        names = [queue.name for queue in self._cluster.handle.lister(Queue).list() if queue.name != ROOT]
        yield from self._other_queues(names)

    def _other_queues(self, names: Iterable[str]) -> Iterator[GangChange]:
        for name in list(names)[:_TRIES]:
            group = _replace(self._group, spec=_replace(self._group.spec, queue=name))
            yield GangChange("use-queue", f"Use queue {name} for PodGroup {self.key}", group)

    def _missing_pods(self, outcome: SessionOutcome) -> Iterator[GangChange]:
        gated = [pod for pod in self.pending if pod.spec.scheduling_gates and not has_only_queue_gate(pod)]
        if gated:
            text = f"Remove the scheduling gates of {len(gated)} pods: {named([pod.name for pod in gated])}"
            free = tuple(map(without_gates, gated))
            yield GangChange("remove-gate", text, pods=free)
        missing = self.minimum - outcome.valid - len(gated)
        if missing <= 0:
            return
        made = tuple(copy_of(self.pending[-1], number) for number in range(missing))
        count = outcome.valid + len(gated)
        exist = f"only {count} of at least {self.minimum} exist"
        what = "a pod" if missing == 1 else f"{missing} more pods"
        yield GangChange("create-pods", f"Create {what} of the group: {exist}", pods=made)
        yield self._lowered(count)

    def _lowered(self, count: int) -> GangChange:
        text = f"Reduce minMember of PodGroup {self.key} from {self.minimum} to {count}"
        return GangChange("reduce-minimum", text, self.with_minimum(count))

    def _releasing(self, outcome: SessionOutcome) -> Iterator[GangChange]:
        """Wait for pods that terminate, or that the next session evicts for the gang."""
        if outcome.evicted:
            text = f"Wait until {len(outcome.evicted)} pods that are evicted for it have terminated"
            yield GangChange("wait", f"{text}: {named([pod.key for pod in outcome.evicted])}", victims=outcome.evicted)
            return
        evicting = self.table.evicting
        gone = tuple(
            info.pod for info in self.table.pods.values() if info.pod.is_terminating or info.pod.uid in evicting
        )
        if gone:
            text = f"Wait until {len(gone)} pods have terminated: {named([pod.key for pod in gone])}"
            yield GangChange("wait", text, victims=gone)

    def _at_quota(self, outcome: SessionOutcome, short: list[_Account]) -> Iterator[GangChange]:
        """Raise the capability of the queues that lack room, free room in them, or ask for less."""
        listed = self._cluster.handle.lister(Queue)
        raised, told = [], []
        for each in short:
            queue = listed.get(each.name)
            if queue is None or not set(_short(each)) & set(queue.spec.capability):
                continue
            wanted = {name: amounts(each.needed)[name] for name in _short(each)}
            capability = {**queue.spec.capability, **wanted}
            raised.append(_replace(queue, spec=_replace(queue.spec, capability=capability)))
            steps = [f"{name} from {queue.spec.capability.get(name, '0')} to {value}" for name, value in wanted.items()]
            told.append(f"of queue {each.name}: {', '.join(steps)}")
        if raised:
            yield GangChange("raise-capability", f"Raise the capability {'; '.join(told)}", queues=tuple(raised))
        names = {each.name for each in short}
        yield from self._finished([each for each in outcome.running if each.queue in names], short[0])
        fewer = self._within(short)
        if 0 < fewer < self.minimum:
            yield self._lowered(fewer)
        yield from self._other_queues(name for name in outcome.open_queues if name not in names)

    def _finished(self, running: list[_Running], account: _Account) -> Iterator[GangChange]:
        """Let gangs of the queue finish: the smallest one that frees enough, or several."""
        lacked = {name: account.needed.get(name) - account.limit.get(name) for name in _short(account)}
        yield from self._wait_for(running, lacked, f" and frees room in queue {account.name}", "free-queue")

    def _after_others(self, outcome: SessionOutcome) -> Iterator[GangChange]:
        """Wait until a gang finishes that uses what the pods of this one need."""
        needed = Resource()
        for pod in self.pending[: max(self.minimum - self.placed, 1)]:
            needed.add(self._request(pod))
        lacked = {name: needed.get(name) / 2 for name in needed.names()}
        yield from self._wait_for(list(outcome.running), lacked, "", "wait")

    def _wait_for(
        self, running: list[_Running], lacked: dict[str, float], effect: str, kind: str
    ) -> Iterator[GangChange]:
        main = next(iter(lacked), "")
        order = sorted(running, key=lambda each: each.allocated.get(main))
        enough = [each for each in order if all(each.allocated.get(name) >= need for name, need in lacked.items())]
        for each in enough[:_TRIES]:
            ends = _known_end(each)
            text = f"Wait until PodGroup {each.key} ({len(each.tasks)} pods) finishes{effect}"
            text += f"; it ends at {ends} at the latest" if ends else ", or delete it"
            yield GangChange("wait" if ends else kind, text, victims=tuple(task.pod for task in each.tasks))
        if not enough and order:
            chosen: list[_Running] = []
            total = Resource()
            for each in reversed(order):
                chosen.append(each)
                total.add(each.allocated)
                if all(total.get(name) >= need for name, need in lacked.items()):
                    text = f"Wait until {len(chosen)} PodGroups finish{effect}, or delete them"
                    victims = tuple(task.pod for gang in chosen for task in gang.tasks)
                    yield GangChange(kind, f"{text}: {named([gang.key for gang in chosen])}", victims=victims)
                    return

    def _request(self, pod: Pod) -> Resource:
        return request_of(self.table.template(pod), pod)

    def _within(self, short: list[_Account]) -> int:
        """Return how many pods of the gang the queues have room for."""
        found = self.minimum
        own = Resource() if self._group.spec.min_resources is None else Resource.of(self._group.spec.min_resources)
        first = self._request(self.pending[0])
        for account in short:
            for name in _short(account):
                each = max(own.get(name) / max(self.minimum, 1), first.get(name))
                over = account.needed.get(name) - account.limit.get(name)
                if each > 0:
                    found = min(found, self.minimum - int(-(-over // each)))
        return found

    def _heavier(self, outcome: SessionOutcome) -> Iterator[GangChange]:
        """Raise the weight of the queue, of which proportion computes what the queue deserves."""
        queue, total = outcome.queue, outcome.total
        account = next((each for each in outcome.accounts if each.deserved is not None), None)
        if queue is None or account is None or total is None:
            return
        listed = self._cluster.handle.lister(Queue).list()
        others = sum(each.spec.weight for each in listed if each.name not in (queue.name, ROOT))
        weight = queue.spec.weight
        for name in account.needed.names():
            need, whole = account.needed.get(name), total.get(name)
            if whole > need > 0:
                weight = max(weight, int(-(-others * need // (whole - need))) + 1)
        if weight > queue.spec.weight:
            heavier = _replace(queue, spec=_replace(queue.spec, weight=weight))
            text = f"Raise the weight of queue {queue.name} from {queue.spec.weight} to {weight}"
            yield GangChange("raise-weight", text, queues=(heavier,))


def session_gang(cluster: BatchCluster, setup: SessionSetup, group: str) -> SessionGang | None:
    """Return a gang by namespace/name; None if there is no such group, or if sessions cannot be repeated."""
    namespace, _, name = group.partition("/")
    found = cluster.handle.lister(PodGroup).get(name, namespace)
    return None if found is None or not setup.can_repeat else SessionGang(cluster, setup, found)


def group_of(pod: Pod) -> str:
    """Return namespace/name of the PodGroup of a pod; empty if it has none."""
    name = pod.annotations.get(GROUP_ANNOTATION, "")
    return f"{pod.namespace}/{name}" if name else ""


def _causes(session: Session, job: JobInfo) -> tuple[Pod | None, list[tuple[str, Rows]]]:
    """Return a pod without a feasible node, and the rows by the plugin that rejected them.

    A session looks for room first. Here the rows without room are those that all predicates accept.
    """
    task = next((each for each in job.of_status(PENDING) if each.uid in job.fit_errors), None)
    if task is None:
        return None, []
    if pre_predicate(session, task):
        return task.pod, []
    found = find_nodes(session, task, "backfill", ErrorCache(enabled=False))
    rows: dict[str, list[Rows]] = {}
    for verdict, group in found.errors.groups():
        for plugin in dict.fromkeys(status.plugin or _plugin(status.reasons) for status in verdict):
            rows.setdefault(plugin, []).append(group)
    causes = [(plugin, np.sort(np.concatenate(each))) for plugin, each in rows.items()]
    return task.pod, [*([(FIT, found.rows)] if len(found.rows) else []), *causes]


def _plugin(reasons: Iterable[str]) -> str:
    text = " ".join(reasons)
    return next((plugin for words, plugin in _REASONS if words in text), "")


def _accounts(session: Session, job: JobInfo, plugins: list[Any]) -> Iterator[_Account]:
    """Yield the accounts of a job's queue and its ancestors, with what they would have with the job."""
    chain: list[QueueAccount] = []
    proportion = False
    for plugin in plugins:
        if isinstance(plugin, Proportion) and job.queue in plugin.accounts:
            chain.append(plugin.accounts[job.queue])
            proportion = True
        elif isinstance(plugin, Capacity) and (leaf := plugin.leaf(session.queues[job.queue])) is not None:
            chain += plugin.chain(leaf)
    wanted = Resource()
    for task in job.of_status(PENDING)[: max(job.min_available - job.ready_count, 1)]:
        wanted.add(task.request)
    least = job.minimum()
    for name in least.names():
        if least.get(name) > wanted.get(name):
            wanted.add(_single(name, least.get(name) - wanted.get(name)))
    for account in chain:
        needed = wanted.clone().add(account.allocated).add(account.inqueue)
        if not job.is_pending and job.min_resources is not None:
            needed.sub(job.min_resources)  # it is counted among the admitted ones
        yield _Account(account.name, needed, account.limit, account.deserved if proportion else None)


def _single(name: str, amount: float) -> Resource:
    if name == "cpu":
        return Resource(amount, 0.0)
    return Resource(0.0, amount) if name == "memory" else Resource(0.0, 0.0, {name: amount})


def _short(account: _Account) -> list[str]:
    """Return the resources of which a queue would have more than its limit."""
    limit = account.limit
    known = limit.names()
    return [name for name in account.needed.names() if name in known and account.needed.get(name) > limit.get(name)]


def _running(session: Session, but: str) -> Iterator[_Running]:
    for job in session.jobs.values():
        if job.uid != but and not job.allocated.is_empty:
            tasks = tuple(task for task in job.tasks.values() if task.node_name and task.uid in session.table.pods)
            if tasks:
                yield _Running(job.uid, job.queue, job.allocated, tasks)


def _known_end(gang: _Running) -> str:
    """Return when the last pod of a gang ends by its activeDeadlineSeconds; empty if one has none."""
    ends = []
    for task in gang.tasks:
        seconds, start = task.pod.spec.active_deadline_seconds, task.pod.status.start_time
        if seconds is None or not start:
            return ""
        ends.append(parse_time(start) + seconds)
    return format_time(max(ends)) if ends else ""
