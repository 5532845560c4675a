"""The figures of queues and jobs at the end of a session, for the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.batch.plugins.capacity import Capacity, CapacityQueue
from mooring.batch.plugins.drf import DominantShare
from mooring.batch.plugins.proportion import Proportion
from mooring.batch.plugins.queue_accounts import QueueAccount
from mooring.batch.resource import UNLIMITED, Resource
from mooring.batch.run import Outcome
from mooring.batch.session import Session
from mooring.observe.session_metrics import QueueFigures, SessionMetrics


def accounts_of(plugins: list[Any]) -> Mapping[str, QueueAccount]:
    """Return the accounts of the queues that proportion or capacity keeps; none without these plugins."""
    for plugin in plugins:
        if isinstance(plugin, Proportion):
            return plugin.accounts
        if isinstance(plugin, Capacity):
            return plugin.queues
    return {}


def set_figures(metrics: SessionMetrics, session: Session, plugins: list[Any], outcome: Outcome) -> None:
    """Set the metrics of queues and jobs from a session and its plugins."""
    metrics.count_retries()
    metrics.preemption_attempts += session.preemption_attempts
    if victims := sum(reason == "preempt" for _, reason in session.evictions):
        metrics.preemption_victims = victims
    accounts = accounts_of(plugins)
    metrics.job_shares = {}
    for plugin in plugins:
        if isinstance(plugin, DominantShare):
            found = ((session.jobs[uid].group, each.share) for uid, each in plugin.shares.items())
            metrics.job_shares = {(group.namespace, group.name): share for group, share in found}
    metrics.queues = {
        name: _figures(session, name, Resource.of(held).as_dict(), accounts.get(name))
        for name, held in outcome.queues.items()
    }


def _figures(session: Session, name: str, held: Mapping[str, float], account: QueueAccount | None) -> QueueFigures:
    """Return the figures of a queue. Without an account, only what it has allocated and its weight are known."""
    weight = session.queues[name].weight
    if account is None:
        return QueueFigures(allocated=held, weight=weight)
    by_capacity = isinstance(account, CapacityQueue)
    return QueueFigures(
        allocated=held,
        request=account.request.as_dict(),
        deserved=account.deserved.as_dict(),
        capacity=account.capability.as_dict() if isinstance(account, CapacityQueue) else {},
        real_capacity=_limited(account.limit) if by_capacity else {},
        share=account.share,
        weight=weight,
        overused=account.share > 1 if by_capacity else account.deserved.fits(account.allocated),
    )


def _limited(amounts: Resource) -> dict[str, float]:
    """Return the amounts that are limited."""
    return {name: amount for name, amount in amounts.as_dict().items() if amount < UNLIMITED}
