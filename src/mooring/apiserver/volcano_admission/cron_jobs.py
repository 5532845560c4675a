"""Validation of CronJobs (batch.volcano.sh)."""

import re
from collections.abc import Iterator
from typing import Final

from mooring.api.label_validation import label_key_errors
from mooring.api.volcano_jobs import VolcanoCronJob, VolcanoCronJobSpec
from mooring.apiserver.cron_schedule import parse_schedule

#: A job's name has at most 63 characters, and that of a CronJob's job has a suffix of 11.
_MAX_CRON_NAME: Final = 52
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def cron_job_errors(cron: VolcanoCronJob) -> list[str]:
    """Return the errors of a new or changed CronJob."""
    found = [*_schedule_errors(cron.spec), *_zone_errors(cron.spec.time_zone)]
    if len(cron.name) > _MAX_CRON_NAME:
        found.append(
            f"cronJob name must be no more than {_MAX_CRON_NAME} characters to accommodate job name suffix"
            " (max 63 total)"
        )
    elif faults := label_key_errors(cron.name):
        found.append(f'invalid cronJob name "{cron.name}": {"; ".join(faults)}')
    return found


def _schedule_errors(spec: VolcanoCronJobSpec) -> Iterator[str]:
    if not spec.schedule:
        yield "schedule is required, but got empty"
    elif "TZ" in spec.schedule:
        yield "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    else:
        try:
            parse_schedule(spec.schedule)
        except ValueError as error:
            yield f"schedule is not a valid cron expression: {error}"


def _zone_errors(zone: str | None) -> Iterator[str]:
    if zone is None:
        return
    if not zone:
        yield "timeZone must be nil or non-empty string, got empty string"
        return
    if any(each in {".", ".."} or each.startswith("-") or not _ZONE_PART.fullmatch(each) for each in zone.split("/")):
        yield "unknown timeZone"
    elif zone.lower() == "local":
        yield "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
    else:
        try:
            parse_schedule("* * * * *", zone)
        except ValueError:
            yield "invalid timeZone"
