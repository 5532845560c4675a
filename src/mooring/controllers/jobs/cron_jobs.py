"""The controller of Volcano's CronJobs: creates jobs by schedule, and deletes finished ones."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.api.meta import ObjectReference, format_time, parse_time
from mooring.api.volcano_jobs import JOB_VERSION, VolcanoCronJob, VolcanoCronJobStatus, VolcanoJob
from mooring.apiserver.cron_schedule import Interval, Schedule, parse_schedule
from mooring.controllers import constants
from mooring.controllers.reconciler import Reconciler, Selection
from mooring.kube import AlreadyExists, Change, NotFound, reference, resource_of
from mooring.kube.object_store import is_newer

_SCHEDULED: Final = "volcano.sh/cronjob-scheduled-timestamp"
_FORBID, _REPLACE = "Forbid", "Replace"
_FINISHED: Final = frozenset({constants.COMPLETED, constants.FAILED, constants.TERMINATED})
#: A job is created this much later than its time, because clocks differ.
_DELAY_SECONDS: Final = 0.1
_MANY_MISSED: Final = 100


class CronJobReconciler(Reconciler):
    """Creates the jobs of CronJobs."""

    name = "cronjob"

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        #: The jobs of each CronJob by name.
        self._jobs: dict[str, dict[str, VolcanoJob]] = {}
        #: The CronJobs as last written, until the watch delivers them.
        self._written: dict[str, VolcanoCronJob] = {}

    def selections(self) -> Iterable[Selection]:
        """Watch CronJobs and jobs."""
        return (Selection.of(VolcanoCronJob), Selection.of(VolcanoJob))

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the changed CronJob, or the owner of a changed job."""
        found = change.object
        if isinstance(found, VolcanoCronJob):
            return (found.key,)
        owner = next((each for each in found.metadata.owner_references if each.controller), None)
        if not isinstance(found, VolcanoJob) or owner is None or (owner.kind, owner.api_version) != _OWNER:
            return ()
        key = f"{found.namespace}/{owner.name}"
        jobs = self._jobs.setdefault(key, {})
        if change.new is not None:
            jobs[found.name] = change.new
        else:
            jobs.pop(found.name, None)
        return (key,)

    async def reconcile(self, key: str) -> float | None:
        """Update the status, delete finished jobs, and create the job that is due."""
        cron = self.cache.get(VolcanoCronJob, key)
        if cron is None:
            self._written.pop(key, None)
            if not self._jobs.get(key):
                self._jobs.pop(key, None)
            return None
        if cron.metadata.deletion_timestamp is not None:
            return None
        written = self._written.get(key)
        if written is not None and is_newer(written.metadata.resource_version, cron.metadata.resource_version):
            cron = msgspec.structs.replace(cron, status=written.status)
        jobs = [
            job
            for job in self._jobs.get(key, {}).values()
            if any(owner.uid == cron.uid for owner in job.metadata.owner_references)
        ]
        status = await self._finished(cron, jobs)
        status, delay = await self._start(cron, status)
        if status != cron.status:
            await self._write(cron, status)
        return delay

    async def _finished(self, cron: VolcanoCronJob, jobs: list[VolcanoJob]) -> VolcanoCronJobStatus:
        """Remove finished and missing jobs from the active ones, and delete old jobs."""
        status, by_uid = cron.status, {job.uid: job for job in jobs}
        active, last = [], status.last_successful_time
        for each in status.active:
            job = by_uid.get(each.uid)
            if job is None and self.cache.get(VolcanoJob, f"{cron.namespace}/{each.name}") is None:
                if each.name not in self._jobs.get(cron.key, {}) and not await self._exists(each):
                    text = f'Active job "{each.name}" no longer exists (UID: {each.uid})'
                    self.context.record_event(cron, "StaleReference", text, type="Warning")
                    continue
            elif job is not None and job.status.state.phase in _FINISHED:
                text = f"Saw completed job: {job.name} in active, remove"
                self.context.record_event(cron, "SawCompletedJob", text, type="Normal")
                continue
            active.append(each)
        for phase, limit in (
            (constants.COMPLETED, cron.spec.successful_jobs_history_limit),
            (constants.FAILED, cron.spec.failed_jobs_history_limit),
        ):
            done = sorted((job for job in jobs if job.status.state.phase == phase), key=_by_creation)
            if phase == constants.COMPLETED:
                times = [last, *(job.status.state.last_transition_time for job in done)]
                last = max((time for time in times if time), default=None)
            if limit is not None:
                for job in done[: max(len(done) - limit, 0)]:
                    await self._delete(cron, job.name)
        return VolcanoCronJobStatus(
            active=tuple(active), last_schedule_time=status.last_schedule_time, last_successful_time=last
        )

    async def _exists(self, item: ObjectReference) -> bool:
        """Return whether a job exists that the watch may not have delivered yet."""
        try:
            found = await self.context.client.get(VolcanoJob, item.name, namespace=item.namespace)
        except NotFound:
            return False
        return found.uid == item.uid

    async def _start(
        self, cron: VolcanoCronJob, status: VolcanoCronJobStatus
    ) -> tuple[VolcanoCronJobStatus, float | None]:
        """Create the job that is due. Return the new status, and the seconds until the next job."""
        if cron.spec.suspend:
            return status, None
        try:
            schedule = parse_schedule(cron.spec.schedule, cron.spec.time_zone or "")
        except ValueError as error:
            reason = "InvalidTimeZone" if "time zone" in str(error) else "UnParseableCronJobSchedule"
            text = f"unparseable schedule for cronjob: {cron.spec.schedule}: {error}"
            self.context.record_event(cron, reason, text, type="Warning")
            return status, None
        now = self.context.clock()
        earliest = _earliest(cron, status, now)
        after = schedule.after(now, earliest) + _DELAY_SECONDS - now
        delay = None if math.isinf(after) else after
        due = self._due(cron, schedule, earliest, now)
        if due is None or _job_name(cron, due) in {each.name for each in status.active}:
            return status, delay
        if status.active and cron.spec.concurrency_policy == _FORBID:
            text = "Skipping job creation because another job is already running"
            self.context.record_event(cron, "ForbidConcurrent", text, type="Warning")
            return status, delay
        if status.active and cron.spec.concurrency_policy == _REPLACE:
            text = "Replacing active job for CronJob"
            self.context.record_event(cron, "ReplaceConcurrent", text, type="Warning")
            for each in status.active:
                await self._delete(cron, each.name)
            status = msgspec.structs.replace(status, active=())
        job = await self._create(cron, due)
        active = status.active if job is None else (*status.active, reference(job))
        return msgspec.structs.replace(status, active=active, last_schedule_time=format_time(due)), delay

    def _due(self, cron: VolcanoCronJob, schedule: Schedule | Interval, earliest: float, now: float) -> float | None:
        """Return the last time at which a job should have been created, if none was."""
        first, last = schedule.after(earliest), schedule.latest(now, earliest)
        if first > now or last <= earliest:
            return None
        second = schedule.after(first)
        if second <= now and (now - first) / (second - first) + 1 > _MANY_MISSED:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.context.record_event(cron, "TooManyMissedTimes", text, type="Warning")
        return last

    async def _create(self, cron: VolcanoCronJob, due: float) -> VolcanoJob | None:
        """Create a job; None if a job of this name exists that is not to be counted as active."""
        template, name = cron.spec.job_template, _job_name(cron, due)
        given = template.get("metadata") or {}
        schedule = parse_schedule(cron.spec.schedule, cron.spec.time_zone or "")
        metadata = {
            "name": name,
            "namespace": cron.namespace,
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), _SCHEDULED: schedule.local_time(due)},
            "ownerReferences": [{**_owner(cron), "controller": True, "blockOwnerDeletion": True}],
        }
        document = {"apiVersion": JOB_VERSION, "kind": "Job", "metadata": metadata, "spec": template.get("spec") or {}}
        path = resource_of(VolcanoJob).path(namespace=cron.namespace)
        try:
            made = msgspec.convert(await self.context.client.send("POST", path, document), VolcanoJob, strict=False)
        except AlreadyExists:
            found = await self.context.client.get(VolcanoJob, name, namespace=cron.namespace)
            if all(owner.uid != cron.uid for owner in found.metadata.owner_references):
                text = f"Job {name} exists but is not owned by this CronJob"
                self.context.record_event(cron, "ForeignJob", text, type="Warning")
                return None
            return None if found.status.state.phase in _FINISHED else found
        text = f"Created job {name} for CronJob {cron.key}"
        self.context.record_event(cron, "SuccessfulCreate", text, type="Normal")
        return made

    async def _delete(self, cron: VolcanoCronJob, name: str) -> None:
        path = resource_of(VolcanoJob).path(namespace=cron.namespace, name=name)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        with contextlib.suppress(NotFound):
            await self.context.client.send("DELETE", path, options)
            self.context.record_event(cron, "SuccessfulDelete", f'Deleted job "{name}"', type="Normal")
        self._jobs.get(cron.key, {}).pop(name, None)

    async def _write(self, cron: VolcanoCronJob, status: VolcanoCronJobStatus) -> None:
        new = {"active": [], "lastScheduleTime": None, "lastSuccessfulTime": None, **msgspec.to_builtins(status)}
        patch = {"metadata": {"uid": cron.uid}, "status": new}
        with contextlib.suppress(NotFound):
            self._written[cron.key] = await self.context.client.patch(
                VolcanoCronJob, cron.name, patch, namespace=cron.namespace, subresource="status"
            )


_OWNER: Final = ("CronJob", JOB_VERSION)


def _earliest(cron: VolcanoCronJob, status: VolcanoCronJobStatus, now: float) -> float:
    """Return the time after which jobs are due: of the last job, or the creation, or as long ago as the deadline."""
    begin = status.last_schedule_time or cron.metadata.creation_timestamp
    earliest = parse_time(begin) if begin else now
    if cron.spec.starting_deadline_seconds is not None:
        earliest = max(earliest, now - cron.spec.starting_deadline_seconds)
    return earliest


def _owner(cron: VolcanoCronJob) -> dict[str, str]:
    return {"apiVersion": JOB_VERSION, "kind": "CronJob", "name": cron.name, "uid": cron.uid}


def _job_name(cron: VolcanoCronJob, due: float) -> str:
    return f"{cron.name}-{int(due) // 60}"


def _by_creation(job: VolcanoJob) -> tuple[str, str]:
    return job.metadata.creation_timestamp or "", job.name
