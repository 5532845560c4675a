"""Writes to the API server for one job: its PodGroup, pods, volume claims, and the objects of its plugins."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import Any, Final

import msgspec

from mooring.api.meta import parse_time
from mooring.api.policy import PriorityClass
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.volcano import PodGroup, Queue
from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.controllers import constants
from mooring.controllers.jobs.job_objects import (
    claim_document,
    claim_name,
    group_for,
    group_name,
    group_patch,
    may_start,
    missing_claim,
    pod_document,
)
from mooring.controllers.jobs.job_plugins import JobPlugins
from mooring.controllers.jobs.job_pods import JOB_PODS, JobPod
from mooring.controllers.jobs.tracked_job import TrackedJob
from mooring.controllers.reconciler import Context
from mooring.framework.job_plugin import Document, pod_name
from mooring.kube import AlreadyExists, BadRequest, KubeError, NotFound, resource_of

#: The number of concurrent writes for one job.
_CONCURRENT_WRITES: Final = 16


class JobBlockedError(Exception):
    """The job is blocked. The message names the cause; `reason` is the reason of the event."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class JobWriter:
    """Writes everything for jobs except their status."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client = context.client

    # PodGroup

    def group(self, job: VolcanoJob, tracked: TrackedJob) -> PodGroup | None:
        """Return the job's PodGroup, or None if it does not exist or the controller deleted it."""
        found = self._context.cache.get(PodGroup, f"{job.namespace}/{group_name(job)}")
        return None if found is None or found.uid in tracked.deleted else found

    async def ensure_group(self, job: VolcanoJob, tracked: TrackedJob) -> None:
        """Create or update the PodGroup."""
        classes = self._context.cache.all(PriorityClass)
        wanted = group_for(job, {name: each.value for name, each in classes.items()})
        group = self.group(job, tracked)
        if group is None:
            try:
                await self._client.create(wanted)
            except AlreadyExists:
                return
            except BadRequest as error:
                raise JobBlockedError("PodGroupRefused", f"the PodGroup was refused: {error}") from None
        elif patch := group_patch(group, wanted):
            await self._client.patch(PodGroup, group.name, patch, namespace=group.namespace)

    async def delete_group(self, job: VolcanoJob, tracked: TrackedJob) -> None:
        """Delete the PodGroup, if it exists."""
        group = self.group(job, tracked)
        if group is None:
            return
        with contextlib.suppress(NotFound):
            await self._client.delete(PodGroup, group.name, namespace=group.namespace, uid=group.uid)
        tracked.deleted.add(group.uid)

    # Other clusters

    def is_forwarded(self, job: VolcanoJob) -> bool:
        """Return whether the job's queue extends to other clusters."""
        queue = self._context.cache.get(Queue, job.spec.queue)
        return queue is not None and bool(queue.spec.extend_clusters)

    async def mark_forwarded(self, job: VolcanoJob) -> VolcanoJob:
        """Mark a job for the program that forwards it, and return the job with the mark."""
        mark = {constants.FORWARDING: "true"}
        if job.annotations.get(constants.FORWARDING) != "true":
            patch = {"metadata": {"annotations": mark}}
            await self._client.patch(VolcanoJob, job.name, patch, namespace=job.namespace)
        metadata = msgspec.structs.replace(job.metadata, annotations={**job.annotations, **mark})
        return msgspec.structs.replace(job, metadata=metadata)

    # Plugins and volumes

    def _plugins(self, job: VolcanoJob) -> JobPlugins:
        """Return the job's plugins. Raises JobPluginError."""
        return JobPlugins(job, self._context.job_plugins)

    async def prepare(self, job: VolcanoJob, tracked: TrackedJob) -> dict[str, str]:
        """Create the objects of plugins and the volume claims, and return `controlledResources`.

        Raises JobBlockedError and JobPluginError.
        """
        controlled = {f"plugin-{name}": name for name in job.spec.plugins}
        generation = max(job.metadata.generation, 1)
        if tracked.prepared != generation:
            await self._plugins(job).begin(self._client)
            for index in range(len(job.spec.volumes)):
                await self._claim(job, index)
            tracked.prepared = generation
        for index in range(len(job.spec.volumes)):
            name = claim_name(job, index)
            controlled[f"volume-pvc-{name}"] = name
        return controlled

    async def _claim(self, job: VolcanoJob, index: int) -> None:
        claim, name = job.spec.volumes[index].volume_claim, claim_name(job, index)
        resource = resource_of(PersistentVolumeClaim)
        if claim is None:
            try:
                await self._client.get(PersistentVolumeClaim, name, namespace=job.namespace)
            except NotFound:
                raise JobBlockedError("PVCError", missing_claim(name)) from None
            return
        try:
            await self._client.send("POST", resource.path(namespace=job.namespace), claim_document(job, index))
        except AlreadyExists:
            return

    async def clean_up(self, job: VolcanoJob, tracked: TrackedJob) -> None:
        """Delete the objects of plugins. Volume claims are kept, because they may contain results."""
        await self._plugins(job).end(self._client)
        tracked.prepared = 0

    # Pods

    async def sync_pods(self, job: VolcanoJob, tracked: TrackedJob) -> None:
        """Create missing pods and delete superfluous ones."""
        members = tracked.members(job)
        started = Counter(pod.task for pod in members.values() if pod.is_started)
        wanted: set[str] = set()
        missing: list[tuple[TaskSpec, int]] = []
        for task in job.spec.tasks:
            indexes = {pod_name(job, task, index): index for index in range(task.replicas)}
            wanted |= indexes.keys()
            absent = [index for name, index in indexes.items() if name not in members]
            if absent and may_start(job, task, started):
                missing += [(task, index) for index in absent]
        await self._create(job, tracked, missing)
        superfluous = [
            pod
            for name, pod in members.items()
            if not tracked.is_deleted(pod)
            and (name not in wanted or constants.OUT_OF_SYNC_ANNOTATION in pod.annotations)
        ]
        await self.delete(job, tracked, superfluous)

    async def _create(self, job: VolcanoJob, tracked: TrackedJob, missing: Iterable[tuple[TaskSpec, int]]) -> None:
        plugins = self._plugins(job)
        path = JOB_PODS.path(namespace=job.namespace)
        forwarded = self.is_forwarded(job)
        documents = await plugins.run(
            lambda: [pod_document(job, task, index, plugins, forwarded=forwarded) for task, index in missing]
        )

        async def create(document: Document) -> None:
            try:
                created: dict[str, Any] = await self._client.send("POST", path, document)
            except AlreadyExists:
                # Created earlier, but not yet delivered by the watch; or a pod of an earlier job of the same name.
                return
            pod = msgspec.convert(created, JobPod, strict=False)
            tracked.pods.setdefault(pod.name, pod)
            self._observe_creation(job, pod)

        errors = await _all(create(each) for each in documents)
        if errors:
            self._context.record_event(job, "FailedCreate", f"Error creating pods: {_joined(errors)}", type="Warning")
            raise errors[0]

    def _observe_creation(self, job: VolcanoJob, pod: JobPod) -> None:
        if job.metadata.creation_timestamp and pod.metadata.creation_timestamp:
            then, now = (parse_time(each.metadata.creation_timestamp or "") for each in (job, pod))
            self._context.metrics.observe_pod_creation(now - then)

    async def delete(self, job: VolcanoJob, tracked: TrackedJob, pods: Iterable[JobPod], *, mark: bool = False) -> None:
        """Delete pods. ``mark`` annotates them first, so that a restarted controller ignores their changes."""

        async def delete(pod: JobPod) -> None:
            try:
                if mark:
                    patch = {"metadata": {"uid": pod.uid, "annotations": {constants.OUT_OF_SYNC_ANNOTATION: "true"}}}
                    await self._client.patch(JOB_PODS, pod.name, patch, namespace=pod.namespace)
                await self._client.delete(JOB_PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
            except NotFound:
                pass
            tracked.deleted.add(pod.uid)

        errors = await _all(delete(pod) for pod in pods)
        if errors:
            self._context.record_event(job, "FailedDelete", f"Error deleting pods: {_joined(errors)}", type="Warning")
            raise errors[0]


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> list[KubeError]:
    """Run all calls with limited concurrency and return their errors."""
    slots = asyncio.Semaphore(_CONCURRENT_WRITES)
    errors: list[KubeError] = []

    async def one(call: Coroutine[Any, Any, None]) -> None:
        async with slots:
            try:
                await call
            except KubeError as error:
                errors.append(error)

    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(one(call))
    return errors


def _joined(errors: Iterable[KubeError]) -> str:
    return "; ".join(dict.fromkeys(str(each) for each in errors))
