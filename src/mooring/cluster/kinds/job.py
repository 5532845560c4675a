"""Jobs: rules, and the controller that runs them to completion."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.label_selectors import parse_int
from mooring.apiserver.documents import (
    Document,
    condition,
    controller_of,
    nested_field,
    replaced,
    rfc3339,
    seconds_of,
    with_metadata,
)
from mooring.apiserver.field_errors import FieldError, invalid, not_negative, required
from mooring.apiserver.field_rules import choice, immutable
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.workloads import COMPLETION_INDEX, JOB_TRACKING, job_pod, label_job
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.workload import (
    TEMPLATE,
    WORKLOAD_COLUMNS,
    adopt_and_release,
    affected_owners,
    container_names,
    is_active,
    is_ready,
    selected_template_errors,
    template_warnings,
    workload_selector,
)
from mooring.cluster.selectors import text_of
from mooring.cluster.store import Change, Store
from mooring.cluster.table_printer import age, columns, human_duration, selector_text

JOBS: Final = "jobs.batch"
_COMPONENT: Final = "job-controller"
#: The backoff after the first failure in seconds. It doubles with each failure, up to the maximum.
_BACKOFF: Final = 10.0
_LONGEST: Final = 600.0
_UID: Final = "batch.kubernetes.io/controller-uid"
_JOB_STATES = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _set_job_defaults(document: Document) -> None:
    spec = document["spec"]
    _set_job_spec_defaults(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


def _set_job_spec_defaults(spec: Document) -> None:
    if "parallelism" not in spec:
        spec["parallelism"] = 1
        spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
    set_template_defaults(spec["template"])


def _prepare(document: Document, _store: Store, _now: float) -> None:
    document["status"] = {}
    label_job(document)


def _job_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    for key in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        errors += not_negative(spec.get(key), f"spec.{key}")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        errors.append(required("spec.completions", "when completion mode is Indexed"))
    if (
        spec.get("selector")
        and not spec.get("manualSelector")
        and set(spec["selector"].get("matchLabels", {})) != {_UID}
    ):
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    errors += choice(spec.get("completionMode"), "spec.completionMode", ("NonIndexed", "Indexed"))
    return errors + selected_template_errors(spec, restarts=("OnFailure", "Never"))


def _job_update_errors(new: Document, old: Document) -> list[FieldError]:
    fresh, before = new["spec"], old["spec"]
    errors: list[FieldError] = []
    if before.get("completionMode") != "Indexed" or fresh.get("completions") != fresh.get("parallelism"):
        errors += immutable(fresh.get("completions"), before.get("completions"), "spec.completions")
    for key in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        errors += immutable(fresh.get(key), before.get(key), f"spec.{key}")
    if not (before.get("suspend") and not nested_field(old, "status", "startTime")):
        errors += immutable(fresh.get("template"), before.get("template"), TEMPLATE)
    return errors


def _job_row(document: Document, now: float) -> list[Any]:
    spec, status, metadata = document["spec"], document.get("status", {}), document["metadata"]
    done, parallel = status.get("succeeded", 0), spec.get("parallelism", 0)
    if "completions" in spec:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    duration = ""
    if status.get("startTime"):
        end = seconds_of(status["completionTime"]) if status.get("completionTime") else now
        duration = human_duration(end - seconds_of(status["startTime"]))
    true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    deleted = "Terminating" if metadata.get("deletionTimestamp") else None
    state = next((each or deleted for each in _JOB_STATES if each in true or (not each and deleted)), "Running")
    return [
        metadata["name"], state, completions, duration, age(document, now), *container_names(document),
        selector_text(spec.get("selector")),
    ]  # fmt: skip


def _job_is_successful(document: Document) -> str:
    conditions = nested_field(document, "status", "conditions") or ()
    return text_of(any(each["type"] == "Complete" and each["status"] == "True" for each in conditions))


class JobController(Controller):
    """A controller that runs Jobs."""

    name = "job-controller"
    watched = frozenset({JOBS, "pods"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the Job, or the owner of a pod."""
        return affected_owners(self.tools, storage, change, JOBS, workload_selector)

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Count finished pods, create missing ones, and update the status."""
        job = self.tools.find(JOBS, namespace, name)
        if job is None:
            self._release(namespace, name)
            return None
        if job["metadata"].get("deletionTimestamp"):
            return None
        adopt_and_release(self.tools, job, "pods", workload_selector(job), may_adopt=is_active, finalizer=JOB_TRACKING)
        status = self._counted(job, dict(job.get("status") or {}))
        if is_finished_job(job):
            self._write(job, status, [])
            return self._expire(job)
        pods = self._pods(job)
        if job["spec"].get("suspend"):
            self._suspend(job, status, pods)
            return None
        status.setdefault("startTime", rfc3339(self.tools.now()))
        job = {**job, "status": _resumed(status, rfc3339(self.tools.now()))}
        status = job["status"]
        verdict = self._decision(job, status, pods)
        if verdict is not None:
            return self._finish(job, status, pods, *verdict)
        again = self._start(job, status, pods)
        self._write(job, status, self._pods(job))
        return again

    def _pods(self, job: Document) -> list[Document]:
        return self.tools.index.controlled(job["metadata"]["uid"], "pods")

    def _release(self, namespace: str, name: str) -> None:
        """Remove the tracking finalizer from pods whose Job no longer exists."""
        for stored in list(self.tools.store.objects("pods", namespace)):
            owner = controller_of(stored.document)
            if owner and owner["kind"] == "Job" and owner["name"] == name:
                self._untrack(stored.document)

    def _untrack(self, pod: Document) -> None:
        metadata = pod["metadata"]
        self.tools.registry.modify("pods", metadata["namespace"], metadata["name"], _without_tracking)

    def _counted(self, job: Document, status: Document) -> Document:
        """Count pods that have finished since the last time in the status, and remove their finalizer."""
        indexes = set(_numbers(status.get("completedIndexes", "")))
        indexed = job["spec"].get("completionMode") == "Indexed"
        for pod in self._pods(job):
            if JOB_TRACKING not in (pod["metadata"].get("finalizers") or ()):
                continue
            phase = nested_field(pod, "status", "phase")
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

    def _decision(self, job: Document, status: Document, pods: list[Document]) -> tuple[str, str, str] | None:
        """Return the type, reason and message of the final condition, or None if the Job is not finished."""
        spec = job["spec"]
        restarts = sum(
            each.get("restartCount", 0)
            for pod in pods
            if is_active(pod)
            for each in nested_field(pod, "status", "containerStatuses") or ()
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
        """Create missing pods, and return the seconds until the next reconciliation, if any."""
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
        """Return the seconds to wait after the last failure."""
        failed = status.get("failed", 0)
        if not failed:
            return 0.0
        ends = [
            seconds_of(each["state"]["terminated"]["finishedAt"])
            for pod in pods
            if nested_field(pod, "status", "phase") == "Failed"
            for each in nested_field(pod, "status", "containerStatuses") or ()
            if nested_field(each, "state", "terminated", "finishedAt")
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
        if is_finished_job({"status": status}):
            status.pop("uncountedTerminatedPods")
        self.tools.set_status(JOBS, current, status)

    def _expire(self, job: Document) -> float | None:
        """Delete a Job that finished `ttlSecondsAfterFinished` ago, or return the seconds until then."""
        after = job["spec"].get("ttlSecondsAfterFinished")
        ended = condition(job, "Complete") or condition(job, "Failed")
        if after is None or ended is None:
            return None
        left = seconds_of(ended["lastTransitionTime"]) + float(after) - self.tools.now()
        if left > 0:
            return left
        self.tools.delete(JOBS, job["metadata"]["namespace"], job["metadata"]["name"])
        return None


def is_finished_job(job: Document) -> bool:
    """Return whether the Job is complete or failed."""
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
    return parse_int(text) if text.isdigit() else None


def _numbers(text: str) -> Iterable[int]:
    """Parse indexes such as `0-3,5`."""
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)


def _ranges(numbers: set[int]) -> str:
    """Format indexes as `0-3,5`."""
    runs: list[list[int]] = []
    for each in sorted(numbers):
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ",".join(
        f"{low}" if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}" for low, high in runs
    )


JOB: Final = Kind(
    Resource("batch", "v1", "jobs", "Job", categories=("all",), subresources=("status",)),
    set_defaults=_set_job_defaults,
    prepare=_prepare,
    validate=_job_errors,
    validate_update=_job_update_errors,
    warnings=template_warnings,
    columns=columns(f"Name Status Completions Duration Age {WORKLOAD_COLUMNS}", _job_row),
    fields={"status.successful": _job_is_successful},
    counts_generation=True,
    controllers=(JobController,),
)
