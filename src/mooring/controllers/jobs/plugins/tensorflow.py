"""tensorflow: the cluster and the task of a pod in TF_CONFIG."""

from __future__ import annotations

import json

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework.job_plugin import Document, JobPlugin, add_env, host_of


class TensorFlowArgs:
    """The arguments of tensorflow."""

    ps: str = "ps"
    worker: str = "worker"
    chief: str = "chief"
    evaluator: str = "evaluator"
    port: int = 2222


class TensorFlow(JobPlugin[TensorFlowArgs]):
    """Sets TF_CONFIG, unless the job has only one pod."""

    name = "tensorflow"
    needs = ("svc",)

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Add the environment variable."""
        tasks = job.spec.tasks
        if len(tasks) == 1 and tasks[0].replicas == 1:
            return
        args = self.args
        roles = {args.ps: "ps", args.worker: "worker", args.chief: "chief", args.evaluator: "evaluator"}
        hosts = {roles[each.name]: self._addresses(job, each) for each in tasks if each.name in roles}
        cluster = {role: hosts[role] for role in ("ps", "worker", "chief", "evaluator") if hosts.get(role)}
        own = {"type": roles.get(task.name, task.name), "index": index}
        text = json.dumps({"cluster": cluster, "task": own}, separators=(",", ":"))
        add_env(pod["spec"].get("containers", ()), TF_CONFIG=text)

    def _addresses(self, job: VolcanoJob, task: TaskSpec) -> list[str]:
        """Return one address for each pod, even if the template has a host name."""
        return [f"{host_of(job, task, index)}:{self.args.port}" for index in range(task.replicas)]
