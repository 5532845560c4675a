"""Checks of what may change after a file was read: flags override leader election."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.config.durations import format_duration
from mooring.config.model import LeaderElection

#: A leader retries up to this much later than the retry period says.
_JITTER = 1.2


def check_election(election: LeaderElection) -> list[str]:
    """What is wrong, each as ``lease-duration: must be ...``; nothing is where leaders are not elected."""
    return list(_faults(election)) if election.leader_elect else []


def _faults(election: LeaderElection) -> Iterator[str]:
    lease, renew, retry = election.lease_duration, election.renew_deadline, election.retry_period
    for name, value in (("lease-duration", lease), ("renew-deadline", renew), ("retry-period", retry)):
        if value <= 0:
            yield f"{name}: {format_duration(value)} must be greater than zero"
    if renew >= lease:
        yield f"renew-deadline: {format_duration(renew)} must be shorter than lease-duration ({format_duration(lease)})"
    if renew <= _JITTER * retry:
        yield (
            f"renew-deadline: {format_duration(renew)} must be longer than 1.2 times retry-period "
            f"({format_duration(retry)})"
        )
    if election.resource_lock != "leases":
        yield f"resource-lock: {election.resource_lock!r} is not supported; use leases"
    if not election.resource_name:
        yield "resource-name: must not be empty"
    if not election.resource_namespace:
        yield "resource-namespace: must not be empty"
