"""mpi: the host names of the workers, for the master of an MPI job."""

from __future__ import annotations

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework.job_plugin import Document, JobPlugin, containers_of, hosts_of, open_port, set_env, task_of


class MpiArgs:
    """The arguments of mpi."""

    master: str = "master"
    worker: str = "worker"
    port: int = 22


class Mpi(JobPlugin[MpiArgs]):
    """Opens the port of SSH, and sets MPI_HOST in the master."""

    name = "mpi"
    needs = ("svc", "ssh")

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Open the port, and add the environment variable."""
        workers = task_of(job, self.args.worker)
        if task.name == self.args.master and workers is None:
            return
        for container in containers_of(pod):
            open_port(container, self.args.port, "mpijob-port")
        if task.name == self.args.master and workers is not None:
            set_env(pod, MPI_HOST=",".join(hosts_of(job, workers)))
