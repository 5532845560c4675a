"""Defaults and validation of jobs (batch.volcano.sh)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.codec import fit
from mooring.api.decode_errors import ConversionError, path_text
from mooring.api.label_validation import label_key_errors
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityError, parse_quantity
from mooring.api.volcano import NetworkTopology
from mooring.api.volcano_jobs import JobVolume, LifecyclePolicy, TaskSpec, VolcanoJob, VolcanoJobSpec
from mooring.apiserver.documents import Document, deep_copy, nested_field
from mooring.apiserver.field_errors import invalid
from mooring.apiserver.object_names import dns_subdomain
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.pod_validation import template_errors
from mooring.apiserver.quantities import QuantityTextError, canonical_quantity
from mooring.unexpected_errors import shortened

#: The events and actions that a policy may name.
POLICY_EVENTS: Final = (
    "*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated",
)  # fmt: skip
POLICY_ACTIONS: Final = (
    "AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob",
    "ResumeJob",
)  # fmt: skip
#: The plugins that Volcano adds to a job because another plugin needs them.
_NEEDED_PLUGINS: Final[Mapping[str, tuple[str, ...]]] = {
    "tensorflow": ("svc",),
    "mpi": ("svc", "ssh"),
    "pytorch": ("svc",),
    "ray": ("svc",),
}
#: The maximum number of pods of a job. The controller computes the name of every pod, so the number must be limited.
MAX_PODS: Final = 100_000
#: The message about changed fields that cannot change.
FIXED_FIELDS: Final = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and"
    " `PriorityClassName`"
)
_MAX_RETRY: Final = 3
_ANY: Final = "*"
#: The message about two limits of a network topology.
TWO_TIERS: Final = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
_MPI_MASTER: Final = "--master="
_AMOUNTS: Final = frozenset({"limits", "requests", "overhead"})

RequiredPlugins = Callable[[Collection[str]], Iterable[str]]


def needed_plugins(plugins: Collection[str]) -> list[str]:
    """Return the plugins that Volcano's own plugins need besides themselves."""
    needed = dict.fromkeys(each for name in plugins for each in _NEEDED_PLUGINS.get(name, ()))
    return [each for each in needed if each not in plugins]


# Defaults


def with_job_defaults(
    job: VolcanoJob, *, scheduler_name: str, queue: str, required: RequiredPlugins = needed_plugins
) -> VolcanoJob:
    """Return a job with defaults for all fields that it omits."""
    spec = job.spec
    tasks = tuple(_with_task_defaults(task, number) for number, task in enumerate(spec.tasks))
    spec = msgspec.structs.replace(
        spec,
        tasks=tasks,
        queue=spec.queue or queue,
        scheduler_name=spec.scheduler_name or scheduler_name,
        max_retry=spec.max_retry or _MAX_RETRY,
        min_available=spec.min_available or sum(task.min_available or 0 for task in tasks),
        plugins={**spec.plugins, **dict.fromkeys(required(spec.plugins), ())},
    )
    return msgspec.structs.replace(job, spec=spec)


def _with_task_defaults(task: TaskSpec, number: int) -> TaskSpec:
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


def set_job_defaults(document: Document, job: VolcanoJob) -> None:
    """Write the defaults of a job, which `with_job_defaults` returned, to its document."""
    spec = job.spec
    written = document["spec"]
    written.update(
        queue=spec.queue, schedulerName=spec.scheduler_name, maxRetry=spec.max_retry, minAvailable=spec.min_available
    )
    if spec.plugins:
        written["plugins"] = {name: list(arguments) for name, arguments in spec.plugins.items()}
    for each, task in zip(written.get("tasks") or (), spec.tasks, strict=True):
        each.update(name=task.name, minAvailable=task.min_available, maxRetry=task.max_retry)
        pod = nested_field(each, "template", "spec")
        if isinstance(pod, dict) and pod.get("hostNetwork") is True and not pod.get("dnsPolicy"):
            pod["dnsPolicy"] = "ClusterFirstWithHostNet"


