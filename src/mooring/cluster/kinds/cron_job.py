"""CronJobs: schedules, rules, and the controller that creates their Jobs.

Schedules are parsed here, because their syntax and its errors are those of Kubernetes (`?`, names, `@daily`), and no
dependency has them. `@every` is rejected.
"""

import datetime
import functools
import math
import zoneinfo
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from mooring.apiserver.documents import Document, condition, deep_copy, nested_field, rfc3339, seconds_of
from mooring.apiserver.field_errors import FieldError, invalid, required
from mooring.apiserver.field_rules import choice
from mooring.apiserver.pod_defaults import set_template_defaults
from mooring.apiserver.workloads import owner_reference
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.deletion import DeleteOptions
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.job import JOBS, is_finished_job
from mooring.cluster.kinds.pod_validation import template_errors
from mooring.cluster.kinds.workload import WORKLOAD_COLUMNS, affected_owners
from mooring.cluster.selectors import selector_of
from mooring.cluster.store import Change
from mooring.cluster.table_printer import NONE, age, columns, container_cells, selector_text, since

CRON_JOBS: Final = "cronjobs.batch"
_COMPONENT: Final = "cronjob-controller"
_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: The longest name: the names of the Jobs are longer.
_MAX_NAME: Final = 52
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS: Final = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
#: The lowest and the highest value of each field, and the names of values.
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
#: Every valid schedule recurs within this time, because of leap years.
_SEARCHED_DAYS: Final = 8 * 366


class Schedule(NamedTuple):
    """The times of a CronJob: the values of each field that match."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: Whether a day must match both day fields. Otherwise one of them is enough.
    both_days: bool
    zone: datetime.tzinfo

    def _matches(self, day: datetime.date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.both_days else (of_month or of_week)

    def after(self, moment: float) -> float:
        """Return the first time after a moment, in seconds since the epoch; infinity if there is none."""
        return self._search(moment, 1)

    def latest(self, moment: float) -> float:
        """Return the last time until a moment, in seconds since the epoch; minus infinity if there is none."""
        return self._search(moment, -1)

    def _search(self, moment: float, step: int) -> float:
        first = datetime.datetime.fromtimestamp(moment, tz=self.zone).date()
        hours = sorted(self.hours, reverse=step < 0)
        minutes = sorted(self.minutes, reverse=step < 0)
        for number in range(-1, _SEARCHED_DAYS):
            day = first + datetime.timedelta(days=number * step)
            if not self._matches(day):
                continue
            for hour in hours:
                begins = datetime.datetime(day.year, day.month, day.day, hour, tzinfo=self.zone).timestamp()
                if begins > moment if step < 0 else begins + 3600 <= moment:
                    continue
                for minute in minutes:
                    found = datetime.datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone).timestamp()
                    if found > moment if step > 0 else found <= moment:
                        return found
        return math.inf * step


@functools.lru_cache(maxsize=1024)
def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Parse the schedule of a CronJob. Raises ValueError."""
    if text.startswith("@every"):
        raise ValueError("the embedded cluster does not support @every: use five fields, such as */5 * * * *")
    fields = _MACROS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    sets = [_values(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)]
    any_day = [each in {"*", "?", "*/1"} for each in (fields[2], fields[4])]
    try:
        where: datetime.tzinfo = zoneinfo.ZoneInfo(zone) if zone else datetime.UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {zone}") from None
    return Schedule(sets[0], sets[1], sets[2], sets[3], sets[4], any(any_day), where)


def _values(field: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    """Parse one field, such as `*/5`, `1-5` or `mon,wed`."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step_text = part.partition("/")
        start_text, dash, end_text = span.partition("-")
        if span in {"*", "?"}:
            start, end = low, high
        else:
            start = _number(start_text, names)
            end = _number(end_text, names) if dash else high if step_text else start
        step = _number(step_text, {}) if "/" in part else 1
        if start < low:
            raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
        if end > high:
            raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
        if start > end:
            raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
        if not step:
            raise ValueError(f"step of range should be a positive number: {part}")
        found.update(range(start, end + 1, step))
    return frozenset(found)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ValueError(f'failed to parse int from {text[:50]}: strconv.Atoi: parsing "{text[:50]}": invalid syntax')
    return int(text)


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
            due = schedule.latest(now)
            if due > self._handled(cron_job) and now - due <= spec.get("startingDeadlineSeconds", math.inf):
                self._start(cron_job, status, jobs, due)
            following = schedule.after(now)
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
