"""Volcano's labels, annotations, phases, events and actions."""

from typing import Final

# Labels and annotations
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
PREFIX: Final = "volcano.sh/"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"

JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_QUEUE: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRIES: Final = "volcano.sh/job-retry-count"
#: Marks jobs whose queue extends to other clusters, and their pods, for the program that forwards them.
FORWARDING: Final = "volcano.sh/job-forwarding"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE: Final = "volcano.sh/template-uid"
PARTITION: Final = "volcano.sh/partition-id"
#: Set on a pod that the controller itself deletes. Later changes of the pod are not events of the job.
OUT_OF_SYNC_ANNOTATION: Final = "volcano.sh/controller-out-of-sync"

PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
BUDGET_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
BUDGET_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
NETWORK_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TIER: Final = "volcano.sh/network-topology-highest-tier"

# Phases of jobs, PodGroups and pods
PENDING, RUNNING, RESTARTING, COMPLETED, FAILED = "Pending", "Running", "Restarting", "Completed", "Failed"
COMPLETING, ABORTING, ABORTED, TERMINATING, TERMINATED = (
    "Completing",
    "Aborting",
    "Aborted",
    "Terminating",
    "Terminated",
)
INQUEUE, SUCCEEDED, UNKNOWN = "Inqueue", "Succeeded", "Unknown"
#: The phases of a job that has finished.
FINISHED: Final = frozenset({COMPLETED, FAILED, TERMINATED})
GROUP_PHASES: Final = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)

# Events of lifecycle policies
ANY, POD_PENDING, POD_RUNNING, POD_FAILED, POD_EVICTED = "*", "PodPending", "PodRunning", "PodFailed", "PodEvicted"
JOB_UNKNOWN, TASK_COMPLETED, TASK_FAILED, OUT_OF_SYNC, COMMAND_ISSUED = (
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "OutOfSync",
    "CommandIssued",
)
#: The events that a policy may name.
POLICY_EVENTS: Final = (ANY, POD_PENDING, POD_FAILED, POD_EVICTED, JOB_UNKNOWN, TASK_COMPLETED, TASK_FAILED)

# Actions
SYNC, ABORT, RESUME, RESTART, TERMINATE, COMPLETE = (
    "SyncJob",
    "AbortJob",
    "ResumeJob",
    "RestartJob",
    "TerminateJob",
    "CompleteJob",
)
RESTART_TASK, RESTART_POD, RESTART_PARTITION = "RestartTask", "RestartPod", "RestartPartition"
#: Actions that restart only some pods of a job.
PARTIAL: Final = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})
POLICY_ACTIONS: Final = (ABORT, RESTART, RESTART_TASK, RESTART_POD, RESTART_PARTITION, TERMINATE, COMPLETE, RESUME)
OPEN_QUEUE, CLOSE_QUEUE = "OpenQueue", "CloseQueue"
