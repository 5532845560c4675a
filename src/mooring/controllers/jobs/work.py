"""What is done to the cluster for one job: its group, its pods, its claims, and what its plugins need."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.policy import PriorityClass
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.volcano import PodGroup
from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.controllers import names
from mooring.controllers.jobs.documents import claim_name, group_name, pod_document
from mooring.controllers.jobs.group import changes, group_for
from mooring.controllers.jobs.job_state import Book
from mooring.controllers.jobs.members import Member
from mooring.controllers.jobs.plugins import PLUGINS, JobPlugin, owner_of, pod_name
from mooring.controllers.reconciler import Tools
from mooring.kube import AlreadyExists, KubeError, NotFound, resource_of
from mooring.kube.resources import Resource

#: Pods that are made or deleted at a time, for one job.
_AT_ONCE: Final = 16
_PODS: Final = Resource(Member, "", "v1", "Pod", "pods", True)


class HoldError(Exception):
    """The job has to wait for something; the text says for what, `reason` is the event's."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Work:
    """All that is written for jobs but for their status."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._client = tools.client

    # The group

    def group(self, job: VolcanoJob, book: Book) -> PodGroup | None:
        """The job's group, unless we deleted it."""
        found = self._tools.view.get(PodGroup, f"{job.namespace}/{group_name(job)}")
        return None if found is None or found.uid in book.going else found

    async def ensure_group(self, job: VolcanoJob, book: Book) -> None:
        """Make the group, or bring it up to date."""
        classes = self._tools.view.all(PriorityClass)
        wanted = group_for(job, {name: each.value for name, each in classes.items()})
        group = self.group(job, book)
        if group is None:
            try:
                await self._client.create(wanted)
            except AlreadyExists:
                return
        elif patch := changes(group, wanted):
            await self._client.patch(PodGroup, group.name, patch, namespace=group.namespace)

    async def delete_group(self, job: VolcanoJob, book: Book) -> None:
        """Delete the group, if there is one."""
        group = self.group(job, book)
        if group is None:
            return
        with contextlib.suppress(NotFound):
            await self._client.delete(PodGroup, group.name, namespace=group.namespace, uid=group.uid)
        book.going.add(group.uid)

    # Plugins and volumes

    def plugins(self, job: VolcanoJob) -> list[JobPlugin]:
        """The job's plugins. Raises PluginError."""
        return [PLUGINS[name](arguments) for name, arguments in job.spec.plugins.items()]

    async def prepare(self, job: VolcanoJob, book: Book) -> dict[str, str]:
        """Make what the pods need beside themselves; the answer is what was made. Raises HoldError, PluginError."""
        controlled = {f"plugin-{name}": name for name in job.spec.plugins}
        generation = max(job.metadata.generation, 1)
        if book.prepared != generation:
            for plugin in self.plugins(job):
                await plugin.begin(job, self._client)
            for index in range(len(job.spec.volumes)):
                await self._claim(job, index)
            book.prepared = generation
        for index in range(len(job.spec.volumes)):
            name = claim_name(job, index)
            controlled[f"volume-pvc-{name}"] = name
        return controlled

    async def _claim(self, job: VolcanoJob, index: int) -> None:
        claim, name = job.spec.volumes[index].volume_claim, claim_name(job, index)
        place = resource_of(PersistentVolumeClaim)
        if claim is None:
            try:
                await self._client.get(PersistentVolumeClaim, name, namespace=job.namespace)
            except NotFound:
                text = f"pvc {name} is not found, the job will be in the Pending state until the PVC is created"
                raise HoldError("PVCError", text) from None
            return
        metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [owner_of(job)]}
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim}
        try:
            await self._client.send("POST", place.path(namespace=job.namespace), document)
        except AlreadyExists:
            return

    async def clean_up(self, job: VolcanoJob, book: Book) -> None:
        """Remove what the plugins made: the pods are being stopped. Claims stay: there may be results in them."""
        for plugin in self.plugins(job):
            await plugin.end(job, self._client)
        book.prepared = 0

    # Pods

    async def fill_up(self, job: VolcanoJob, book: Book) -> None:
        """Make the pods that are missing and delete those that are too many."""
        members = book.members(job)
        wanted: set[str] = set()
        missing: list[tuple[TaskSpec, int]] = []
        for task in job.spec.tasks:
            places = {pod_name(job, task, index): index for index in range(task.replicas)}
            wanted |= places.keys()
            absent = [index for name, index in places.items() if name not in members]
            if absent and self._may_start(job, task, members):
                missing += [(task, index) for index in absent]
        await self._create(job, book, missing)
        gone = [
            pod
            for name, pod in members.items()
            if not book.is_going(pod) and (name not in wanted or names.OUT_OF_SYNC in pod.annotations)
        ]
        await self.delete(job, book, gone)

    def _may_start(self, job: VolcanoJob, task: TaskSpec, members: Mapping[str, Member]) -> bool:
        """Whether the tasks that a task depends on run."""
        needed = task.depends_on
        if needed is None:
            return True
        started = [self._has_started(job, name, members) for name in needed.name]
        return any(started) if needed.iteration == "any" and len(started) > 1 else all(started)

    def _has_started(self, job: VolcanoJob, name: str, members: Mapping[str, Member]) -> bool:
        task = next((each for each in job.spec.tasks if each.name == name), None)
        if task is None:
            return True
        count = sum(pod.is_started for pod in members.values() if pod.task == name)
        return count >= (task.min_available or 0)

    async def _create(self, job: VolcanoJob, book: Book, missing: Iterable[tuple[TaskSpec, int]]) -> None:
        plugins = self.plugins(job)
        path = _PODS.path(namespace=job.namespace)

        async def create(task: TaskSpec, index: int) -> None:
            document = pod_document(job, task, index, plugins)
            try:
                made: dict[str, Any] = await self._client.send("POST", path, document)
            except AlreadyExists:
                # Ours, which the watch has not told of yet; or an older job's, whose end will be told.
                return
            book.pods.setdefault(made["metadata"]["name"], msgspec.convert(made, Member, strict=False))

        problems = await _all(create(task, index) for task, index in missing)
        if problems:
            self._tools.tell(job, "FailedCreate", f"Error creating pods: {_listed(problems)}", type="Warning")
            raise problems[0]

    async def delete(self, job: VolcanoJob, book: Book, pods: Iterable[Member], *, mark: bool = False) -> None:
        """Delete pods; ``mark`` lets even a later process see that it was us."""

        async def delete(pod: Member) -> None:
            try:
                if mark:
                    patch = {"metadata": {"uid": pod.uid, "annotations": {names.OUT_OF_SYNC: "true"}}}
                    await self._client.patch(_PODS, pod.name, patch, namespace=pod.namespace)
                await self._client.delete(_PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
            except NotFound:
                pass  # as good
            book.going.add(pod.uid)

        problems = await _all(delete(pod) for pod in pods)
        if problems:
            self._tools.tell(job, "FailedDelete", f"Error deleting pods: {_listed(problems)}", type="Warning")
            raise problems[0]


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> list[KubeError]:
    """Do all of these, some at a time; what went wrong."""
    slots = asyncio.Semaphore(_AT_ONCE)
    problems: list[KubeError] = []

    async def one(call: Coroutine[Any, Any, None]) -> None:
        async with slots:
            try:
                await call
            except KubeError as error:
                problems.append(error)

    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(one(call))
    return problems


def _listed(problems: Iterable[KubeError]) -> str:
    return "; ".join(dict.fromkeys(str(each) for each in problems))
