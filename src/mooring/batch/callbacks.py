"""Callbacks that plugins register in a session, and the rules for combining the answers of several plugins.

Plugins are in ordered tiers. Every kind of callback has a rule for combining answers, and a flag in the configuration
that disables it for a plugin. Votes are ``PERMIT``, ``ABSTAIN`` and ``REJECT``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mooring.api.pod import Pod
from mooring.batch.conf import BatchConf
from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.sub_job import SubJob
from mooring.batch.task import PENDING, TaskInfo, precedes
from mooring.batch.unsupported_requests import NOT_SUPPORTED

if TYPE_CHECKING:
    from mooring.batch.eviction import EvictionContext

PERMIT: Final = 1
ABSTAIN: Final = 0
REJECT: Final = -1

Victims = tuple[list[TaskInfo], int]
Compare = Callable[[Any, Any], int]
#: Whether the second pod may be evicted for the first.
MayEvict = Callable[[Pod, Pod], bool]

#: Kind -> the flag that disables it for a plugin; None for kinds without one.
_FLAG: Final[dict[str, str | None]] = {
    "job_order": "JobOrder",
    "queue_order": "QueueOrder",
    "victim_queue_order": None,
    "task_order": "TaskOrder",
    "pre_predicate": "Predicate",
    "predicate": "Predicate",
    "node_order": "NodeOrder",
    "batch_node_order": "NodeOrder",
    "best_node": "BestNode",
    "preemptable": "Preemptable",
    "reclaimable": "Reclaimable",
    "unified_evictable": None,
    "may_evict": None,
    "overused": "Overused",
    "preemptive": "Preemptive",
    "allocatable": "Allocatable",
    "job_ready": "JobReady",
    "job_pipelined": "JobPipelined",
    "job_enqueueable": "JobEnqueued",
    "job_enqueued": "JobEnqueued",
    "job_starving": "JobStarving",
    "job_valid": None,
    "victim_tasks": "Victim",
    "simulation": None,
    "hyper_node_order": "HyperNodeOrder",
    "hyper_node_gradient": "HyperNodeGradient",
    "sub_job_ready": "SubJobReady",
    "sub_job_pipelined": "SubJobPipelined",
    "sub_job_order": "SubJobOrder",
}


class Invalid(NamedTuple):
    """The reason why a job cannot be scheduled at all.
    Attributes:
        reason: A word in CamelCase, for the condition of the PodGroup.
        message: The explanation for users.
    """

    reason: str
    message: str


class Callbacks:
    """The callbacks of one session; ``opening`` is the plugin that is registering callbacks."""

    def __init__(self, conf: BatchConf) -> None:
        self.conf = conf
        self.opening = ""
        #: Guards the callbacks of the opening plugin, if it is a user's.
        self.wrap: Callable[[str, Any], Any] | None = None
        #: ``may_evict`` of the plugins of the pod-by-pod engine, if it runs too.
        self.eviction_rules: Sequence[MayEvict] = ()
        self._registered: dict[str, dict[str, Any]] = {}
        self._tiers: dict[str, list[list[Any]]] = {}
        self._flat: dict[str, list[Any]] = {}
        self._named: dict[str, list[tuple[str, Any]]] = {}

    def register(self, kind: str, function: Any) -> None:
        """Register the opening plugin's function of a kind; a second one replaces the first."""
        self._registered.setdefault(kind, {})[self.opening] = self.guarded(kind, function)
        self._forget()

    def guarded(self, kind: str, function: Any) -> Any:
        """Return a function of the opening plugin, guarded if it is a user's."""
        return function if self.wrap is None else self.wrap(kind, function)

    def registered(self, plugin: str) -> list[str]:
        """Return the kinds of which a plugin has registered a callback."""
        return [kind for kind, functions in self._registered.items() if plugin in functions]

    def unregister(self, plugin: str) -> None:
        """Remove all callbacks of a plugin."""
        for functions in self._registered.values():
            functions.pop(plugin, None)
        self._forget()

    def _forget(self) -> None:
        self._tiers.clear()
        self._flat.clear()
        self._named.clear()

    def by_tier(self, kind: str) -> list[list[Any]]:
        """Return the enabled functions of a kind by tier; tiers without any are left out."""
        found = self._tiers.get(kind)
        if found is None:
            functions, flag = self._registered.get(kind, {}), _FLAG[kind]
            tiers = [
                [functions[o.name] for o in tier if o.name in functions and (flag is None or o.enabled(flag))]
                for tier in self.conf.tiers
            ]
            found = self._tiers[kind] = [tier for tier in tiers if tier]
        return found

    def all(self, kind: str) -> list[Any]:
        """Return the enabled functions of a kind in one list."""
        found = self._flat.get(kind)
        if found is None:
            found = self._flat[kind] = [function for tier in self.by_tier(kind) for function in tier]
        return found

    def named(self, kind: str) -> list[tuple[str, Any]]:
        """Return the enabled functions of a kind with the names of their plugins."""
        found = self._named.get(kind)
        if found is None:
            functions, flag = self._registered.get(kind, {}), _FLAG[kind]
            found = self._named[kind] = [
                (option.name, functions[option.name])
                for option in self.conf.options()
                if option.name in functions and (flag is None or option.enabled(flag))
            ]
        return found

    # Orders: the first plugin that does not return 0 decides

    def _compare(self, kind: str, left: Any, right: Any) -> int:
        for function in self.all(kind):
            answer: int = function(left, right)
            if answer:
                return answer
        return 0

    def compare_jobs(self, left: JobInfo, right: JobInfo) -> int:
        """Compare two jobs by the plugins: negative if the left one comes first, 0 if they are equal."""
        return self._compare("job_order", left, right)

    def job_less(self, left: JobInfo, right: JobInfo) -> bool:
        """Return whether a job comes before another; the older one if plugins do not decide."""
        answer = self._compare("job_order", left, right)
        if answer:
            return answer < 0
        return left.uid < right.uid if left.created == right.created else left.created < right.created

    def queue_less(self, left: QueueInfo, right: QueueInfo) -> bool:
        """Return whether a queue comes before another; the older one if plugins do not decide."""
        answer = self._compare("queue_order", left, right)
        if answer:
            return answer < 0
        return left.name < right.name if left.created == right.created else left.created < right.created

    def victim_queue_less(self, left: QueueInfo, right: QueueInfo, preemptor: QueueInfo) -> bool:
        """Return whether a queue loses tasks before another: by default the one that comes last."""
        for function in self.all("victim_queue_order"):
            answer: int = function(left, right, preemptor)
            if answer:
                return answer < 0
        return not self.queue_less(left, right)

    def task_less(self, left: TaskInfo, right: TaskInfo) -> bool:
        """Return whether a task comes before another."""
        answer = self._compare("task_order", left, right)
        return answer < 0 if answer else precedes(left, right)

    def sub_job_less(self, left: SubJob, right: SubJob) -> bool:
        """Return whether a part of a job comes before another."""
        answer = self._compare("sub_job_order", left, right)
        if answer:
            return answer < 0
        return (left.match_index, left.uid) < (right.match_index, right.uid)

    # Conjunctions and disjunctions

    def _all_true(self, kind: str, *arguments: Any) -> bool:
        for function in self.all(kind):
            if not function(*arguments):
                return False
        return True

    def overused(self, queue: QueueInfo) -> bool:
        """Return whether a queue exceeds its share according to any plugin."""
        return any(function(queue) for function in self.all("overused"))

    def preemptive(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether a queue may reclaim resources for some tasks."""
        return self._all_true("preemptive", queue, tasks)

    def allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """Return whether a queue may allocate what a task requests."""
        return self._all_true("allocatable", queue, task)

    def job_ready(self, job: JobInfo) -> bool:
        """Return whether a job has enough tasks to start."""
        return self._all_true("job_ready", job)

    def sub_job_ready(self, job: JobInfo, part: SubJob | None) -> bool:
        """Return whether a part of a job has enough tasks to start; without policies, whether the job has."""
        if part is None or not job.has_policies:
            return self.job_ready(job)
        return self._all_true("sub_job_ready", part)

    def job_starving(self, job: JobInfo) -> bool:
        """Return whether a job needs more: all plugins of the first tier with a callback must agree."""
        for tier in self.by_tier("job_starving"):
            return all(function(job) for function in tier)
        return False

    def job_valid(self, job: JobInfo) -> Invalid | None:
        """Return why a job cannot be scheduled at all; None if it can."""
        if job.held:
            return Invalid(NOT_SUPPORTED, job.held)
        for function in self.all("job_valid"):
            problem: Invalid | None = function(job)
            if problem is not None:
                return problem
        return None

    # Votes: a rejection decides at once, a permission at the end of its tier

    def _voted(self, kind: str, subject: Any) -> bool:
        for tier in self.by_tier(kind):
            permitted = False
            for function in tier:
                vote = function(subject)
                if vote < 0:
                    return False
                permitted = permitted or vote > 0
            if permitted:
                return True
        return True

    def job_pipelined(self, job: JobInfo) -> bool:
        """Return whether a job has enough tasks, including pipelined ones."""
        return self._voted("job_pipelined", job)

    def sub_job_pipelined(self, job: JobInfo, part: SubJob | None) -> bool:
        """Return whether a part of a job has enough tasks, including pipelined ones."""
        if part is None or not job.has_policies:
            return self.job_pipelined(job)
        return self._voted("sub_job_pipelined", part)

    def job_enqueueable(self, job: JobInfo) -> bool:
        """Return whether a job may be admitted to its queue."""
        return self._voted("job_enqueueable", job)

    def job_enqueued(self, job: JobInfo) -> None:
        """Notify plugins that a job was admitted to its queue."""
        for function in self.all("job_enqueued"):
            function(job)

    # Victims: the intersection of the answers of a tier; the first tier with a non-empty one decides

    def preemptable(self, preemptor: TaskInfo, candidates: list[TaskInfo]) -> list[TaskInfo]:
        """Return which tasks may be evicted for another task of their queue."""
        return self._victims("preemptable", preemptor, self._evictable(preemptor, candidates))

    def reclaimable(self, reclaimer: TaskInfo, candidates: list[TaskInfo]) -> list[TaskInfo]:
        """Return which tasks may be evicted for a task of another queue."""
        return self._victims("reclaimable", reclaimer, self._evictable(reclaimer, candidates))

    def unified_evictable(self, context: EvictionContext, candidates: list[TaskInfo]) -> list[TaskInfo]:
        """Return which tasks may be evicted for a whole gang."""
        return self._victims("unified_evictable", context, self._evictable(context, candidates))

    def _evictable(self, evictor: TaskInfo | EvictionContext, candidates: list[TaskInfo]) -> list[TaskInfo]:
        """Return the tasks that every ``may_evict`` allows to evict for a task, or for a pending task of a gang."""
        rules = [*self.eviction_rules, *self.all("may_evict")]
        if not rules:
            return candidates
        pod = evictor.pod if isinstance(evictor, TaskInfo) else evictor.job.of_status(PENDING)[0].pod
        return [task for task in candidates if all(may_evict(pod, task.pod) for may_evict in rules)]

    def _victims(self, kind: str, evictor: Any, candidates: list[TaskInfo]) -> list[TaskInfo]:
        victims: list[TaskInfo] | None = None
        for tier in self.by_tier(kind):
            for function in tier:
                found, vote = function(evictor, candidates)
                if vote == ABSTAIN:
                    continue
                if not found:
                    victims = None
                    break
                if not victims:  # also after an empty intersection: Volcano starts again
                    victims = found
                else:
                    names = {task.uid for task in found}
                    victims = [task for task in victims if task.uid in names]
            if victims:
                return victims
            victims = None
        return []

    def victim_tasks(self, tasks: list[TaskInfo]) -> list[TaskInfo]:
        """Return which running tasks to evict: the union of the first tier that chooses any."""
        for tier in self.by_tier("victim_tasks"):
            found = {task.uid: task for function in tier for task in function(tasks)}
            if found:
                return list(found.values())
        return []


def first_error(functions: Iterable[Any], *arguments: Any) -> str:
    """Return the first error that functions return; empty if none does."""
    for function in functions:
        error: str | None = function(*arguments)
        if error:
            return error
    return ""
