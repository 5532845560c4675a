"""The CustomResourceDefinitions of batch jobs."""

from mooring.controllers.definitions.hyper_nodes import HYPER_NODE
from mooring.controllers.definitions.jobs import COMMAND, CRON_JOB, JOB, JOB_FLOW, JOB_TEMPLATE
from mooring.controllers.definitions.nodes import COLOCATION_CONFIGURATION, NODE_SHARD, NUMA_TOPOLOGY
from mooring.controllers.definitions.scheduling import POD_GROUP, QUEUE
from mooring.controllers.definitions.structural_schema import MANAGED_BY, MOORING

#: In the order in which they are installed.
DEFINITIONS = (
    QUEUE,
    POD_GROUP,
    JOB,
    COMMAND,
    CRON_JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    HYPER_NODE,
    NUMA_TOPOLOGY,
    NODE_SHARD,
    COLOCATION_CONFIGURATION,
)

__all__ = [
    "COLOCATION_CONFIGURATION",
    "COMMAND",
    "CRON_JOB",
    "DEFINITIONS",
    "HYPER_NODE",
    "JOB",
    "JOB_FLOW",
    "JOB_TEMPLATE",
    "MANAGED_BY",
    "MOORING",
    "NODE_SHARD",
    "NUMA_TOPOLOGY",
    "POD_GROUP",
    "QUEUE",
]
