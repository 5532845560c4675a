"""The controllers of JobFlows, which create jobs in the order of their dependencies, and of JobTemplates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.api.meta import format_time, parse_time
from mooring.api.volcano_jobs import (
    FLOW_VERSION,
    JOB_VERSION,
    Flow,
    FlowCondition,
    FlowJobHistory,
    FlowJobStatus,
    JobFlow,
    JobFlowState,
    JobFlowStatus,
    JobTemplate,
    JobTemplateStatus,
    VolcanoJob,
)
from mooring.config.durations import SECOND, DurationError, parse_duration
from mooring.controllers import constants
from mooring.controllers.reconciler import Reconciler, Selection
from mooring.kube import AlreadyExists, Change, NotFound, resource_of

_BY_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
_BY_FLOW: Final = "volcano.sh/createdByJobFlow"
_SUCCEED, _FAILED, _TERMINATING = "Succeed", "Failed", "Terminating"
#: The retry interval of a flow whose template does not exist.
_BLOCKED_SECONDS: Final = 5.0
#: Phases of jobs that the status counts nowhere.
_UNCOUNTED: Final = frozenset({constants.COMPLETING, constants.TERMINATING})


class _JobIndex:
    """Jobs by the value of a label, which is the namespace and name of what created them."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._jobs: dict[str, dict[str, VolcanoJob]] = {}

    def apply(self, change: Change[VolcanoJob]) -> Iterable[str]:
        """Apply a change of a job, and return the key of what created it."""
        job = change.object
        value = job.labels.get(self._label, "")
        prefix = f"{job.namespace}."
        if not value.startswith(prefix):
            return ()
        key = f"{job.namespace}/{value.removeprefix(prefix)}"
        jobs = self._jobs.setdefault(key, {})
        if change.new is not None:
            jobs[job.name] = change.new
        else:
            jobs.pop(job.name, None)
            if not jobs:
                del self._jobs[key]
        return (key,)

    def of(self, key: str) -> dict[str, VolcanoJob]:
        """Return the jobs by name."""
        return self._jobs.get(key, {})


