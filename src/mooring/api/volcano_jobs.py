"""Volcano's jobs and commands."""

from typing import Any, Final

from msgspec import field

from mooring.api.meta import Model, NamespacedObject, OwnerReference
from mooring.api.volcano import NetworkTopology

JOB_GROUP: Final = "batch.volcano.sh"
JOB_VERSION: Final = f"{JOB_GROUP}/v1alpha1"
COMMAND_VERSION: Final = "bus.volcano.sh/v1alpha1"


class LifecyclePolicy(Model, kw_only=True):
    """A lifecycle policy: an action for an event or an exit code, with an optional timeout."""

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str | None = None


class DependsOn(Model, kw_only=True):
    """The tasks that must run before this one starts: all, or any."""

    name: tuple[str, ...] = ()
    iteration: str = ""


class PartitionPolicy(Model, kw_only=True):
    """A policy that splits the pods of a task into smaller gangs of equal size."""

    total_partitions: int = 0
    partition_size: int = 0
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(Model, kw_only=True):
    """A task: a number of equal pods."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    #: Not decoded, because every field is copied to the pods.
    template: dict[str, Any] = field(default_factory=dict)
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class JobVolume(Model, kw_only=True):
    """A claim that every pod of the job mounts."""

    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


class VolcanoJobSpec(Model, kw_only=True):
    """The specification of a job."""

    scheduler_name: str = ""
    min_available: int = 0
    min_success: int | None = None
    queue: str = ""
    priority_class_name: str = ""
    max_retry: int = 0
    ttl_seconds_after_finished: int | None = None
    volumes: tuple[JobVolume, ...] = ()
    plugins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    policies: tuple[LifecyclePolicy, ...] = ()
    network_topology: NetworkTopology | None = None
    tasks: tuple[TaskSpec, ...] = ()


class JobState(Model, kw_only=True):
    """The state of a job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class TaskState(Model, kw_only=True):
    """The number of pods of a task by phase."""

    phase: dict[str, int] = field(default_factory=dict)


class JobCondition(Model, kw_only=True):
    """A condition of a job."""

    status: str = ""
    last_transition_time: str | None = None


class VolcanoJobStatus(Model, kw_only=True):
    """The status of a job."""

    state: JobState = JobState()
    min_available: int = 0
    task_status_count: dict[str, TaskState] = field(default_factory=dict)
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    #: Increased when all pods are stopped; events of older pods are ignored.
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    controlled_resources: dict[str, str] = field(default_factory=dict)
    conditions: tuple[JobCondition, ...] = ()


class VolcanoJob(NamespacedObject, kw_only=True):
    """A Volcano job."""

    api_version: str = field(default_factory=lambda: JOB_VERSION)
    kind: str = field(default_factory=lambda: "Job")
    spec: VolcanoJobSpec = VolcanoJobSpec()
    status: VolcanoJobStatus = VolcanoJobStatus()


class Command(NamespacedObject, kw_only=True):
    """A command to a job or a queue."""

    api_version: str = field(default_factory=lambda: COMMAND_VERSION)
    kind: str = field(default_factory=lambda: "Command")
    action: str = ""
    target: OwnerReference = OwnerReference()
    reason: str = ""
    message: str = ""
