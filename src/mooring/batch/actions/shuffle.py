"""shuffle: evict running tasks that plugins want to see go."""

from __future__ import annotations

from mooring.batch.session import Session
from mooring.batch.task import RUNNING


def shuffle(session: Session) -> None:
    """Ask about all running tasks, and evict those that are named."""
    running = [task for job in session.jobs.values() for task in job.of_status(RUNNING)]
    for victim in session.victim_tasks(running):
        session.evict(victim, "shuffle")
