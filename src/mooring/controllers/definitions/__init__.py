"""The custom resources of batch jobs, as manifests."""

from mooring.controllers.definitions.jobs import COMMAND, JOB
from mooring.controllers.definitions.scheduling import POD_GROUP, QUEUE
from mooring.controllers.definitions.schema import MANAGED_BY, OURS

#: In the order in which they are applied.
DEFINITIONS = (QUEUE, POD_GROUP, JOB, COMMAND)

__all__ = ["COMMAND", "DEFINITIONS", "JOB", "MANAGED_BY", "OURS", "POD_GROUP", "QUEUE"]
