"""env: the index of a pod in its task, as environment variables."""

from __future__ import annotations

from typing import Any

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework.job_plugin import Document, JobPlugin, set_env


class EnvArgs:
    """There are no arguments."""


class Env(JobPlugin[EnvArgs]):
    """Sets the index of the pod in every container."""

    name = "env"

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Add the environment variables."""
        values: dict[str, Any] = dict.fromkeys(("VK_TASK_INDEX", "VC_TASK_INDEX"), str(index))
        set_env(pod, **values)
