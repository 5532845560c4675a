"""The CustomResourceDefinitions of batch jobs."""

from mooring.controllers.definitions.jobs import COMMAND, JOB
from mooring.controllers.definitions.scheduling import POD_GROUP, QUEUE
from mooring.controllers.definitions.structural_schema import MANAGED_BY, MOORING

#: In the order in which they are installed.
DEFINITIONS = (QUEUE, POD_GROUP, JOB, COMMAND)

__all__ = ["COMMAND", "DEFINITIONS", "JOB", "MANAGED_BY", "MOORING", "POD_GROUP", "QUEUE"]
