"""BatchCluster: opens sessions on the shared node table and object listers."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import KubeObject
from mooring.api.numa_topology import Numatopology
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, Queue
from mooring.batch.conf import BatchConf
from mooring.batch.device_config import DEFAULT
from mooring.batch.device_kinds import enabled_devices
from mooring.batch.hyper_nodes import HyperNodeMembers
from mooring.batch.job import JobInfo
from mooring.batch.kube_plugins import KubePlugins
from mooring.batch.node_amounts import NodeAmounts, SessionAmounts, request_of
from mooring.batch.numa_records import NumaRecords
from mooring.batch.queue import ROOT, QueueInfo
from mooring.batch.session import QUEUE_NOT_FOUND, InvalidObject, NodeUsage, Session
from mooring.batch.session_nodes import SessionNodeList
from mooring.batch.task import TaskInfo, task_status
from mooring.batch.unsupported_requests import unsupported_request
from mooring.columns.node_info import PodInfo
from mooring.framework.handle import Handle


class Replacements(NamedTuple):
    """Objects that a session reads instead of those of the cluster. Such a session must not be carried out."""

    #: By namespace/name.
    groups: Mapping[str, PodGroup] = {}
    #: By name; queues that do not exist are added.
    queues: Mapping[str, Queue] = {}
    #: By uid; pods that do not exist are added to their group.
    pods: Mapping[str, Pod] = {}
    #: The uids of pods that do not exist.
    gone: Collection[str] = ()


_NONE: Final = Replacements()


class BatchCluster:
    """The state that sessions read: nodes and placed or assumed pods from the table, other objects from listers.

    The owners of the table and the listers keep them current. Only finished pods are stored here: a gang counts them,
    but the cache drops them, as kube-scheduler does.
    """

    def __init__(
        self,
        handle: Handle,
        *,
        scheduler_names: Sequence[str] = ("volcano",),
        default_queue: str = "default",
        images_on_arrival: bool = False,
        hides_unevicted: bool = False,
        unset_is_open: bool = False,
        node_selector: Collection[tuple[str, str]] = (),
        removes_queue_gates: bool = False,
    ) -> None:
        """``node_selector`` has labels; sessions consider the nodes that have one of them, or all if it is empty.

        With ``removes_queue_gates``, Volcano's own scheduling gate is removed from pods when their queue has room.
        """
        self.handle = handle
        handle.table.marks_labels = True
        self.kube = KubePlugins(handle, images_on_arrival=images_on_arrival, hides_unevicted=hides_unevicted)
        self.scheduler_names = frozenset(scheduler_names)
        self.default_queue = default_queue
        #: Whether a queue without a state in its status accepts jobs.
        self.unset_is_open = unset_is_open
        self.removes_queue_gates = removes_queue_gates
        #: State that plugins keep across sessions.
        self.memory: dict[str, Any] = {}
        self.usage: Mapping[str, NodeUsage] = {}
        #: The kinds of shared devices, by the ConfigMap of their device plugins.
        self.device_config = DEFAULT
        self._amounts = NodeAmounts(handle.table, node_selector)
        self._hyper_nodes = HyperNodeMembers(handle.table, node_selector)
        self._numa = NumaRecords(handle.lister(Numatopology))
        #: Pods by the job that they belong to, and finished pods by job and uid.
        self._members = handle.lister(Pod).index(self._job_of)
        self._finished: dict[str, dict[str, Pod]] = {}

    def put(self, item: KubeObject) -> None:
        """Store a finished pod; the cache must apply the object too."""
        if isinstance(item, Pod) and item.is_finished and (job := self._job_of(item)) is not None:
            self._finished.setdefault(job, {})[item.uid] = item

    def remove(self, item: KubeObject) -> None:
        """Remove a finished pod that was deleted."""
        job = self._job_of(item) if isinstance(item, Pod) else None
        if isinstance(item, Pod) and job in self._finished:
            finished = self._finished[job]
            finished.pop(item.uid, None)
            if not finished:
                del self._finished[job]

    def _job_of(self, pod: Pod) -> str | None:
        group = pod.annotations.get(GROUP_ANNOTATION)
        if not group or not (pod.node_name or pod.scheduler_name in self.scheduler_names):
            return None
        return f"{pod.namespace}/{group}"

    # Sessions

    def session(self, conf: BatchConf, replaced: Replacements = _NONE) -> Session:
        """Open a session on the current state, without plugins."""
        invalid: list[InvalidObject] = []
        queues = self._queues(invalid, replaced.queues)
        if self.unset_is_open:
            for queue in queues.values():
                queue.is_open = queue.is_open or not queue.queue.status.state
        jobs = self._jobs(queues, invalid, replaced.groups)
        hyper_nodes = self._hyper_nodes.tree(self.handle.lister(HyperNode).list())
        tasks: dict[str, TaskInfo] = {}
        devices = enabled_devices(conf, self.device_config)
        for job in jobs.values():
            if devices.uncounted and job.min_resources is not None:
                job.min_resources = job.min_resources.without(devices.uncounted)
            members: Iterable[Pod] = (*self._members.get(job.uid), *self._finished.get(job.uid, {}).values())
            if replaced is not _NONE:
                members = self._replaced(job.uid, members, replaced)
            for pod in members:
                try:
                    task = tasks[pod.uid] = self._task(pod, uncounted=devices.uncounted)
                except ValueError as error:
                    invalid.append(InvalidObject(pod, str(error)))
                    continue
                job.add(task)
            job.apply_topology(hyper_nodes)
            job.held = unsupported_request(job, conf, hyper_nodes, devices)
        nodes, amounts = self._nodes(tasks)
        self.kube.unseen.open()
        session = Session(
            conf,
            uid=str(uuid.uuid4()),
            jobs=jobs,
            nodes=nodes,
            queues=queues,
            amounts=amounts,
            kube=self.kube,
            memory=self.memory,
            usage=self.usage,
            hyper_nodes=hyper_nodes,
            numa=self._numa,
            total=self._amounts.total(),
        )
        session.invalid += invalid
        session.device_config = self.device_config
        session.removes_queue_gates = self.removes_queue_gates
        return session

    def _replaced(self, job: str, members: Iterable[Pod], replaced: Replacements) -> Iterator[Pod]:
        """Yield the pods of a job with the replacements."""
        known = {pod.uid: replaced.pods.get(pod.uid, pod) for pod in members if pod.uid not in replaced.gone}
        yield from known.values()
        yield from (pod for uid, pod in replaced.pods.items() if uid not in known and self._job_of(pod) == job)

    def pending_members(self, group: PodGroup) -> list[Pod]:
        """Return the pods of a group that have no node."""
        return [pod for pod in self._members.get(group.key) if not pod.node_name]

    def members(self, group: str) -> list[Pod]:
        """Return the pods of a group (``namespace/name``) that have not finished."""
        return list(self._members.get(group))

    def _queues(self, invalid: list[InvalidObject], replaced: Mapping[str, Queue]) -> dict[str, QueueInfo]:
        """Create the queues; those that cannot be parsed are added to ``invalid``."""
        found: dict[str, QueueInfo] = {}
        queues: Iterable[Queue] = self.handle.lister(Queue).list()
        if replaced:
            queues = {**{queue.name: queue for queue in queues}, **replaced}.values()
        for queue in queues:
            try:
                found[queue.name] = QueueInfo(queue)
            except ValueError as error:
                invalid.append(InvalidObject(queue, str(error)))
        return found

    def _task(self, pod: Pod, info: PodInfo | None = None, uncounted: frozenset[str] = frozenset()) -> TaskInfo:
        """Create the task of a pod; its node is the one in the table. Resources that are not counted are left out."""
        table = self.handle.table
        request = request_of(table.template(pod), pod)
        if uncounted:
            request = request.without(uncounted)
        task = TaskInfo(pod, request)
        info = table.pods.get(pod.uid) if info is None else info
        if info is None or info.node is None:
            return task
        uid = pod.uid
        task.status = task_status(pod, assumed=uid in table.assumed, evicting=uid in table.evicting)
        task.node_name = info.node.name
        task.node_status = task.status
        return task

    def _jobs(
        self, queues: dict[str, QueueInfo], invalid: list[InvalidObject], replaced: Mapping[str, PodGroup]
    ) -> dict[str, JobInfo]:
        """Create the jobs of the groups whose queue exists; the other groups are added to ``invalid``."""
        bad_queues = {each.item.name: each.message for each in invalid}
        priorities = {each.name: each for each in self.handle.lister(PriorityClass).list()}
        default = next((each.value for each in priorities.values() if each.global_default), 0)
        found: dict[str, JobInfo] = {}
        groups: Iterable[PodGroup] = self.handle.lister(PodGroup).list()
        if replaced:
            groups = [replaced.get(group.key, group) for group in groups]
        for group in groups:
            queue = group.spec.queue or self.default_queue
            if queue in queues:
                known = priorities.get(group.spec.priority_class_name)
                try:
                    job = JobInfo(group, queue=queue, priority=default if known is None else known.value)
                except ValueError as error:
                    invalid.append(InvalidObject(group, str(error)))
                    continue
                found[job.uid] = job
            elif queue in bad_queues:
                invalid.append(InvalidObject(group, f'queue "{queue}" is invalid: {bad_queues[queue]}'))
            elif queue not in (self.default_queue, ROOT):  # the scheduler creates these two
                invalid.append(InvalidObject(group, f'queue "{queue}" does not exist', QUEUE_NOT_FOUND))
        return found

    def _nodes(self, tasks: dict[str, TaskInfo]) -> tuple[SessionNodeList, SessionAmounts]:
        """Return the session's nodes; tasks of pods without a job are added to ``tasks`` when they are first read."""
        current, table = self._amounts, self.handle.table
        current.refresh()
        current.add_slots(sorted({name for task in tasks.values() for name in task.request.scalars or ()}))
        amounts = SessionAmounts(current, len(table))

        def task_of(info: PodInfo) -> TaskInfo:
            uid = info.pod.uid
            task = tasks.get(uid)
            if task is None:
                task = tasks[uid] = self._task(info.pod, info)
            return task

        return SessionNodeList(table, amounts, current.offers, task_of), amounts
