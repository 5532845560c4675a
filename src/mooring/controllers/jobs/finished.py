"""Deletes jobs that are over, after the time that they ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import structlog

from mooring.api.meta import parse_time
from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.jobs.constants import FINISHED
from mooring.controllers.reconciler import Reconciler, Selection
from mooring.kube import Change, Conflict, NotFound, resource_of

log = structlog.get_logger("mooring.controller")


class FinishedJobs(Reconciler):
    """Sees to `ttlSecondsAfterFinished`."""

    name = "gc"

    def selections(self) -> Iterable[Selection]:
        """Jobs."""
        return (Selection.of(VolcanoJob),)

    def concerns(self, change: Change[Any]) -> Iterable[str]:
        """A job that is over and is not to stay."""
        return (change.new.key,) if isinstance(change.new, VolcanoJob) and _ends(change.new) else ()

    async def reconcile(self, key: str) -> float | None:
        """Delete a job, with its pods, if it is time."""
        job = self.view.get(VolcanoJob, key)
        if job is None or not _ends(job):
            return None
        over = job.status.state.last_transition_time
        left = parse_time(over or "") + (job.spec.ttl_seconds_after_finished or 0) - self.tools.clock()
        if left > 0:
            return left
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            # Neither a new job of that name, nor one that was changed (its time, perhaps) since we looked.
            "preconditions": {"uid": job.uid, "resourceVersion": job.metadata.resource_version},
        }
        with contextlib.suppress(NotFound, Conflict):
            path = resource_of(VolcanoJob).path(namespace=job.namespace, name=job.name)
            await self.tools.client.send("DELETE", path, options)
            log.info("deleted a job that is over", job=key, phase=job.status.state.phase)
        return None


def _ends(job: VolcanoJob) -> bool:
    return (
        job.spec.ttl_seconds_after_finished is not None
        and job.status.state.phase in FINISHED
        and job.status.state.last_transition_time is not None
        and job.metadata.deletion_timestamp is None
    )