# New jobs


def job_errors(job: VolcanoJob, plugins: Collection[str] | None = None) -> list[str]:
    """Return the errors of a job with defaults, except those of its templates.

    ``plugins`` are the known job plugins; None for any.
    """
    spec = job.spec
    if not spec.tasks:
        return ["No task specified in job spec"]
    if "mpi" in spec.plugins and _mpi_master(spec) not in {task.name for task in spec.tasks}:
        return ["The specified mpi master task was not found"]
    return [
        *_topology_errors(spec.network_topology),
        *_tasks_errors(job),
        *_replicas_errors(spec),
        *(f"create job with name {job.name} validate failed {fault}" for fault in label_key_errors(job.name)),
        *policy_errors(spec.policies, "spec.policies"),
        *(f"unable to find job plugin: {name}" for name in spec.plugins if plugins is not None and name not in plugins),
        *_volume_errors(spec.volumes),
        *_dependency_errors(spec),
    ]


def _mpi_master(spec: VolcanoJobSpec) -> str:
    given = [each.removeprefix("--").removeprefix("-") for each in spec.plugins["mpi"]]
    named = [each.partition("=")[2] for each in given if each.startswith("master=")]
    if not named and "master" in given[:-1]:
        named = [given[given.index("master") + 1]]
    return named[-1] if named else "master"


def _tasks_errors(job: VolcanoJob) -> Iterator[str]:
    names: set[str] = set()
    for index, task in enumerate(job.spec.tasks):
        if (task.min_available or 0) > task.replicas:
            yield f"'minAvailable' is greater than 'replicas' in task: {task.name}, job: {job.name}"
        if task.name in names:
            yield f"duplicated task name {task.name}"
            return
        names.add(task.name)
        yield from policy_errors(task.policies, "spec.tasks.policies")
        pod = f"{job.name}-{task.name}-{index}"
        yield from (f"create pod with name {pod} validate failed {fault}" for fault in label_key_errors(pod))
        yield from _partition_errors(task, job.name)


def _replicas_errors(spec: VolcanoJobSpec) -> Iterator[str]:
    total = sum(task.replicas for task in spec.tasks)
    if total > MAX_PODS or any(task.replicas < 0 for task in spec.tasks):
        yield f"'replicas' must not be negative, nor greater than {MAX_PODS} in total"
    if total < spec.min_available:
        yield "job 'minAvailable' should not be greater than total replicas in tasks"


def _topology_errors(topology: NetworkTopology | None) -> Iterator[str]:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield TWO_TIERS


def _partition_errors(task: TaskSpec, job: str) -> Iterator[str]:
    parts = task.partition_policy
    if parts is None:
        return
    where = f"in task: {task.name}, job: {job}"
    if parts.total_partitions <= 0:
        yield f"'TotalPartitions' must be greater than 0 {where}"
    elif parts.partition_size <= 0:
        yield f"'PartitionSize' must be greater than 0 {where}"
    elif task.replicas != parts.total_partitions * parts.partition_size:
        yield f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
    elif (
        task.min_available is not None
        and parts.min_partitions > 0
        and parts.min_partitions * parts.partition_size != task.min_available
    ):
        yield f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
    yield from _topology_errors(parts.network_topology)


def job_template_errors(job: VolcanoJob) -> Iterator[str]:
    """Return the errors of the pod templates of a job's tasks."""
    for index, task in enumerate(job.spec.tasks):
        yield from _task_template_errors(task, index)


