"""The job controller (batch.volcano.sh): changes of pods become actions by policy, and actions become writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from mooring.api.policy import PriorityClass
from mooring.api.volcano import PodGroup, Queue
from mooring.api.volcano_jobs import JOB_GROUP, Command, VolcanoJob, VolcanoJobStatus
from mooring.batch.queue import ROOT
from mooring.config.durations import SECOND, format_duration
from mooring.controllers import constants
from mooring.controllers.commands import consume_command, pending_commands
from mooring.controllers.constants import JOB_NAME, PENDING
from mooring.controllers.jobs.job_admission import (
    plugin_warnings,
    template_errors,
    validation_errors,
    with_defaults,
)
from mooring.controllers.jobs.job_pods import JOB_PODS, JobPod, request_for
from mooring.controllers.jobs.job_status import JobProgress, next_status, patch_for
from mooring.controllers.jobs.job_writer import JobBlockedError, JobWriter
from mooring.controllers.jobs.policies import Delayed, Request, cancels, decide, supersedes
from mooring.controllers.jobs.state_machine import FINISHED_PODS, Step, step
from mooring.controllers.jobs.tracked_job import TrackedJob, with_status
from mooring.controllers.reconciler import Context, Reconciler, Selection
from mooring.framework.job_plugin import JobPluginError
from mooring.kube import Change, NotFound
from mooring.unexpected_errors import shortened

_SYNC_REQUEST: Final = Request()
#: The reasons in the state of jobs that are not run.
_INVALID: Final = "InvalidJob"
_QUEUE_NOT_FOUND: Final = "QueueNotFound"
_IGNORED: Final = "UnknownArgument"
#: The maximum number of phase changes in one reconciliation.
_MAX_STEPS: Final = 8
#: The retry interval of a blocked job.
_BLOCKED_SECONDS: Final = 5.0
#: The minimum interval between writes of pod counts. A new phase is written at once.
_COUNT_SECONDS: Final = 0.5


class JobReconciler(Reconciler):
    """Creates, restarts and deletes the pods of jobs, and maintains the jobs' status."""

    name = "job"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tracked: dict[str, TrackedJob] = {}
        self._writer = JobWriter(context)

    def selections(self) -> Iterable[Selection]:
        """Watch jobs, their pods, PodGroups, queues, commands and priority classes."""
        yield from (Selection.of(kind) for kind in (VolcanoJob, PodGroup, Queue, Command, PriorityClass))
        yield Selection(JOB_PODS, labels=JOB_NAME)

    # Changes

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the changed job, the job of a changed pod or PodGroup, or the target of a command."""
        found = change.object
        if isinstance(found, VolcanoJob):
            return (found.key,) if _is_relevant(change) else ()
        if isinstance(found, JobPod):
            return self._pod_changed(change)
        if isinstance(found, PodGroup):
            return self._group_changed(change)
        if isinstance(found, Command) and change.new is not None:
            target = found.target
            if target.kind == "Job" and target.api_version.startswith(f"{JOB_GROUP}/"):
                return (f"{found.namespace}/{target.name}",)
        return ()

    def _pod_changed(self, change: Change[JobPod]) -> Iterable[str]:
        pod = change.object
        if not pod.job:
            return ()
        tracked = self._tracked.setdefault(pod.job, TrackedJob())
        job = self.cache.get(VolcanoJob, pod.job)
        if job is not None:
            self._reset_for(job, tracked)
        deleted_by_controller = pod.uid in tracked.deleted
        tracked.apply(change.old, change.new)
        if job is not None and job.uid == pod.job_uid and not deleted_by_controller:
            self._queue_request(job, tracked, change.old, change.new)
        return (pod.job,)

    def _reset_for(self, job: VolcanoJob, tracked: TrackedJob) -> None:
        """Queue requests for the existing pods of a job that is new to the controller."""
        if tracked.reset_for(job):
            for pod in tracked.members(job).values():
                self._queue_request(job, tracked, None, pod)

    def _queue_request(self, job: VolcanoJob, tracked: TrackedJob, old: JobPod | None, new: JobPod | None) -> None:
        name = new.task if new is not None else old.task if old is not None else ""
        task = next((each for each in self._with_defaults(job).spec.tasks if each.name == name), None)
        request = request_for(old, new, task, tracked.of_task(name))
        if request.event != constants.OUT_OF_SYNC:
            tracked.requests.append(request)

    def _group_changed(self, change: Change[PodGroup]) -> Iterable[str]:
        group = change.object
        owner = next((each for each in group.metadata.owner_references if each.controller), None)
        if owner is None or owner.kind != "Job" or not owner.api_version.startswith(f"{JOB_GROUP}/"):
            return ()
        key = f"{group.namespace}/{owner.name}"
        old, new = change.old, change.new
        if new is None:
            self._tracked.setdefault(key, TrackedJob()).deleted.discard(group.uid)
        elif old is not None and old.status.phase != new.status.phase and new.status.phase == constants.UNKNOWN:
            job = self.cache.get(VolcanoJob, key)
            version = 0 if job is None else job.status.version
            self._tracked.setdefault(key, TrackedJob()).requests.append(
                Request(event=constants.JOB_UNKNOWN, version=version)
            )
        return (key,)

    def _with_defaults(self, job: VolcanoJob) -> VolcanoJob:
        settings = self.context.settings
        return with_defaults(
            job,
            scheduler_name=settings.scheduler_names[0],
            queue=settings.default_queue,
            plugins=self.context.job_plugins,
        )

    # Actions

    async def reconcile(self, key: str) -> float | None:
        """Execute the actions for all queued requests of a job, then reconcile its pods with its spec."""
        job = self.cache.get(VolcanoJob, key)
        if job is None:
            self._untrack(key)
            return None
        tracked = self._tracked.setdefault(key, TrackedJob())
        if job.metadata.deletion_timestamp is not None:
            return None
        self._reset_for(job, tracked)
        tracked.write_delay = 0.0
        job = self._with_defaults(tracked.current(job))
        errors = validation_errors(job, self.context.job_plugins)
        errors += self._template_errors(job, tracked, errors)
        if errors:
            await self._report(job, tracked, _INVALID, "; ".join(errors))
            return None
        if self._lacks_queue(job):
            await self._report(job, tracked, _QUEUE_NOT_FOUND, f'queue "{job.spec.queue}" does not exist')
            return _BLOCKED_SECONDS
        if job.status.state.reason in {_INVALID, _QUEUE_NOT_FOUND}:
            job = await self._write_state(job, tracked, "", "")
        if self._writer.is_forwarded(job):
            job = await self._writer.mark_forwarded(job)
        try:
            job = await self._execute_requests(job, tracked)
            await self._sync_until_stable(job, tracked)
        except (JobBlockedError, JobPluginError) as error:
            reason = error.reason if isinstance(error, JobBlockedError) else "PluginError"
            self._warn(job, tracked, reason, str(error))
            return _BLOCKED_SECONDS
        delays = [max(each.due - self.context.clock(), 0.0) for each in tracked.delayed.values()]
        if tracked.write_delay > 0:
            delays.append(tracked.write_delay)
        return min(delays, default=None)

    def _template_errors(self, job: VolcanoJob, tracked: TrackedJob, errors: list[str]) -> list[str]:
        generation = max(job.metadata.generation, 1)
        if tracked.checked != generation:
            tracked.template_errors, tracked.checked = template_errors(job), generation
            if ignored := () if errors else plugin_warnings(job, self.context.job_plugins):
                self.context.record_event(job, _IGNORED, shortened("; ".join(ignored)), type="Warning")
        return tracked.template_errors

    def _untrack(self, key: str) -> None:
        tracked = self._tracked.get(key)
        if tracked is not None and not tracked.pods:
            del self._tracked[key]

    def _lacks_queue(self, job: VolcanoJob) -> bool:
        """Return whether a job that has not started waits for a queue that does not exist."""
        queue = job.spec.queue
        if job.status.state.phase not in {"", PENDING} or queue in {self.context.settings.default_queue, ROOT}:
            return False  # the controller creates these two
        return self.cache.get(Queue, queue) is None

    async def _report(self, job: VolcanoJob, tracked: TrackedJob, reason: str, text: str) -> None:
        """Report in an event and in its status why a job is not run."""
        self._warn(job, tracked, "JobStatusError" if reason == _INVALID else reason, text)
        if job.status.state.message != text:
            await self._write_state(job, tracked, reason, text)

    async def _write_state(self, job: VolcanoJob, tracked: TrackedJob, reason: str, text: str) -> VolcanoJob:
        state = {"phase": job.status.state.phase or PENDING, "reason": reason or None, "message": text or None}
        patched = await self.context.client.patch(
            VolcanoJob, job.name, {"status": {"state": state}}, namespace=job.namespace, subresource="status"
        )
        tracked.status_written(patched)
        return with_status(job, patched.status)

    def _warn(self, job: VolcanoJob, tracked: TrackedJob, reason: str, text: str) -> None:
        if tracked.last_warning != text:
            tracked.last_warning = text
            self.context.record_event(job, reason, text, type="Warning")

    async def _execute_requests(self, job: VolcanoJob, tracked: TrackedJob) -> VolcanoJob:
        """Execute commands, the actions that policies set for queued requests, and delayed actions that are due."""
        for command in pending_commands(self.cache, "Job", job.name, job.namespace):
            if command.target.uid in {"", job.uid} and await consume_command(self.context.client, command):
                note = f"Start to execute command {command.action}, and clean it up to make sure executed not more"
                self.context.record_event(job, "CommandIssued", f"{note} than once.", type="Normal")
                tracked.requests.append(Request(event=constants.COMMAND_ISSUED, action=command.action))
        while tracked.requests:
            job = await self._execute_request(job, tracked, tracked.requests[0])
            tracked.requests.popleft()
        now = self.context.clock()
        for pod, delayed in list(tracked.delayed.items()):
            if delayed.due <= now and tracked.delayed.get(pod) is delayed:
                job = await self._act(job, tracked, delayed.action, delayed.request)
                tracked.delayed.pop(pod, None)
        return job

    async def _execute_request(self, job: VolcanoJob, tracked: TrackedJob, request: Request) -> VolcanoJob:
        delayed = tracked.delayed.get(request.pod)
        if delayed is not None and cancels(request, delayed):
            del tracked.delayed[request.pod]
        action, delay = decide(job, request)
        if action == constants.SYNC or job.status.state.phase in constants.FINISHED:
            return job  # `reconcile` syncs the job anyway
        if not delay:
            return await self._act(job, tracked, action, request)
        delayed = tracked.delayed.get(request.pod)
        if delayed is None or delayed.action != action:
            tracked.delayed[request.pod] = Delayed(request, action, self.context.clock() + delay)
            after = format_duration(int(delay * SECOND))
            self.context.record_event(job, "ExecuteAction", f"Execute action {action} after {after}", type="Normal")
        return job

    async def _sync_until_stable(self, job: VolcanoJob, tracked: TrackedJob) -> None:
        """Reconcile the pods with the spec until the phase no longer changes."""
        for _ in range(_MAX_STEPS):
            phase = job.status.state.phase
            job = await self._act(job, tracked, constants.SYNC, _SYNC_REQUEST)
            if job.status.state.phase == phase:
                return

    async def _act(self, job: VolcanoJob, tracked: TrackedJob, action: str, request: Request) -> VolcanoJob:
        what = step(job.status.state.phase, action)
        if action != constants.SYNC:
            self.context.record_event(job, "ExecuteAction", f"Start to execute action {action} ", type="Normal")
        match what.verb:
            case "sync":
                job = await self._sync(job, tracked, what)
            case "kill":
                job = await self._kill(job, tracked, what)
            case "kill part":
                job = await self._kill_part(job, tracked, what, action, request)
        for pod, delayed in list(tracked.delayed.items()):
            if supersedes(action, request, delayed):
                del tracked.delayed[pod]
        return job

    async def _sync(self, job: VolcanoJob, tracked: TrackedJob, what: Step) -> VolcanoJob:
        if not job.status.state.phase:
            job = await self._write(job, tracked, JobProgress(constants.PENDING, 0), job.status.version, {})
        controlled = await self._writer.prepare(job, tracked)
        await self._writer.ensure_group(job, tracked)
        group = self._writer.group(job, tracked)
        if group is not None:
            self._warn_about_group(job, tracked, group)
            # Pods are created only when the PodGroup is admitted, so that no room is made for them earlier.
            if group.status.phase not in {"", PENDING}:
                await self._writer.sync_pods(job, tracked)
        return await self._advance(job, tracked, what, job.status.version, controlled)

    async def _kill(self, job: VolcanoJob, tracked: TrackedJob, what: Step) -> VolcanoJob:
        # The finished pods of the last retry are kept, so that the cause of the failure can be found.
        keep = FINISHED_PODS if job.status.retry_count >= job.spec.max_retry - 1 else what.keep
        pods = tracked.members(job).values()
        victims = [pod for pod in pods if not tracked.is_deleted(pod) and pod.status.phase not in keep]
        await self._writer.delete(job, tracked, victims)
        before = job.status.controlled_resources
        controlled = {key: value for key, value in before.items() if not key.startswith("plugin-")}
        if len(controlled) != len(before) or tracked.prepared:
            await self._writer.clean_up(job, tracked)
        version = job.status.version + bool(victims)
        job = await self._advance(job, tracked, what, version, controlled, victims, killed=True)
        await self._writer.delete_group(job, tracked)
        return job

    async def _kill_part(
        self, job: VolcanoJob, tracked: TrackedJob, what: Step, action: str, request: Request
    ) -> VolcanoJob:
        victims = [pod for pod in tracked.members(job).values() if _is_affected(pod, action, request)]
        if action == constants.RESTART_PARTITION and not victims:
            return job
        alive = [pod for pod in victims if not tracked.is_deleted(pod)]
        await self._writer.delete(job, tracked, alive, mark=True)
        return await self._advance(job, tracked, what, job.status.version, job.status.controlled_resources, alive)

    def _warn_about_group(self, job: VolcanoJob, tracked: TrackedJob, group: PodGroup) -> None:
        """Record an event with the reason why the PodGroup is waiting, if it is."""
        true = [each for each in group.status.conditions if each.status == "True"]
        latest = max(true, key=lambda each: each.last_transition_time or "", default=None)
        if latest is not None and latest.type != "Scheduled":
            kind = latest.type.lower()
            text = f"PodGroup {job.namespace}:{job.name} {kind}, reason: {latest.message}"
            self._warn(job, tracked, "PodGroupPending", text)

    # Status

    async def _advance(
        self,
        job: VolcanoJob,
        tracked: TrackedJob,
        what: Step,
        version: int,
        controlled: dict[str, str],
        victims: Collection[JobPod] = (),
        *,
        killed: bool = False,
    ) -> VolcanoJob:
        before = JobProgress(job.status.state.phase, job.status.retry_count)
        counts = tracked.counts(job, victims)
        after = what.advance(job.spec, before, counts) or before
        if killed and after.phase != before.phase and version == job.status.version:
            version += 1  # later changes of the kept pods must not trigger policies
        return await self._write(job, tracked, after, version, controlled, victims)

    async def _write(
        self,
        job: VolcanoJob,
        tracked: TrackedJob,
        progress: JobProgress,
        version: int,
        controlled: dict[str, str],
        victims: Collection[JobPod] = (),
    ) -> VolcanoJob:
        counts = tracked.counts(job, victims)
        now = self.context.clock()
        status = next_status(job, counts, progress, now, version=version, controlled=controlled)
        if status == job.status:
            return job
        if self._only_counts_changed(job.status, status) and now - tracked.written_at < _COUNT_SECONDS:
            tracked.write_delay = tracked.written_at + _COUNT_SECONDS - now
            return with_status(job, status)
        await self._send(job, tracked, status)
        tracked.written_at = now
        if progress.phase != job.status.state.phase and progress.phase in {constants.COMPLETED, constants.FAILED}:
            self.context.metrics.count_finished_job(
                job.key, job.spec.queue, completed=progress.phase == constants.COMPLETED
            )
        return with_status(job, status)

    def _only_counts_changed(self, old: VolcanoJobStatus, new: VolcanoJobStatus) -> bool:
        return (old.state, old.version, old.retry_count, old.min_available, old.controlled_resources) == (
            new.state,
            new.version,
            new.retry_count,
            new.min_available,
            new.controlled_resources,
        )

    async def _send(self, job: VolcanoJob, tracked: TrackedJob, status: VolcanoJobStatus) -> None:
        patch = patch_for(job.status, status)
        patch["metadata"] = {"uid": job.uid}
        try:
            patched = await self.context.client.patch(
                VolcanoJob, job.name, patch, namespace=job.namespace, subresource="status"
            )
        except NotFound:
            return
        tracked.status_written(msgspec.structs.replace(patched, status=status))


def _is_affected(pod: JobPod, action: str, request: Request) -> bool:
    if pod.task != request.task:
        return False
    if action == constants.RESTART_POD:
        return pod.name == request.pod
    if action == constants.RESTART_PARTITION:
        return request_for(pod, pod, None, ()).partition == request.partition
    return True


def _is_relevant(change: Change[VolcanoJob]) -> bool:
    """Return whether more changed than the fields that the controller itself writes."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return (
        old.spec != new.spec
        or old.status.state.phase != new.status.state.phase
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )
