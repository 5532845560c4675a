"""The controllers of jobs (batch.volcano.sh)."""

from mooring.controllers.jobs.job_reconciler import JobReconciler
from mooring.controllers.jobs.job_ttl import JobTTLReconciler

__all__ = ["JobReconciler", "JobTTLReconciler"]
