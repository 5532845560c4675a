"""Defaulting and validation of jobs. Volcano does this in webhooks, Mooring in the controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mooring.api.volcano_jobs import LifecyclePolicy, TaskSpec, VolcanoJob, VolcanoJobSpec
from mooring.config.durations import DurationError, parse_duration
from mooring.controllers import constants
from mooring.controllers.jobs.job_objects import pod_document, task_usage
from mooring.controllers.jobs.job_plugins import JobPluginClasses, JobPlugins, required_plugins
from mooring.controllers.jobs.job_status import replicas
from mooring.controllers.jobs.plugins import PLUGINS
from mooring.controllers.jobs.policies import events_of
from mooring.framework.job_plugin import JobPluginError
from mooring.unexpected_errors import shortened

_MAX_RETRY = 3
#: The maximum number of pods of a job. The controller computes the name of every pod, so the number must be limited.
_MAX_PODS = 100_000


def with_defaults(
    job: VolcanoJob, *, scheduler_name: str, queue: str, plugins: JobPluginClasses = PLUGINS
) -> VolcanoJob:
    """Return the job with defaults for all fields that it omits."""
    spec = job.spec
    tasks = tuple(_task(task, number) for number, task in enumerate(spec.tasks))
    spec = msgspec.structs.replace(
        spec,
        tasks=tasks,
        queue=spec.queue or queue,
        scheduler_name=spec.scheduler_name or scheduler_name,
        max_retry=spec.max_retry or _MAX_RETRY,
        min_available=spec.min_available or sum(task.min_available or 0 for task in tasks),
        plugins={**spec.plugins, **dict.fromkeys(required_plugins(spec.plugins, plugins), ())},
    )
    return msgspec.structs.replace(job, spec=spec)


def _task(task: TaskSpec, number: int) -> TaskSpec:
    least = task.min_available
    if least is None:
        parts = task.partition_policy
        least = parts.min_partitions * parts.partition_size if parts and parts.min_partitions else task.replicas
    return msgspec.structs.replace(
        task,
        name=task.name or f"default{number}",
        min_available=least,
        max_retry=task.max_retry or _MAX_RETRY,
    )


def validation_errors(job: VolcanoJob, plugins: JobPluginClasses = PLUGINS) -> list[str]:
    """Return the errors of a job to which defaults were applied."""
    spec = job.spec
    found = [f"there are no tasks in job {job.name}"] if not spec.tasks else []
    names = [task.name for task in spec.tasks]
    found += [f"duplicated task name {name}" for name in sorted({each for each in names if names.count(each) > 1})]
    for task in spec.tasks:
        found += [f"task {task.name}: {error}" for error in _task_errors(task, names)]
    if replicas(spec) > _MAX_PODS or any(task.replicas < 0 for task in spec.tasks):
        found.append(f"'replicas' must not be negative, nor greater than {_MAX_PODS} in total")
    if spec.min_available > replicas(spec):
        found.append("job 'minAvailable' should not be greater than total replicas in tasks")
    found += _policy_errors(spec.policies)
    try:
        JobPlugins(job, plugins)
    except JobPluginError as error:
        found.append(str(error))
    if _has_cycle(spec):
        found.append("the dependencies between tasks form a cycle")
    paths = [volume.mount_path for volume in spec.volumes]
    found += [f"duplicated mountPath: {path}" for path in sorted({each for each in paths if paths.count(each) > 1})]
    if any(bool(volume.volume_claim_name) == (volume.volume_claim is not None) for volume in spec.volumes):
        found.append("a volume needs either volumeClaim or volumeClaimName")
    return found


def template_errors(job: VolcanoJob) -> list[str]:
    """Return the errors of the tasks' templates: fields of a wrong type, and quantities that cannot be parsed.

    This takes longer than `validation_errors`, and the result depends only on the spec.
    """
    found = []
    for task in job.spec.tasks:
        try:
            pod_document(job, task, 0)
            task_usage(task)
        except (ValueError, TypeError, AttributeError) as error:
            found.append(f"task {task.name}: its template is invalid: {shortened(str(error))}")
    return found


def _task_errors(task: TaskSpec, names: list[str]) -> Iterator[str]:
    if (task.min_available or 0) > task.replicas:
        yield "'minAvailable' is greater than 'replicas'"
    spec = task.template.get("spec") or {}
    if not isinstance(spec, dict) or not spec.get("containers"):
        yield "its template has no containers"
    parts = task.partition_policy
    if parts is not None and task.replicas != parts.total_partitions * parts.partition_size:
        yield "'replicas' are not equal to totalPartitions * partitionSize"
    for name in task.depends_on.name if task.depends_on is not None else ():
        if name not in names:
            yield f"it depends on {name}, which is not a task of the job"
    yield from _policy_errors(task.policies)


def _policy_errors(policies: Iterable[LifecyclePolicy]) -> Iterator[str]:
    seen: list[str] = []
    for policy in policies:
        events = dict.fromkeys(events_of(policy))
        if bool(events) == (policy.exit_code is not None):
            yield "a policy needs either events or an exitCode"
        if policy.exit_code == 0:
            yield "0 is not a valid error code"
        if policy.action not in constants.POLICY_ACTIONS:
            yield f"invalid policy action {policy.action!r}: use one of {', '.join(constants.POLICY_ACTIONS)}"
        for event in events:
            if event not in constants.POLICY_EVENTS:
                yield f"invalid policy event {event!r}: use one of {', '.join(constants.POLICY_EVENTS)}"
            elif event in seen:
                yield f"duplicate event {event} across different policies"
            seen.append(event)
        if policy.timeout:
            try:
                parse_duration(policy.timeout)
            except DurationError as error:
                yield f"timeout: {error}"
    if constants.ANY in seen and len(seen) > 1:
        yield "a policy for * excludes policies for other events"


def _has_cycle(spec: VolcanoJobSpec) -> bool:
    waiting = {task.name: set(task.depends_on.name) if task.depends_on else set[str]() for task in spec.tasks}
    while waiting:
        free = [name for name, needed in waiting.items() if not needed & waiting.keys()]
        if not free:
            return True
        for name in free:
            del waiting[name]
    return False
