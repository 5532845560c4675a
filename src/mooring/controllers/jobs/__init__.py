"""The controllers of jobs (batch.volcano.sh), and a helper for tests of job plugins."""

from mooring.controllers.jobs.job_plugin_files import JobPluginResult, run_job_plugin
from mooring.controllers.jobs.job_reconciler import JobReconciler
from mooring.controllers.jobs.job_ttl import JobTTLReconciler

__all__ = ["JobPluginResult", "JobReconciler", "JobTTLReconciler", "run_job_plugin"]
