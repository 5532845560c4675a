"""CronJobs: rules, and the controller that creates their Jobs."""

import math
from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.cron_schedule import parse_schedule
from mooring.apiserver.documents import Document, condition, deep_copy, nested_field, rfc3339, seconds_of
from mooring.apiserver.field_errors import FieldError, invalid, required
from mooring.apiserver.field_rules import choice
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.pod_validation import template_errors
from mooring.apiserver.workloads import owner_reference
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.deletion import DeleteOptions
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.job import JOBS, is_finished_job
from mooring.cluster.kinds.workload import WORKLOAD_COLUMNS, affected_owners
from mooring.cluster.selectors import selector_of
from mooring.cluster.store import Change
from mooring.cluster.table_printer import NONE, age, columns, container_cells, selector_text, since

CRON_JOBS: Final = "cronjobs.batch"
_COMPONENT: Final = "cronjob-controller"
_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: The longest name: the names of the Jobs are longer.
_MAX_NAME: Final = 52


def _set_cron_job_defaults(document: Document) -> None:
    spec = document["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    spec["jobTemplate"].setdefault("metadata", {})
    inner = spec["jobTemplate"].setdefault("spec", {}).setdefault("template", {})
    set_template_defaults(inner)


def _cron_job_errors(document: Document) -> list[FieldError]:
    spec, name = document["spec"], document["metadata"].get("name", "")
    errors: list[FieldError] = []
    if len(name) > _MAX_NAME:
        errors.append(invalid("metadata.name", name, f"must be no more than {_MAX_NAME} characters"))
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone") or ""
    if not schedule:
        errors.append(required("spec.schedule"))
    else:
        try:
            parse_schedule(schedule)
        except ValueError as error:
            errors.append(invalid("spec.schedule", schedule, str(error)))
        else:
            try:
                parse_schedule(schedule, zone)
            except ValueError as error:
                errors.append(invalid("spec.timeZone", zone, str(error)))
    errors += choice(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    inner = nested_field(spec, "jobTemplate", "spec", "template") or {}
    return errors + template_errors(inner, "spec.jobTemplate.spec.template")


def _cron_job_row(document: Document, now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status", {})
    last = status.get("lastScheduleTime")
    inner = nested_field(spec, "jobTemplate", "spec") or {}
    names, images = container_cells(nested_field(inner, "template", "spec", "containers") or ())
    return [
        document["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone", NONE),
        "True" if spec.get("suspend") else "False",
        len(status.get("active", ())),
        since(last, now) if last else NONE,
        age(document, now),
        names,
        images,
        selector_text(inner.get("selector")),
    ]


class CronJobController(Controller):
    """A controller that creates the Jobs of CronJobs at the scheduled times."""

    name = "cronjob-controller"
    watched = frozenset({CRON_JOBS, JOBS})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the CronJob, or the owner of a Job."""
        return affected_owners(self.tools, storage, change, CRON_JOBS, lambda _: selector_of(None))

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Create a Job that is due, delete old ones, update the status, and return the seconds until the next time."""
        cron_job = self.tools.find(CRON_JOBS, namespace, name)
        if cron_job is None or cron_job["metadata"].get("deletionTimestamp"):
            return None
        spec, now = cron_job["spec"], self.tools.now()
        status = dict(cron_job.get("status") or {})
        jobs = self.tools.index.controlled(cron_job["metadata"]["uid"], JOBS)
        again = None
        if not spec.get("suspend"):
            schedule = parse_schedule(spec["schedule"], spec.get("timeZone") or "")
            handled = self._handled(cron_job)
            due = schedule.latest(now, handled)
            if due > handled and now - due <= spec.get("startingDeadlineSeconds", math.inf):
                self._start(cron_job, status, jobs, due)
            following = schedule.after(now, handled)
            again = following - now if following < math.inf else None
        jobs = self.tools.index.controlled(cron_job["metadata"]["uid"], JOBS)
        self._trim(cron_job, jobs)
        self._report(cron_job, status, jobs)
        return again

    def _handled(self, cron_job: Document) -> float:
        """Return the time until which Jobs have been created."""
        last = nested_field(cron_job, "status", "lastScheduleTime")
        return seconds_of(last or cron_job["metadata"]["creationTimestamp"])

    def _start(self, cron_job: Document, status: Document, jobs: list[Document], due: float) -> None:
        metadata, spec = cron_job["metadata"], cron_job["spec"]
        active = [each for each in jobs if not is_finished_job(each)]
        if active and spec.get("concurrencyPolicy") == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.tools.recorder.record(_COMPONENT, cron_job, "Normal", "JobAlreadyActive", message)
            return
        if spec.get("concurrencyPolicy") == "Replace":
            for each in active:
                name = each["metadata"]["name"]
                self.tools.delete(JOBS, metadata["namespace"], name, DeleteOptions(propagation="Background"))
                self.tools.recorder.record(_COMPONENT, cron_job, "Normal", "SuccessfulDelete", f"Deleted job {name}")
        template = deep_copy(spec["jobTemplate"])
        inner = template.get("metadata") or {}
        name = f"{metadata['name']}-{int(due) // 60}"
        made = {key: inner[key] for key in ("labels", "annotations") if inner.get(key)}
        made["annotations"] = {**made.get("annotations", {}), _SCHEDULED: rfc3339(due)}
        job = {
            "metadata": {**made, "name": name, "ownerReferences": [owner_reference(cron_job)]},
            "spec": template["spec"],
        }
        status["lastScheduleTime"] = rfc3339(due)
        if self.tools.create(JOBS, metadata["namespace"], job) is not None:
            self.tools.recorder.record(_COMPONENT, cron_job, "Normal", "SuccessfulCreate", f"Created job {name}")

    def _trim(self, cron_job: Document, jobs: list[Document]) -> None:
        """Delete finished Jobs beyond the history limits."""
        spec = cron_job["spec"]
        for kind, key in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            ended = [each for each in jobs if (condition(each, kind) or {}).get("status") == "True"]
            ended.sort(key=lambda each: (nested_field(each, "status", "startTime") or "", each["metadata"]["name"]))
            for each in ended[: max(len(ended) - spec.get(key, 1), 0)]:
                metadata = each["metadata"]
                options = DeleteOptions(propagation="Background")
                self.tools.delete(JOBS, metadata["namespace"], metadata["name"], options)

    def _report(self, cron_job: Document, status: Document, jobs: list[Document]) -> None:
        active = [
            {
                "apiVersion": each["apiVersion"],
                "kind": each["kind"],
                "name": each["metadata"]["name"],
                "namespace": each["metadata"]["namespace"],
                "resourceVersion": each["metadata"]["resourceVersion"],
                "uid": each["metadata"]["uid"],
            }
            for each in jobs
            if not is_finished_job(each)
        ]
        known = {each["uid"]: each for each in status.pop("active", ())}
        if active:
            # The version of a Job is that at its creation.
            status["active"] = [known.get(each["uid"], each) for each in active]
        times = [nested_field(each, "status", "completionTime") for each in jobs]
        if ended := max(filter(None, [*times, status.get("lastSuccessfulTime")]), default=None):
            status["lastSuccessfulTime"] = ended
        self.tools.set_status(CRON_JOBS, cron_job, status)


CRON_JOB: Final = Kind(
    Resource("batch", "v1", "cronjobs", "CronJob", short_names=("cj",), categories=("all",), subresources=("status",)),
    set_defaults=_set_cron_job_defaults,
    validate=_cron_job_errors,
    columns=columns(
        f"Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age {WORKLOAD_COLUMNS}", _cron_job_row
    ),
    counts_generation=True,
    controllers=(CronJobController,),
)
