"""Schedules of CronJobs.

They are parsed here, because their syntax and its errors are those of Kubernetes (`?`, names, `@daily`,
`@every 5m`), and no dependency has them.
"""

import datetime
import functools
import math
import zoneinfo
from typing import Final, NamedTuple

from mooring.cel.conversions import parse_duration

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_NANOSECONDS: Final = 1_000_000_000
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

    def after(self, moment: float, since: float | None = None) -> float:
        """Return the first time after a moment, in seconds since the epoch; infinity if there is none.

        ``since`` only matters for an ``Interval``.
        """
        return self._search(moment, 1)

    def latest(self, moment: float, since: float | None = None) -> float:
        """Return the last time until a moment, in seconds since the epoch; minus infinity if there is none.

        ``since`` only matters for an ``Interval``.
        """
        return self._search(moment, -1)

    def local_time(self, moment: float) -> str:
        """Return a moment in the time zone of the schedule, as in RFC 3339."""
        return _local_time(moment, self.zone)

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


class Interval(NamedTuple):
    """The times of a CronJob with `@every`: they depend on the last time, or on the creation of the CronJob."""

    seconds: int
    zone: datetime.tzinfo

    def after(self, moment: float, since: float | None = None) -> float:
        """Return the first time after a moment, counted from another one (by default from the moment itself)."""
        start = math.floor(moment if since is None else since)
        return float(start + (max((moment - start) // self.seconds, 0) + 1) * self.seconds)

    def latest(self, moment: float, since: float | None = None) -> float:
        """Return the last time until a moment, counted from another one; minus infinity if there is none."""
        before = self.after(moment, since) - self.seconds
        return before if since is not None and before > since else -math.inf

    def local_time(self, moment: float) -> str:
        """Return a moment in the time zone of the CronJob, as in RFC 3339."""
        return _local_time(moment, self.zone)


def _local_time(moment: float, zone: datetime.tzinfo) -> str:
    text = datetime.datetime.fromtimestamp(moment, tz=zone).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z")


@functools.lru_cache(maxsize=1024)
def parse_schedule(text: str, zone: str = "") -> Schedule | Interval:
    """Parse the schedule of a CronJob. Raises ValueError."""
    if text.startswith(_EVERY):
        duration = parse_duration(text.removeprefix(_EVERY))
        if duration is None:
            raise ValueError(
                f"failed to parse duration {text[:50]}: write a number with its unit, such as @every 1h30m"
            )
        return Interval(max(duration // _NANOSECONDS, 1), _zone(zone))
    if text.startswith("@") and text not in _MACROS:
        raise ValueError(f"unrecognized descriptor: {text[:50]}")
    fields = _MACROS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    sets = [_values(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)]
    any_day = [each in {"*", "?", "*/1"} for each in (fields[2], fields[4])]
    return Schedule(sets[0], sets[1], sets[2], sets[3], sets[4], any(any_day), _zone(zone))


def _zone(name: str) -> datetime.tzinfo:
    try:
        return zoneinfo.ZoneInfo(name) if name else datetime.UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


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
