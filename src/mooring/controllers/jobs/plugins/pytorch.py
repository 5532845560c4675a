"""pytorch: the environment variables of torch.distributed."""

from __future__ import annotations

from typing import Final

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework.job_plugin import Document, JobPlugin, add_env, host_of, open_port, task_of

_WAITER: Final = "wait-for-master"
#: Waits for the master's port with nc, or with a shell that can open TCP connections.
_WAIT: Final = """\
echo "Waiting for {host}:{port}"
waited=0
until {{ nc -z {host} {port} || echo > /dev/tcp/{host}/{port}; }} 2>/dev/null; do
  if [ $waited -ge {seconds} ]; then
    echo "{host}:{port} did not answer within {seconds} s"
    exit 1
  fi
  sleep 2
  waited=$((waited + 2))
done
"""


class PyTorchArgs:
    """The arguments of pytorch."""

    master: str = "master"
    worker: str = "worker"
    port: int = 23456
    wait_master_enabled: bool = False
    wait_master_timeout: int = 300
    wait_master_image: str = "busybox:1.36.1"


class PyTorch(JobPlugin[PyTorchArgs]):
    """Sets MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, and opens the port."""

    name = "pytorch"
    needs = ("svc",)

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Add the environment variables and the port."""
        args = self.args
        master = task_of(job, args.master)
        if master is None:
            return
        host = host_of(job, master, 0)
        if task.name == args.worker:
            self._wait_for(host, pod)
        size = sum(each.replicas for each in job.spec.tasks if each.name in (args.master, args.worker))
        values = {"MASTER_ADDR": host, "MASTER_PORT": str(args.port), "WORLD_SIZE": str(size)}
        if task.name in (args.master, args.worker):
            values["RANK"] = str(index + 1) if task.name == args.worker else "0"
        containers = pod["spec"].get("containers", ())
        for container in containers:
            open_port(container, args.port, "pytorchjob-port")
        add_env(containers, **values)

    def _wait_for(self, host: str, pod: Document) -> None:
        """Add an init container that waits until the master accepts connections."""
        inits = pod["spec"].get("initContainers") or ()
        if not self.args.wait_master_enabled or any(each.get("name") == _WAITER for each in inits):
            return
        script = _WAIT.format(host=host, port=self.args.port, seconds=self.args.wait_master_timeout)
        waiter = {"name": _WAITER, "image": self.args.wait_master_image, "command": ["sh", "-c", script]}
        pod["spec"]["initContainers"] = [*inits, waiter]
