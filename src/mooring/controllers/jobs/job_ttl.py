"""The TTL controller of jobs: deletes finished jobs after `ttlSecondsAfterFinished`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from mooring.api.meta import parse_time
from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.constants import FINISHED
from mooring.controllers.reconciler import Reconciler, Selection
from mooring.kube import Change, Conflict, NotFound, resource_of
from mooring.logs import get_logger

log = get_logger("mooring.controller")


class JobTTLReconciler(Reconciler):
    """Deletes finished jobs."""

    name = "gc"

    def selections(self) -> Iterable[Selection]:
        """Watch jobs."""
        return (Selection.of(VolcanoJob),)

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return a finished job that has a TTL."""
        return (change.new.key,) if isinstance(change.new, VolcanoJob) and _expires(change.new) else ()

    async def reconcile(self, key: str) -> float | None:
        """Delete a job and its pods if the TTL has passed."""
        job = self.cache.get(VolcanoJob, key)
        if job is None or not _expires(job):
            return None
        finished = job.status.state.last_transition_time
        left = parse_time(finished or "") + (job.spec.ttl_seconds_after_finished or 0) - self.context.clock()
        if left > 0:
            return left
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            # The job may have been replaced, or its TTL changed, since it was read.
            "preconditions": {"uid": job.uid, "resourceVersion": job.metadata.resource_version},
        }
        with contextlib.suppress(NotFound, Conflict):
            path = resource_of(VolcanoJob).path(namespace=job.namespace, name=job.name)
            await self.context.client.send("DELETE", path, options)
            log.info("deleted a finished job", job=key, phase=job.status.state.phase)
        return None


def _expires(job: VolcanoJob) -> bool:
    return (
        job.spec.ttl_seconds_after_finished is not None
        and job.status.state.phase in FINISHED
        and job.status.state.last_transition_time is not None
        and job.metadata.deletion_timestamp is None
    )
