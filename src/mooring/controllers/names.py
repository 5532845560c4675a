"""Labels, annotations and names that batch objects are known by: Volcano's."""

from typing import Final

GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
PREFIX: Final = "volcano.sh/"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"

JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_QUEUE: Final = "volcano.sh/queue-name"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRIES: Final = "volcano.sh/job-retry-count"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE: Final = "volcano.sh/template-uid"
PARTITION: Final = "volcano.sh/partition-id"
#: On a pod that the controller itself stops: what happens to it from then on is no event of the job's.
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"

PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
BUDGET_LEAST: Final = "volcano.sh/jdb-min-available"
BUDGET_MOST: Final = "volcano.sh/jdb-max-unavailable"
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
NETWORK_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TIER: Final = "volcano.sh/network-topology-highest-tier"

PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
#: The phases of a PodGroup.
GROUP_PHASES: Final = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