class JobFlowReconciler(Reconciler):
    """Creates the jobs of flows, and maintains the flows' status."""

    name = "jobflow"

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._jobs = _JobIndex(_BY_FLOW)

    def selections(self) -> Iterable[Selection]:
        """Watch flows, templates and jobs."""
        return tuple(Selection.of(kind) for kind in (JobFlow, JobTemplate, VolcanoJob))

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the changed flow, or the flow of a changed job."""
        found = change.object
        if isinstance(found, VolcanoJob):
            return self._jobs.apply(change)
        return (found.key,) if isinstance(found, JobFlow) else ()

    async def reconcile(self, key: str) -> float | None:
        """Create the jobs whose dependencies are completed, and write the status."""
        flow = self.cache.get(JobFlow, key)
        if flow is None or flow.metadata.deletion_timestamp is not None:
            return None
        jobs = {
            name: job
            for name, job in self._jobs.of(key).items()
            if any(owner.uid == flow.uid for owner in job.metadata.owner_references)
        }
        phase = flow.status.state.phase
        if phase in {_FAILED, _TERMINATING}:
            return None
        if phase == _SUCCEED and flow.spec.job_retain_policy == "delete":
            for job in jobs.values():
                await self._delete(job)
            return None
        missing = [await self._deploy(flow, each, jobs) for each in flow.spec.flows]
        status = self._status(flow, jobs)
        # As in Volcano, a flow that waits for its first template has no status, so that clients can change it.
        if status != flow.status and (jobs or not any(missing)):
            await self._write(flow, status)
        return _BLOCKED_SECONDS if any(missing) else None

    async def _deploy(self, flow: JobFlow, step: Flow, jobs: dict[str, VolcanoJob]) -> bool:
        """Create the job of a step, if its dependencies are completed. Return whether its template is missing."""
        name = _job_name(flow, step.name)
        targets = (step.depends_on.targets if step.depends_on is not None else None) or ()
        done = [jobs.get(_job_name(flow, each)) for each in targets]
        if name in jobs or any(job is None or job.status.state.phase != constants.COMPLETED for job in done):
            return False
        template = self.cache.get(JobTemplate, f"{flow.namespace}/{step.name}")
        if template is None:
            text = f'JobTemplate "{step.name}" does not exist'
            self.context.record_event(flow, "FailedCreate", text, type="Warning")
            return True
        if step.patch is not None or (step.depends_on is not None and step.depends_on.probe is not None):
            text = f'patch and probe of flow "{step.name}" have no effect, as in Volcano'
            self.context.record_event(flow, "NotSupported", text, type="Warning")
        marks = {_BY_TEMPLATE: f"{flow.namespace}.{step.name}", _BY_FLOW: f"{flow.namespace}.{flow.name}"}
        owner = {"apiVersion": FLOW_VERSION, "kind": "JobFlow", "name": flow.name, "uid": flow.uid}
        metadata = {
            "name": name,
            "namespace": flow.namespace,
            "labels": marks,
            "annotations": marks,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        path = resource_of(VolcanoJob).path(namespace=flow.namespace)
        document = {"apiVersion": JOB_VERSION, "kind": "Job", "metadata": metadata, "spec": template.spec}
        try:
            await self.context.client.send("POST", path, document)
        except AlreadyExists:
            return False
        self.context.record_event(flow, "Created", f"create a job named {name}!", type="Normal")
        return False

    def _status(self, flow: JobFlow, jobs: dict[str, VolcanoJob]) -> JobFlowStatus:
        names = [_job_name(flow, each.name) for each in flow.spec.flows]
        found = [jobs[name] for name in dict.fromkeys((*names, *sorted(jobs))) if name in jobs]

        def of(*phases: str) -> tuple[str, ...]:
            return tuple(job.name for job in found if job.status.state.phase in phases)

        known = {constants.PENDING, constants.RUNNING, constants.FAILED, constants.COMPLETED, constants.TERMINATED}
        before = {each.name: each for each in flow.status.job_status_list}
        status = JobFlowStatus(
            pending_jobs=of(constants.PENDING),
            running_jobs=of(constants.RUNNING),
            failed_jobs=of(constants.FAILED),
            completed_jobs=of(constants.COMPLETED),
            terminated_jobs=of(constants.TERMINATED),
            un_know_jobs=tuple(job.name for job in found if job.status.state.phase not in known | _UNCOUNTED),
            job_status_list=(
                *(self._job_status(job, before.get(job.name)) for job in found),
                *(each for name, each in before.items() if name not in jobs),
            ),
            conditions={job.name: _condition(job) for job in found},
        )
        phase = _phase(flow.status.state.phase, status, len(flow.spec.flows))
        return msgspec.structs.replace(status, state=JobFlowState(phase=phase))

    def _job_status(self, job: VolcanoJob, before: FlowJobStatus | None) -> FlowJobStatus:
        phase, now = job.status.state.phase, format_time(self.context.clock())
        history = before.running_histories if before is not None else ()
        if phase and (not history or history[-1].state != phase):
            if history:
                history = (*history[:-1], msgspec.structs.replace(history[-1], end_timestamp=now))
            history = (*history, FlowJobHistory(start_timestamp=now, state=phase))
        return FlowJobStatus(
            name=job.name,
            state=phase,
            start_timestamp=job.metadata.creation_timestamp,
            end_timestamp=_end(job),
            restart_count=job.status.retry_count,
            running_histories=history,
        )

    async def _write(self, flow: JobFlow, status: JobFlowStatus) -> None:
        old, new = msgspec.to_builtins(flow.status), msgspec.to_builtins(status)
        gone = {key: None for key in old if key not in new}
        left = {name: None for name in flow.status.conditions if name not in status.conditions}
        if left and "conditions" in new:
            new["conditions"] = {**left, **new["conditions"]}
        patch = {"metadata": {"uid": flow.uid}, "status": {**gone, **new}}
        with contextlib.suppress(NotFound):
            await self.context.client.patch(JobFlow, flow.name, patch, namespace=flow.namespace, subresource="status")

    async def _delete(self, job: VolcanoJob) -> None:
        path = resource_of(VolcanoJob).path(namespace=job.namespace, name=job.name)
        with contextlib.suppress(NotFound):
            await self.context.client.send("DELETE", path, {"preconditions": {"uid": job.uid}})


class JobTemplateReconciler(Reconciler):
    """Lists the jobs of each template in its status."""

    name = "jobtemplate"

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._jobs = _JobIndex(_BY_TEMPLATE)

    def selections(self) -> Iterable[Selection]:
        """Watch templates and jobs."""
        return (Selection.of(JobTemplate), Selection.of(VolcanoJob))

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the changed template, or the template of a changed job."""
        found = change.object
        if isinstance(found, VolcanoJob):
            return self._jobs.apply(change)
        return (found.key,) if isinstance(found, JobTemplate) else ()

    async def reconcile(self, key: str) -> float | None:
        """Write the status."""
        template, names = self.cache.get(JobTemplate, key), tuple(sorted(self._jobs.of(key)))
        if template is None or not names or template.status == JobTemplateStatus(job_depends_on_list=names):
            return None
        patch = {"metadata": {"uid": template.uid}, "status": {"jobDependsOnList": names}}
        with contextlib.suppress(NotFound):
            await self.context.client.patch(
                JobTemplate, template.name, patch, namespace=template.namespace, subresource="status"
            )
        return None


def _job_name(flow: JobFlow, step: str) -> str:
    return f"{flow.name}-{step}"


def _phase(phase: str, status: JobFlowStatus, steps: int) -> str:
    """Return the next phase of a flow."""
    if phase == constants.RUNNING:
        if len(status.completed_jobs) == steps:
            return _SUCCEED
        return _FAILED if status.failed_jobs else phase
    if phase == _SUCCEED:
        return phase
    if (status.running_jobs or status.completed_jobs) and not status.failed_jobs:
        return constants.RUNNING
    return _FAILED if status.failed_jobs or status.terminated_jobs else constants.PENDING


def _condition(job: VolcanoJob) -> FlowCondition:
    return FlowCondition(
        phase=job.status.state.phase,
        create_timestamp=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration,
        task_status_count=job.status.task_status_count,
    )


def _end(job: VolcanoJob) -> str | None:
    created, duration = job.metadata.creation_timestamp, job.status.running_duration
    if not created or not duration:
        return None
    try:
        return format_time(parse_time(created) + parse_duration(duration) / SECOND)
    except DurationError:
        return None
