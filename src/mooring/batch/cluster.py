"""BatchCluster: opens sessions on the shared node table and object listers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, Queue
from mooring.batch.conf import BatchConf
from mooring.batch.hyper_nodes import HyperNodeMembers
from mooring.batch.job import JobInfo
from mooring.batch.kube_plugins import KubePlugins
from mooring.batch.node_amounts import NodeAmounts, SessionAmounts, request_of
from mooring.batch.queue import ROOT, QueueInfo
from mooring.batch.session import QUEUE_NOT_FOUND, InvalidObject, NodeUsage, Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import TaskInfo, task_status
from mooring.batch.unsupported_requests import unsupported_request
from mooring.columns.node_info import PodInfo
from mooring.framework.handle import Handle


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
    ) -> None:
        self.handle = handle
        self.kube = KubePlugins(handle, images_on_arrival=images_on_arrival, hides_unevicted=hides_unevicted)
        self.scheduler_names = frozenset(scheduler_names)
        self.default_queue = default_queue
        #: Whether a queue without a state in its status accepts jobs.
        self.unset_is_open = unset_is_open
        #: State that plugins keep across sessions.
        self.memory: dict[str, Any] = {}
        self.usage: Mapping[str, NodeUsage] = {}
        self._amounts = NodeAmounts(handle.table)
        self._hyper_nodes = HyperNodeMembers(handle.table)
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

    def session(self, conf: BatchConf) -> Session:
        """Open a session on the current state, without plugins."""
        invalid: list[InvalidObject] = []
        queues = self._queues(invalid)
        if self.unset_is_open:
            for queue in queues.values():
                queue.is_open = queue.is_open or not queue.queue.status.state
        jobs = self._jobs(queues, invalid)
        hyper_nodes = self._hyper_nodes.tree(self.handle.lister(HyperNode).list())
        tasks: dict[str, TaskInfo] = {}
        for job in jobs.values():
            for pod in (*self._members.get(job.uid), *self._finished.get(job.uid, {}).values()):
                try:
                    task = tasks[pod.uid] = self._task(pod)
                except ValueError as error:
                    invalid.append(InvalidObject(pod, str(error)))
                    continue
                job.add(task)
            job.apply_topology(hyper_nodes)
            job.held = unsupported_request(job, conf, hyper_nodes)
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
        )
        session.invalid += invalid
        return session

    def pending_members(self, group: PodGroup) -> list[Pod]:
        """Return the pods of a group that have no node."""
        return [pod for pod in self._members.get(group.key) if not pod.node_name]

    def _queues(self, invalid: list[InvalidObject]) -> dict[str, QueueInfo]:
        """Create the queues; those that cannot be parsed are added to ``invalid``."""
        found: dict[str, QueueInfo] = {}
        for queue in self.handle.lister(Queue).list():
            try:
                found[queue.name] = QueueInfo(queue)
            except ValueError as error:
                invalid.append(InvalidObject(queue, str(error)))
        return found

    def _task(self, pod: Pod, info: PodInfo | None = None) -> TaskInfo:
        """Create the task of a pod; its node is the one in the table."""
        table = self.handle.table
        task = TaskInfo(pod, request_of(table.template(pod), pod))
        info = table.pods.get(pod.uid) if info is None else info
        if info is None or info.node is None:
            return task
        uid = pod.uid
        task.status = task_status(pod, assumed=uid in table.assumed, evicting=uid in table.evicting)
        task.node_name = info.node.name
        task.node_status = task.status
        return task

    def _jobs(self, queues: dict[str, QueueInfo], invalid: list[InvalidObject]) -> dict[str, JobInfo]:
        """Create the jobs of the groups whose queue exists; the other groups are added to ``invalid``."""
        bad_queues = {each.item.name: each.message for each in invalid}
        priorities = {each.name: each for each in self.handle.lister(PriorityClass).list()}
        default = next((each.value for each in priorities.values() if each.global_default), 0)
        found: dict[str, JobInfo] = {}
        for group in self.handle.lister(PodGroup).list():
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

    def _nodes(self, tasks: dict[str, TaskInfo]) -> tuple[list[SessionNode], SessionAmounts]:
        """Create the session's nodes; tasks of pods without a job are added to ``tasks`` when they are first read."""
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

        offers = current.offers
        return [SessionNode(info, amounts, offers[row], task_of) for row, info in enumerate(table.nodes)], amounts
