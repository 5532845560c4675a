"""ray: the commands that start a Ray cluster, and a Service for its head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.controllers import constants
from mooring.framework.job_plugin import Document, JobPlugin, JobPluginError, host_of, open_port, task_of

_GCS, _DASHBOARD, _CLIENT = "gcs", "dashboard", "client-server"
_SHELL: Final = ("sh", "-c")


class RayArgs:
    """The arguments of ray."""

    head: str = "head"
    head_container: str = "head"
    worker: str = "worker"
    worker_container: str = "worker"
    port: int = 6379
    dashboard_port: int = 8265
    client_port: int = 10001


class Ray(JobPlugin[RayArgs]):
    """Sets the commands of the head and of the workers, and opens the ports of the head."""

    name = "ray"
    needs = ("svc",)

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Set the command, and open the ports."""
        args = self.args
        head = task_of(job, args.head)
        if head is None:
            raise JobPluginError(f"job {job.name} doesn't have head task {args.head}")
        for container in pod["spec"].get("containers", ()):
            if task.name == args.head and container.get("name") == args.head_container:
                for name, port in self._ports().items():
                    open_port(container, port, name)
                start = (
                    f"ray start --head --block --dashboard-host=0.0.0.0 --port={args.port} "
                    f"--dashboard-port={args.dashboard_port} --ray-client-server-port={args.client_port}"
                )
                container["command"] = [*_SHELL, start]
            if task.name == args.worker and container.get("name") == args.worker_container:
                container["command"] = [*_SHELL, f"ray start --block --address={host_of(job, head, 0)}:{args.port}"]

    def objects(self, job: VolcanoJob) -> Iterable[Document]:
        """Return the Service of the head."""
        labels = {
            constants.JOB_NAME: job.name,
            constants.JOB_NAMESPACE: job.namespace,
            constants.TASK_SPEC: self.args.head,
        }
        ports = [
            {"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, port in self._ports().items()
        ]
        head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{job.name}-head-svc"}}
        yield {**head, "spec": {"selector": labels, "ports": ports}}

    def _ports(self) -> dict[str, int]:
        return {_GCS: self.args.port, _DASHBOARD: self.args.dashboard_port, _CLIENT: self.args.client_port}
