"""What the endpoints of a live scheduler answer, put together from its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mooring.config import SchedulerConfiguration
from mooring.config.render import effective
from mooring.kube import Client, ElectionThread
from mooring.live.guard import Guard
from mooring.live.server import Server, ServerSettings, Sources
from mooring.observe.explanation import view
from mooring.observe.logs import verbosity
from mooring.observe.metrics import SchedulerMetrics
from mooring.observe.records import DecisionRecords
from mooring.scheduler.story import Story
from mooring.scheduler.watch import Watch
from mooring.scheduler.why import explain

if TYPE_CHECKING:
    from mooring.live.informers import Informers
    from mooring.scheduler.engine import Engine

#: A lease that we believe to hold may have run out for so long before the process counts as unhealthy.
_OVERDUE_SECONDS = 20.0


def make_watch(clock: Callable[[], float], *, records: bool = True) -> Watch:
    """What a live scheduler keeps of its decisions; ``records=False`` for one that need not explain any."""
    return Watch(
        records=DecisionRecords() if records else None,
        metrics=SchedulerMetrics(),
        story=Story.at(verbosity()),
        clock=clock,
    )


def make_server(
    settings: ServerSettings,
    *,
    engine: Engine,
    config: SchedulerConfiguration,
    client: Client,
    informers: Informers,
    election: Callable[[], ElectionThread | None],
) -> Server:
    """A server for the endpoints, not started yet. Raises ServerError."""
    watch = engine.watch

    def metrics(accept: str) -> tuple[bytes, str]:
        if watch is None or watch.metrics is None:
            return b"", "text/plain; version=0.0.4; charset=utf-8"
        return watch.metrics.render(accept)

    def decisions(limit: int) -> list[Any]:
        records = watch.records if watch is not None else None
        return [view(decision) for decision in records.latest(limit)] if records is not None else []

    def lease() -> str | None:
        thread = election()
        overdue = thread.overdue() if thread is not None else 0.0
        return f"the lease ran out {overdue:.0f} s ago" if overdue > _OVERDUE_SECONDS else None

    def synced() -> str | None:
        lagging = informers.lagging()
        return f"not read yet: {', '.join(lagging)}" if lagging else None

    sources = Sources(
        metrics=metrics,
        config=lambda: {"componentconfig": effective(config)},
        decision=lambda key: explain(engine, key),
        decisions=decisions,
        live={"leaderElection": lease},
        ready={"informer-sync": synced},
    )
    return Server(settings, sources, Guard(client.call))
