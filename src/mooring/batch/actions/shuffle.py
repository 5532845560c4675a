"""shuffle: evict the running tasks that plugins choose."""

from __future__ import annotations

from mooring.batch.session import Session
from mooring.batch.task import RUNNING


def shuffle(session: Session) -> None:
    """Evict the tasks that plugins choose among all running ones."""
    running = [task for job in session.jobs.values() for task in job.of_status(RUNNING)]
    for victim in session.victim_tasks(running):
        session.evict(victim, "shuffle")
