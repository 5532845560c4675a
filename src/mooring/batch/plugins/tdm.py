"""tdm: nodes that batch jobs may use at certain times of the day (time-division multiplexing)."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from mooring.api.label_selectors import parse_int
from mooring.batch.callbacks import PERMIT, REJECT
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import PENDING, RUNNING, SUCCEEDED, TaskInfo
from mooring.config.durations import DurationError, parse_duration
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts

Mask = npt.NDArray[np.bool_]

_ZONE = "tdm.revocable-zone."
_PERIOD = "tdm.evict.period"
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})")


class TimeDivision(BatchPlugin):
    """Admits preemptable tasks to revocable nodes while their zone is open, and evicts them when it closes."""

    name = "tdm"

    def on_session_open(self, session: Session) -> None:
        """Determine which zones are open and register callbacks."""
        self._session = session
        self._zones = {key.replace(_ZONE, "", 1): str(text) for key, text in self.arguments.items() if _ZONE in key}
        names = sorted({node.revocable_zone for node in session.nodes.values()} - {""} | set(self._zones))
        #: Zone -> why it is closed; empty if it is open.
        self._closed = {name: self._why_closed(name) for name in names}
        session.add_predicate(self._judge, columns=True, depends=_zone_of)
        session.add_node_order(self._score, columns=True, depends=_zone_of)
        session.add_preemptable(self._preemptable)
        session.add_victim_tasks(self._victims)
        session.add_job_order(lambda left, right: int(left.preemptable) - int(right.preemptable))
        session.add_job_pipelined(lambda job: PERMIT if job.is_pipelined else REJECT)
        session.add_job_starving(lambda job: not job.preemptable and PENDING in job.by_status)

    def _why_closed(self, zone: str) -> str:
        text = self._zones.get(zone)
        if text is None:
            return f"revocable zone {zone} not support"
        now = datetime.fromtimestamp(self._session.now)
        window = _window(text, now)
        if window is None:
            return f"revocable zone {text} format error"
        opens, closes = window
        inside = math.floor(opens.timestamp()) <= math.floor(now.timestamp()) <= math.floor(closes.timestamp())
        return "" if inside else f"current time beyond revocable zone {zone}:{text}"

    def _judge(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts | None:
        zones = (node.revocable_zone for node in nodes)
        statuses = [self._status(task, zone) if zone else None for zone in zones]
        return Verdicts.of(statuses) if any(statuses) else None

    def _status(self, task: TaskInfo, zone: str) -> Status | None:
        if self._closed[zone]:
            return Status.unresolvable(self._closed[zone])
        return None if task.revocable_zone else Status.unresolvable("not allow to dispatch to revocable node")

    def _score(self, task: TaskInfo, nodes: SessionNodes) -> tuple[npt.NDArray[np.float64], Mask]:
        zones = [node.revocable_zone for node in nodes]
        closed = np.array([bool(zone) and bool(self._closed[zone]) for zone in zones], dtype=np.bool_)
        wanted = bool(task.revocable_zone)
        scores = np.array([100.0 if zone and wanted else 0.0 for zone in zones])
        return scores, closed

    def _preemptable(self, preemptor: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Return, for a preemptor that is not preemptable, preemptable tasks on ordinary nodes, within budgets."""
        if preemptor.preemptable or preemptor.revocable_zone:
            return [], REJECT
        nodes = self._session.nodes
        chosen = [
            task
            for task in candidates
            if task.preemptable
            and task.status == RUNNING
            and task.node_name in nodes
            and not nodes[task.node_name].revocable_zone
        ]
        return self._within_budgets(chosen), PERMIT

    def _victims(self, _tasks: list[TaskInfo]) -> list[TaskInfo]:
        """Return preemptable tasks on nodes of closed zones, within budgets, at most once a period."""
        session = self._session
        last = session.memory.get(self.name)
        if isinstance(last, float) and last + self._period() > session.now:
            return []
        session.memory[self.name] = session.now
        found = []
        for zone in self._zones:
            if self._closed[zone]:
                on_zone = [
                    task
                    for node in session.nodes.values()
                    if node.revocable_zone == zone
                    for task in node.tasks.values()
                    if task.preemptable and task.status == RUNNING
                ]
                found += self._within_budgets(on_zone)
        return found

    def _period(self) -> float:
        text = self.arguments.get(_PERIOD)
        try:
            return parse_duration(text) / 1e9 if isinstance(text, str) else 60.0
        except DurationError:
            return 60.0

    def _within_budgets(self, tasks: list[TaskInfo]) -> list[TaskInfo]:
        by_job: dict[str, list[TaskInfo]] = {}
        for task in tasks:
            by_job.setdefault(task.job, []).append(task)
        jobs = self._session.jobs
        return [task for uid, own in by_job.items() if uid in jobs for task in own[: _most_evictions(jobs[uid])]]


def _zone_of(task: TaskInfo) -> str:
    return task.revocable_zone


def _window(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """Return when a zone opens and closes today; a window over midnight ends tomorrow."""
    ends = text.strip().split("-")
    if len(ends) != 2:
        return None
    times = [_TIME.fullmatch(end) for end in ends]
    if times[0] is None or times[1] is None:
        return None
    (hour, minute), (end_hour, end_minute) = ((int(part) for part in time.groups()) for time in times if time)
    if max(hour, end_hour) > 23 or max(minute, end_minute) > 59:
        return None
    opens = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    closes = now.replace(hour=end_hour, minute=end_minute, second=0, microsecond=0)
    return opens, closes + timedelta(days=1) if (end_hour, end_minute) <= (hour, minute) else closes


def _most_evictions(job: JobInfo) -> int:
    """Return how many tasks of a job may be evicted at a time: by its budget, or one."""
    running = job.count(RUNNING)
    if job.budget.max_unavailable:
        most = _number(job.budget.max_unavailable, len(job.tasks))
        gone = len(job.tasks) - job.count(SUCCEEDED, "Failed") - running
        return max(most - gone, 0)
    if job.budget.min_available:
        least = _number(job.budget.min_available, len(job.tasks))
        if running >= least:
            return running - least
    return 1


def _number(text: str, total: int) -> int:
    """Parse a number, or a percentage of the tasks rounded up; 0 for anything else."""
    number = parse_int(text.removesuffix("%"))
    if number is None:
        return 0
    return math.ceil(number * total / 100) if text.endswith("%") else number
