"""Volcano's jobs, CronJobs, flows and commands."""

from typing import Any, Final

from msgspec import field

from mooring.api.meta import Model, NamespacedObject, ObjectReference, OwnerReference
from mooring.api.volcano import NetworkTopology

JOB_GROUP: Final = "batch.volcano.sh"
JOB_VERSION: Final = f"{JOB_GROUP}/v1alpha1"
FLOW_GROUP: Final = "flow.volcano.sh"
FLOW_VERSION: Final = f"{FLOW_GROUP}/v1alpha1"
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


class VolcanoCronJobSpec(Model, kw_only=True):
    """The specification of a CronJob."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool = False
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    #: Not decoded, because every field is copied to the jobs.
    job_template: dict[str, Any] = field(default_factory=dict)


class VolcanoCronJobStatus(Model, kw_only=True):
    """The status of a CronJob."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class VolcanoCronJob(NamespacedObject, kw_only=True):
    """A CronJob of Volcano: it creates jobs by a schedule."""

    api_version: str = field(default_factory=lambda: JOB_VERSION)
    kind: str = field(default_factory=lambda: "CronJob")
    spec: VolcanoCronJobSpec = VolcanoCronJobSpec()
    status: VolcanoCronJobStatus = VolcanoCronJobStatus()


class FlowDependency(Model, kw_only=True):
    """The steps of a flow that must be completed before another step."""

    targets: tuple[str, ...] | None = None
    probe: dict[str, Any] | None = None


class Flow(Model, kw_only=True):
    """A step of a flow: the name of its JobTemplate, and what it depends on."""

    name: str = ""
    depends_on: FlowDependency | None = None
    patch: dict[str, Any] | None = None


class JobFlowSpec(Model, kw_only=True):
    """The specification of a flow."""

    flows: tuple[Flow, ...] = ()
    job_retain_policy: str = ""


class JobFlowState(Model, kw_only=True):
    """The state of a flow."""

    phase: str = ""


class FlowJobHistory(Model, kw_only=True):
    """A phase of a flow's job, and when it began and ended."""

    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class FlowJobStatus(Model, kw_only=True):
    """The status of a flow's job."""

    name: str = ""
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: tuple[FlowJobHistory, ...] = ()


class FlowCondition(Model, kw_only=True):
    """The condition of a flow's job."""

    phase: str = ""
    create_timestamp: str | None = None
    running_duration: str | None = None
    task_status_count: dict[str, TaskState] = field(default_factory=dict)


class JobFlowStatus(Model, kw_only=True):
    """The status of a flow."""

    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    un_know_jobs: tuple[str, ...] = ()
    job_status_list: tuple[FlowJobStatus, ...] = ()
    conditions: dict[str, FlowCondition] = field(default_factory=dict)
    state: JobFlowState = JobFlowState()


class JobFlow(NamespacedObject, kw_only=True):
    """A flow: jobs that are created in the order of their dependencies."""

    api_version: str = field(default_factory=lambda: FLOW_VERSION)
    kind: str = field(default_factory=lambda: "JobFlow")
    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(Model, kw_only=True):
    """The status of a job template."""

    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(NamespacedObject, kw_only=True):
    """The specification of jobs that flows create."""

    api_version: str = field(default_factory=lambda: FLOW_VERSION)
    kind: str = field(default_factory=lambda: "JobTemplate")
    #: Not decoded, because every field is copied to the jobs.
    spec: dict[str, Any] = field(default_factory=dict)
    status: JobTemplateStatus = JobTemplateStatus()
