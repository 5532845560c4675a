"""hcclrank: the rank of a pod for Huawei's Collective Communication Library, as an annotation."""

from __future__ import annotations

from typing import Final

from mooring.api.volcano_jobs import TaskSpec, VolcanoJob
from mooring.framework.job_plugin import Document, JobPlugin, task_of

_ANNOTATION: Final = "hccl/rankIndex"


class HcclRankArgs:
    """The arguments of hcclrank."""

    master: str = "master"
    worker: str = "worker"


class HcclRank(JobPlugin[HcclRankArgs]):
    """Sets the annotation from the environment variable RANK, or from the position of the pod in the job."""

    name = "hcclrank"
    #: After pytorch, which sets RANK.
    order = 1

    def on_pod_create(self, job: VolcanoJob, task: TaskSpec, index: int, pod: Document) -> None:
        """Set the annotation."""
        annotations = pod["metadata"].setdefault("annotations", {})
        if annotations.get(_ANNOTATION):
            return
        rank = _env(pod, "RANK")
        if not rank and task.name in (self.args.master, self.args.worker):
            masters = task_of(job, self.args.master) if task.name == self.args.worker else None
            rank = str(index + (masters.replicas if masters is not None else 0))
        if rank:
            annotations[_ANNOTATION] = rank


def _env(pod: Document, name: str) -> str:
    """Return the first value of an environment variable in the containers; empty if there is none."""
    for container in pod["spec"].get("containers", ()):
        for each in container.get("env", ()):
            if each.get("name") == name:
                return str(each.get("value") or "")
    return ""