def _task_template_errors(task: TaskSpec, index: int) -> Iterator[str]:
    template = task.template
    if not nested_field(template, "spec", "containers"):
        yield f"spec.task[{index}].template.spec.containers: Required value"
        return
    try:
        fit({"metadata": template.get("metadata") or {}, "spec": template["spec"]}, Pod)
        template = deep_copy(template)
        set_template_defaults(template)
        found = [str(each) for each in template_errors(template, "template")]
        if not found and task.topology_policy not in {"", "none"}:
            found = list(_whole_cpu_errors(template["spec"]))
    except ConversionError as error:
        found = [f"template.{path_text(error.fault.steps)}: {error}"]
    except QuantityTextError:
        found = list(_amount_errors(template["spec"]))
    except (TypeError, AttributeError, KeyError, ValueError):
        # The API server does not check the types in a template, so that any field can have a value of any type.
        found = ["template: a field has a value of a wrong type"]
    if found:
        yield f"spec.task[{index}]." + ". ".join(found)


def _amount_errors(spec: Document) -> Iterator[str]:
    """Return the errors of invalid amounts, which the API server finds in pods and not in templates."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            for part, amounts in (container.get("resources") or {}).items():
                for name, amount in amounts.items() if isinstance(amounts, dict) else ():
                    try:
                        parse_quantity(amount)
                    except QuantityError as error:
                        where = f"template.spec.{field}[{index}].resources.{part}[{name}]"
                        yield f"{shortened(where)}: {shortened(str(error))}"


def _whole_cpu_errors(spec: Document) -> Iterator[str]:
    """Return the errors of containers without a whole number of CPUs, which topology policies need."""
    for number, container in enumerate((*spec["containers"], *(spec.get("initContainers") or ()))):
        resources = container.get("resources") or {}
        amounts = resources.get("requests") or resources.get("limits") or {}
        cpu = parse_quantity(amounts.get("cpu", 0)).scaled(-3)
        if not cpu or cpu % 1000:
            yield f"container[{number}]: the cpu request isn't  an integer"
            return


def policy_errors(policies: Iterable[LifecyclePolicy], path: str) -> list[str]:
    """Return the errors of lifecycle policies."""
    seen: set[str] = set()
    codes: set[int] = set()
    found = ""
    for policy in policies:
        found = _policy_error(policy, path, seen, codes)
        if found:
            break
    errors = [found] if found else []
    if _ANY in seen and len(seen) > 1:
        errors.append("if there's * here, no other policy should be here")
    if errors:
        errors[-1] += f" valid events are [{' '.join(POLICY_EVENTS)}], valid actions are [{' '.join(POLICY_ACTIONS)}]"
    return errors


def _policy_error(policy: LifecyclePolicy, path: str, seen: set[str], codes: set[int]) -> str:
    events = dict.fromkeys((*policy.events, *((policy.event,) if policy.event else ())))
    if events and policy.exit_code is not None:
        return "must not specify event and exitCode simultaneously"
    if not events and policy.exit_code is None:
        return "either event and exitCode should be specified"
    for event in events:
        if event not in POLICY_EVENTS:
            return str(invalid(path, event, "invalid policy event"))
        if policy.action not in POLICY_ACTIONS:
            return str(invalid(path, policy.action, "invalid policy action"))
        if event in seen:
            return f"duplicate event {event}  across different policy"
        seen.add(event)
    if policy.exit_code is not None:
        if policy.exit_code == 0:
            return "0 is not a valid error code"
        if policy.exit_code in codes:
            return f"duplicate exitCode {policy.exit_code}"
        codes.add(policy.exit_code)
    return ""


def _volume_errors(volumes: Iterable[JobVolume]) -> Iterator[str]:
    paths: set[str] = set()
    for volume in volumes:
        if not volume.mount_path:
            yield "mountPath is required"
            return
        if volume.mount_path in paths:
            yield f"duplicated mountPath: {volume.mount_path}"
            return
        if volume.volume_claim is None and not volume.volume_claim_name:
            yield "either VolumeClaim or VolumeClaimName must be specified"
            return
        if volume.volume_claim is not None and volume.volume_claim_name:
            yield (
                "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                "If you want to create a new PVC, you do not need to specify VolumeClaimName"
            )
            return
        if volume.volume_claim_name and (faults := dns_subdomain(volume.volume_claim_name)):
            yield f"invalid VolumeClaimName {volume.volume_claim_name} : [{' '.join(faults)}]"
            return
        paths.add(volume.mount_path)


def _dependency_errors(spec: VolcanoJobSpec) -> Iterator[str]:
    needed = {task.name: set(task.depends_on.name) if task.depends_on else set[str]() for task in spec.tasks}
    for name, others in needed.items():
        for other in sorted(others - needed.keys()):
            yield f"task {name} depends on {other}, which is not a task of the job"
    if not is_acyclic(needed):
        yield "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"


def is_acyclic(needed: Mapping[str, Collection[str]]) -> bool:
    """Return whether dependencies form a directed acyclic graph. What is not a key depends on nothing."""
    open_needs = {name: {each for each in others if each in needed} for name, others in needed.items()}
    dependents: dict[str, list[str]] = {}
    for name, others in open_needs.items():
        for other in others:
            dependents.setdefault(other, []).append(name)
    counts = Counter({name: len(others) for name, others in open_needs.items()})
    free = [name for name, count in counts.items() if not count]
    done = 0
    while free:
        done += 1
        for name in dependents.get(free.pop(), ()):
            counts[name] -= 1
            if not counts[name]:
                free.append(name)
    return done == len(open_needs)


# Changed jobs


def job_update_error(new: VolcanoJob, before: Document, after: Document) -> str:
    """Return why a job may not be changed, or "". ``before`` and ``after`` are the specs with defaults."""
    spec = new.spec
    for task in spec.tasks:
        if task.replicas < 0:
            return f"'replicas' must be >= 0 in task: {task.name}"
        if task.min_available is not None and task.min_available < 0:
            return f"'minAvailable' must be >= 0 in task: {task.name}"
        if task.min_available is not None and task.min_available > task.replicas:
            return f"'minAvailable' must be <= 'replicas' in task: {task.name}"
        for error in _partition_errors(task, new.name):
            return error
    total = sum(task.replicas for task in spec.tasks)
    if spec.min_available > total:
        return "job 'minAvailable' must not be greater than total replicas"
    if spec.min_available < 0:
        return "job 'minAvailable' must be >= 0"
    if total > MAX_PODS:
        return f"'replicas' must not be greater than {MAX_PODS} in total"
    for error in _topology_errors(spec.network_topology):
        return error
    if len(before.get("tasks") or ()) != len(after.get("tasks") or ()):
        return "job updates may not add or remove tasks"
    if _fixed_part(before) != _fixed_part(after):
        return FIXED_FIELDS
    return ""


def _fixed_part(spec: Document) -> Any:
    """Return the part of a job's spec that cannot change."""
    found = {key: value for key, value in spec.items() if key not in {"minAvailable", "priorityClassName"}}
    found["tasks"] = [
        {key: value for key, value in task.items() if key not in {"replicas", "minAvailable"}}
        for task in spec.get("tasks") or ()
    ]
    # The job controller writes the name of a claim that it created.
    found["volumes"] = [
        {key: value for key, value in volume.items() if key != "volumeClaimName" or not volume.get("volumeClaim")}
        for volume in spec.get("volumes") or ()
    ]
    return _normalized(found)


def _normalized(value: Any, key: str = "") -> Any:
    """Return a value without zero values and with canonical quantities, which Go clients omit and write."""
    if isinstance(value, dict):
        if key in _AMOUNTS:
            return {name: _canonical(amount) for name, amount in value.items()} or None
        parts = {name: _normalized(each, name) for name, each in value.items()}
        return {name: each for name, each in parts.items() if each is not None} or None
    if isinstance(value, list):
        return [_normalized(each) for each in value] or None
    return value or None


def _canonical(amount: Any) -> Any:
    try:
        return canonical_quantity(amount) if isinstance(amount, (str, int, float)) else amount
    except (QuantityError, QuantityTextError):
        return amount
