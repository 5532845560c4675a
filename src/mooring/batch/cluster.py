"""BatchCluster: what batch sessions know of a cluster, fed object by object; it makes the sessions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.volcano import PodGroup, Queue
from mooring.batch.conf import BatchConf
from mooring.batch.job import JobInfo
from mooring.batch.kube_plugins import KubePlugins
from mooring.batch.node import Ledger, NodeInfo, node_allocatable
from mooring.batch.queue import QueueInfo
from mooring.batch.requests import pod_request
from mooring.batch.resource import Resource
from mooring.batch.session import NodeUsage, Session
from mooring.batch.task import BINDING, COMPLETED, EVICTABLE, RELEASING, TaskInfo
from mooring.framework.handle import Handle

_REQUEST = "batch.request"


class BatchCluster:
    """Pods, nodes, groups and queues. Nodes and placed pods are in the handle's table, which others may share."""

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
        #: Whether a queue whose state nobody has set yet takes jobs.
        self.unset_is_open = unset_is_open
        #: What plugins keep from session to session.
        self.memory: dict[str, Any] = {}
        self.usage: Mapping[str, NodeUsage] = {}
        #: Pods of ours, and pods of others that are on a node, by uid.
        self.pods: dict[str, Pod] = {}
        #: Pods handed to the binder -> their node; and pods that are being evicted. Both until the watch tells.
        self.binding: dict[str, str] = {}
        self.evicting: set[str] = set()
        self._offers: dict[str, tuple[Node, Resource]] = {}

    # What is there

    def put(self, item: KubeObject) -> None:
        """An object appeared or changed; pods and nodes must go to the table by themselves."""
        if isinstance(item, Pod):
            if item.node_name or item.is_finished:
                self.binding.pop(item.uid, None)
            if item.node_name or item.scheduler_name in self.scheduler_names:
                self.pods[item.uid] = item
            else:
                self.pods.pop(item.uid, None)

    def remove(self, item: KubeObject) -> None:
        """An object is gone."""
        if isinstance(item, Node):
            self._offers.pop(item.name, None)
        if isinstance(item, Pod):
            self.pods.pop(item.uid, None)
            self.binding.pop(item.uid, None)
            self.evicting.discard(item.uid)

    # Sessions

    def session(self, conf: BatchConf) -> Session:
        """A session over everything as it is now, with no plugin in it yet."""
        queues = {queue.name: QueueInfo(queue) for queue in self.handle.lister(Queue).list()}
        if self.unset_is_open:
            for queue in queues.values():
                queue.is_open = queue.is_open or not queue.queue.status.state
        jobs = self._jobs(queues)
        tasks = [self._task(pod) for pod in self.pods.values()]
        nodes, ledger = self._nodes(tasks)
        by_name = {node.name: node for node in nodes}
        for task in tasks:
            node = by_name.get(task.node_name)
            if node is not None and task.status not in COMPLETED:
                node.add(task)
            job = jobs.get(task.job)
            if job is not None:
                job.add(task)
        self.kube.unseen.open()
        return Session(
            conf,
            uid=str(uuid.uuid4()),
            jobs=jobs,
            nodes=nodes,
            queues=queues,
            ledger=ledger,
            kube=self.kube,
            memory=self.memory,
            usage=self.usage,
        )

    def _task(self, pod: Pod) -> TaskInfo:
        task = TaskInfo(pod, self._request(pod))
        node_name = self.binding.get(pod.uid)
        if node_name is not None:
            task.status, task.node_name = BINDING, node_name
        elif pod.uid in self.evicting and task.status in EVICTABLE:
            task.status = RELEASING
        return task

    def _jobs(self, queues: dict[str, QueueInfo]) -> dict[str, JobInfo]:
        """The groups whose queue exists."""
        priorities = {each.name: each for each in self.handle.lister(PriorityClass).list()}
        default = next((each.value for each in priorities.values() if each.global_default), 0)
        found: dict[str, JobInfo] = {}
        for group in self.handle.lister(PodGroup).list():
            queue = group.spec.queue or self.default_queue
            if queue in queues:
                known = priorities.get(group.spec.priority_class_name)
                job = JobInfo(group, queue=queue, priority=default if known is None else known.value)
                found[job.uid] = job
        return found

    def _request(self, pod: Pod) -> Resource:
        template = self.handle.template(pod)
        return template.kept(_REQUEST, lambda: pod_request(pod))

    def _offer(self, node: Node) -> Resource:
        """What a node offers, read once for each version of the node."""
        known = self._offers.get(node.name)
        if known is None or known[0] is not node:
            known = self._offers[node.name] = (node, node_allocatable(node))
        return known[1]

    def _nodes(self, tasks: Sequence[TaskInfo]) -> tuple[list[NodeInfo], Ledger]:
        objects = [info.node for info in self.handle.table.nodes]
        offered = [self._offer(node) for node in objects]
        named = {name for task in tasks for name in task.request.scalars or ()}
        ledger = Ledger(offered, sorted(named))
        rows = enumerate(zip(objects, offered, strict=True))
        return [NodeInfo(node, row, ledger, allocatable) for row, (node, allocatable) in rows], ledger
