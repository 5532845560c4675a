"""Jobs: pods that are to end well, so many times, so many at once, with so many failures forgiven."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import (
    Document,
    condition,
    controller_of,
    look,
    replaced,
    rfc3339,
    seconds_of,
    with_metadata,
)
from mooring.apiserver.workloads import COMPLETION_INDEX, JOB_TRACKING, job_pod
from mooring.cluster.controllers.base import Controller, Name
from mooring.cluster.controllers.pods import is_active, is_ready
from mooring.cluster.store import Change

JOBS: Final = "jobs.batch"
_COMPONENT: Final = "job-controller"
#: After a failure the next try waits this long, twice as long each time, up to the longest.
_BACKOFF: Final = 10.0
_LONGEST: Final = 600.0


class Jobs(Controller):
    """Runs Jobs."""

    watched = frozenset({JOBS, "pods"})

    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The Job itself, or the one that a pod belongs to."""
        metadata = change.stored.document["metadata"]
        if storage == JOBS:
            return [(metadata["namespace"], metadata["name"])]
        owner = controller_of(change.stored.document) if storage == "pods" else None
        return [(metadata["namespace"], owner["name"])] if owner and owner["kind"] == "Job" else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Count what ended, start what is missing, and say when all is done."""
        job = self.tools.find(JOBS, namespace, name)
        if job is None:
            self._release(namespace, name)
            return None
        if job["metadata"].get("deletionTimestamp"):
            return None
        status = self._counted(job, dict(job.get("status") or {}))
        if finished(job):
            self._write(job, status, [])
            return self._expire(job)
        pods = self._pods(job)
        if job["spec"].get("suspend"):
            self._suspend(job, status, pods)
            return None
        status.setdefault("startTime", rfc3339(self.tools.now()))
        job = {**job, "status": _resumed(status, rfc3339(self.tools.now()))}
        status = job["status"]
        verdict = self._verdict(job, status, pods)
        if verdict is not None:
            return self._finish(job, status, pods, *verdict)
        again = self._start(job, status, pods)
        self._write(job, status, self._pods(job))
        return again

    def _pods(self, job: Document) -> list[Document]:
        return self.tools.index.controlled(job["metadata"]["uid"], "pods")

    def _release(self, namespace: str, name: str) -> None:
        """Let go of pods whose Job is gone."""
        for stored in list(self.tools.store.objects("pods", namespace)):
            owner = controller_of(stored.document)
            if owner and owner["kind"] == "Job" and owner["name"] == name:
                self._untrack(stored.document)

    def _untrack(self, pod: Document) -> None:
        metadata = pod["metadata"]
        self.tools.registry.modify("pods", metadata["namespace"], metadata["name"], _without_tracking)

    def _counted(self, job: Document, status: Document) -> Document:
        """Add up pods that ended since the last time, each once: then its finalizer goes."""
        indexes = set(_numbers(status.get("completedIndexes", "")))
        indexed = job["spec"].get("completionMode") == "Indexed"
        for pod in self._pods(job):
            if JOB_TRACKING not in (pod["metadata"].get("finalizers") or ()):
                continue
            phase = look(pod, "status", "phase")
            if phase == "Succeeded":
                if not indexed:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                elif (number := _index(pod)) is not None:
                    indexes.add(number)
            elif phase == "Failed" or pod["metadata"].get("deletionTimestamp"):
                status["failed"] = status.get("failed", 0) + 1
            else:
                continue
            self._untrack(pod)
        if indexed and indexes:
            status["completedIndexes"] = _ranges(indexes)
            status["succeeded"] = len(indexes)
        return status

    def _suspend(self, job: Document, status: Document, pods: list[Document]) -> None:
        for pod in filter(is_active, pods):
            self.tools.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        status.pop("startTime", None)
        now = rfc3339(self.tools.now())
        if (condition(job, "Suspended") or {}).get("status") != "True":
            fresh = _job_condition("Suspended", now, "JobSuspended", "Job suspended")
            others = [each for each in status.get("conditions", ()) if each["type"] != "Suspended"]
            status["conditions"] = [*others, fresh]
        self._write(job, status, [])

    def _verdict(self, job: Document, status: Document, pods: list[Document]) -> tuple[str, str, str] | None:
        """Whether the Job is over: the condition, its reason and its message."""
        spec = job["spec"]
        restarts = sum(
            each.get("restartCount", 0)
            for pod in pods
            if is_active(pod)
            for each in look(pod, "status", "containerStatuses") or ()
        )
        if status.get("failed", 0) > spec.get("backoffLimit", 6) or (
            restarts and restarts + status.get("failed", 0) > spec.get("backoffLimit", 6)
        ):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and self.tools.now() - seconds_of(status["startTime"]) >= deadline:
            return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        wanted, done = spec.get("completions"), status.get("succeeded", 0)
        if wanted is not None and done >= wanted:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if wanted is None and done and not any(map(is_active, pods)):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _finish(
        self, job: Document, status: Document, pods: list[Document], kind: str, reason: str, message: str
    ) -> float | None:
        now = rfc3339(self.tools.now())
        for pod in filter(is_active, pods):
            self._untrack(pod)
            self.tools.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        added = [_job_condition(each, now, reason, message) for each in (before, kind)]
        status["conditions"] = [*status.get("conditions", ()), *added]
        if kind == "Complete":
            status["completionTime"] = now
            self.tools.recorder.record(_COMPONENT, job, "Normal", "Completed", "Job completed")
        else:
            self.tools.recorder.record(_COMPONENT, job, "Warning", reason, message)
        self._write(job, status, [])
        return self._expire({**job, "status": status})

    def _start(self, job: Document, status: Document, pods: list[Document]) -> float | None:
        """Make the pods that are missing; the answer is when to look again."""
        spec = job["spec"]
        active = [each for each in pods if is_active(each)]
        limit = spec.get("parallelism", 1)
        if spec.get("completions") is not None:
            limit = min(limit, spec["completions"] - status.get("succeeded", 0))
        elif status.get("succeeded"):
            limit = len(active)
        for pod in active[limit:]:
            self._untrack(pod)
            self.tools.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        wait = self._backoff(status, pods)
        deadline = spec.get("activeDeadlineSeconds")
        ends = None if deadline is None else seconds_of(status["startTime"]) + deadline - self.tools.now()
        if len(active) < limit and wait > 0:
            return wait if ends is None else min(wait, ends)
        free = self._free_indexes(job, status, active)
        for _ in range(limit - len(active)):
            stored = self.tools.create("pods", job["metadata"]["namespace"], job_pod(job, next(free, None)))
            if stored is None:
                return 5.0
            message = f"Created pod: {stored.document['metadata']['name']}"
            self.tools.recorder.record(_COMPONENT, job, "Normal", "SuccessfulCreate", message)
        return ends

    def _backoff(self, status: Document, pods: list[Document]) -> float:
        """How long to wait because of the last failure."""
        failed = status.get("failed", 0)
        if not failed:
            return 0.0
        ends = [
            seconds_of(each["state"]["terminated"]["finishedAt"])
            for pod in pods
            if look(pod, "status", "phase") == "Failed"
            for each in look(pod, "status", "containerStatuses") or ()
            if look(each, "state", "terminated", "finishedAt")
        ]
        if not ends:
            return 0.0
        delay = min(_BACKOFF * 2.0 ** (failed - 1), _LONGEST)
        return float(max(ends) + delay - self.tools.now())

    def _free_indexes(self, job: Document, status: Document, active: list[Document]) -> Any:
        if job["spec"].get("completionMode") != "Indexed":
            return iter(())
        taken = set(_numbers(status.get("completedIndexes", ""))) | {_index(each) for each in active}
        return iter([each for each in range(job["spec"]["completions"]) if each not in taken])

    def _write(self, job: Document, status: Document, pods: list[Document]) -> None:
        metadata = job["metadata"]
        current = self.tools.find(JOBS, metadata["namespace"], metadata["name"])
        if current is None:
            return
        active = [each for each in pods if is_active(each)]
        going = sum(bool(each["metadata"].get("deletionTimestamp")) for each in pods)
        status = replaced(status, active=len(active) or None, ready=0, terminating=going)
        status["ready"] = sum(is_ready(each) for each in active)
        status["uncountedTerminatedPods"] = {}
        if finished({"status": status}):
            status.pop("uncountedTerminatedPods")
        self.tools.set_status(JOBS, current, status)

    def _expire(self, job: Document) -> float | None:
        """Delete a Job that ended long enough ago."""
        after = job["spec"].get("ttlSecondsAfterFinished")
        ended = condition(job, "Complete") or condition(job, "Failed")
        if after is None or ended is None:
            return None
        left = seconds_of(ended["lastTransitionTime"]) + float(after) - self.tools.now()
        if left > 0:
            return left
        self.tools.delete(JOBS, job["metadata"]["namespace"], job["metadata"]["name"])
        return None


def finished(job: Document) -> bool:
    """Whether the Job is over, for better or worse."""
    return any((condition(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


def _without_tracking(pod: Document) -> Document:
    rest = [each for each in pod["metadata"].get("finalizers", ()) if each != JOB_TRACKING]
    if "finalizers" not in pod["metadata"]:
        return pod
    return with_metadata(pod, finalizers=rest or None)


def _resumed(status: Document, now: str) -> Document:
    conditions = [
        {**each, "status": "False", "reason": "JobResumed", "message": "Job resumed", "lastTransitionTime": now}
        if each["type"] == "Suspended" and each["status"] == "True"
        else each
        for each in status.get("conditions", ())
    ]
    return {**status, "conditions": conditions} if conditions else status


def _job_condition(kind: str, now: str, reason: str, message: str) -> Document:
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def _index(pod: Document) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isdigit() else None


def _numbers(text: str) -> Iterable[int]:
    """The numbers that `0-3,5` means."""
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)


def _ranges(numbers: set[int]) -> str:
    """Numbers as `0-3,5`."""
    runs: list[list[int]] = []
    for each in sorted(numbers):
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ",".join(
        f"{low}" if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}" for low, high in runs
    )
