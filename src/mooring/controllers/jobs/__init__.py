"""Jobs of batch.volcano.sh: their pods, and what happens when these end."""

from mooring.controllers.jobs.finished import FinishedJobs
from mooring.controllers.jobs.reconciler import Jobs

__all__ = ["FinishedJobs", "Jobs"]
