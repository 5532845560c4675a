"""The words of jobs' policies, phases and events: Volcano's."""

from typing import Final

# Phases
PENDING, RUNNING, RESTARTING, COMPLETED, FAILED = "Pending", "Running", "Restarting", "Completed", "Failed"
COMPLETING, ABORTING, ABORTED, TERMINATING, TERMINATED = (
    "Completing",
    "Aborting",
    "Aborted",
    "Terminating",
    "Terminated",
)
FINISHED: Final = frozenset({COMPLETED, FAILED, TERMINATED})

# Phases of pods
SUCCEEDED, UNKNOWN = "Succeeded", "Unknown"

# What happens
ANY, POD_PENDING, POD_RUNNING, POD_FAILED, POD_EVICTED = "*", "PodPending", "PodRunning", "PodFailed", "PodEvicted"
JOB_UNKNOWN, TASK_COMPLETED, TASK_FAILED, OUT_OF_SYNC, COMMAND_ISSUED = (
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "OutOfSync",
    "CommandIssued",
)
#: Policies can be about these.
POLICY_EVENTS: Final = (ANY, POD_PENDING, POD_FAILED, POD_EVICTED, JOB_UNKNOWN, TASK_COMPLETED, TASK_FAILED)

# What is done about it
SYNC, ABORT, RESUME, RESTART, TERMINATE, COMPLETE = (
    "SyncJob",
    "AbortJob",
    "ResumeJob",
    "RestartJob",
    "TerminateJob",
    "CompleteJob",
)
RESTART_TASK, RESTART_POD, RESTART_PARTITION = "RestartTask", "RestartPod", "RestartPartition"
#: What restarts a part of a job.
PARTIAL: Final = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})
POLICY_ACTIONS: Final = (ABORT, RESTART, RESTART_TASK, RESTART_POD, RESTART_PARTITION, TERMINATE, COMPLETE, RESUME)
