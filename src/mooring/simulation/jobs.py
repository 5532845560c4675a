"""Expansion of Volcano's jobs (batch.volcano.sh) into the objects that their controller creates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.constants import ABORTED, ABORTING, FINISHED, PENDING, TERMINATING
from mooring.controllers.jobs.job_admission import validation_errors, with_defaults
from mooring.controllers.jobs.job_objects import (
    claim_document,
    claim_name,
    group_for,
    group_name,
    may_start,
    missing_claim,
    pod_document,
)
from mooring.controllers.jobs.job_plugins import JobPlugins
from mooring.framework.job_plugin import JobPluginError
from mooring.simulation.admission import Admission, AdmissionError
from mooring.simulation.sources import Given
from mooring.simulation.workloads import MOST_PODS, claim_of, uid_of

_replace = msgspec.structs.replace
#: The phases of a job in which no pods are created.
_AT_REST = FINISHED | {ABORTING, ABORTED, TERMINATING}


class ScenarioJob(msgspec.Struct, frozen=True):
    """A job, and the pods by task that its controller creates when the job is admitted to its queue."""

    job: VolcanoJob
    #: namespace/name of its PodGroup.
    group: str
    pods: dict[str, list[Pod]]
    #: Why the controller cannot create the pods; empty if it can.
    blocked: str = ""


class JobExpander:
    """The job controller's reconciliation of new jobs."""

    def __init__(
        self,
        *,
        admission: Admission,
        pods: Iterable[Pod],
        claims: Collection[str],
        groups: Collection[str],
        priorities: Mapping[str, int],
        scheduler_name: str,
        queue: str,
    ) -> None:
        """``claims`` and ``groups`` are the existing ones as namespace/name, ``priorities`` the values of classes."""
        self._admission = admission
        self._names = {pod.key for pod in pods}
        self._claims = claims
        self._groups = groups
        self._priorities = priorities
        self._scheduler_name = scheduler_name
        self._queue = queue

    def expand(self, given: Given) -> tuple[ScenarioJob, list[KubeObject]]:
        """Return a job with its pods, and the other objects that the controller creates. Raises ManifestError."""
        assert isinstance(given.item, VolcanoJob)
        job = self._admitted(given, given.item)
        objects: list[KubeObject] = []
        group = f"{job.namespace}/{group_name(job)}"
        if group not in self._groups:
            objects.append(group_for(job, self._priorities))
        blocked = ""
        for index, volume in enumerate(job.spec.volumes):
            name = claim_name(job, index)
            if f"{job.namespace}/{name}" in self._claims:
                continue
            if volume.volume_claim is None:
                blocked = missing_claim(name)
            else:
                objects.append(claim_of(claim_document(job, index), job.namespace))
        pods = {} if job.status.state.phase in _AT_REST else dict(self._pods(given, job))
        return ScenarioJob(job, group, pods, blocked), objects

    def _admitted(self, given: Given, item: VolcanoJob) -> VolcanoJob:
        """Return the job as the API server would store it."""
        uid = item.uid or uid_of("Job.batch.volcano.sh", item.namespace, item.name)
        metadata = _replace(item.metadata, namespace=item.namespace, uid=uid)
        job = with_defaults(_replace(item, metadata=metadata), scheduler_name=self._scheduler_name, queue=self._queue)
        for problem in validation_errors(job):
            raise given.fault(problem, "spec")
        if sum(task.replicas for task in job.spec.tasks) > MOST_PODS:
            raise given.fault(f"more pods than a simulation takes ({MOST_PODS})", "spec", "tasks")
        return job

    def _pods(self, given: Given, job: VolcanoJob) -> Iterator[tuple[str, list[Pod]]]:
        try:
            plugins = JobPlugins(job)
        except JobPluginError as error:
            raise given.fault(str(error), "spec", "plugins") from None
        if plugins.ignored:
            raise given.fault(plugins.ignored[0], "spec", "plugins")
        for number, task in enumerate(job.spec.tasks):
            steps = ("spec", "tasks", number, "template")
            try:
                made = [pod_document(job, task, index, plugins) for index in range(task.replicas)]
                missing = [each for each in made if f"{job.namespace}/{each['metadata']['name']}" not in self._names]
                for each in missing:
                    each["metadata"]["uid"] = ""
                    self._admission.complete(each)
                    each["metadata"]["uid"] = uid_of("Pod", job.namespace, each["metadata"]["name"])
                yield task.name, [msgspec.convert(each, Pod) for each in missing]
            except AdmissionError as error:
                raise given.fault(error.problem, *steps, *error.steps, remedy=error.remedy) from None
            except JobPluginError as error:
                raise given.fault(str(error), "spec", "plugins") from None


class JobPods:
    """The pods of jobs that their controllers have not created yet."""

    def __init__(self, jobs: Iterable[ScenarioJob]) -> None:
        self._jobs = list(jobs)
        self._missing = {(each.group, task): pods for each in self._jobs for task, pods in each.pods.items() if pods}
        self._task_of = {pod.uid: (group, task) for (group, task), pods in self._missing.items() for pod in pods}
        self._started: dict[str, Counter[str]] = {}

    def __contains__(self, uid: str) -> bool:
        """Return whether a pod belongs to a job."""
        return uid in self._task_of

    def started(self, uid: str) -> None:
        """Count a pod as running."""
        if (found := self._task_of.get(uid)) is not None:
            group, task = found
            self._started.setdefault(group, Counter())[task] += 1

    def create(self, phase_of: Mapping[str, str]) -> list[Pod]:
        """Return the pods that controllers create now, according to the phases of the PodGroups."""
        made: list[Pod] = []
        for each in self._jobs:
            if each.blocked or phase_of.get(each.group, "") in ("", PENDING):
                continue
            started = self._started.get(each.group, Counter())
            for task in each.job.spec.tasks:
                if (each.group, task.name) in self._missing and may_start(each.job, task, started):
                    made += self._missing.pop((each.group, task.name))
        return made

    def waiting(self) -> Iterator[tuple[Pod, str]]:
        """Yield the pods that were not created, with the reason; it is empty if their gang was not admitted."""
        for each in self._jobs:
            for task in each.job.spec.tasks:
                text = each.blocked
                if not text and self._started.get(each.group):
                    text = f"task {task.name} waits for tasks that it depends on"
                for pod in self._missing.get((each.group, task.name), ()):
                    yield pod, text
