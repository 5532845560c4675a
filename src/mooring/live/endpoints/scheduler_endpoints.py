"""What the endpoints of a live scheduler answer, put together from its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mooring.config import SchedulerConfiguration
from mooring.config.render import effective
from mooring.kube import Client, ElectionThread
from mooring.live.endpoints.client_ca import Asking
from mooring.live.endpoints.endpoint_auth import Guard
from mooring.live.endpoints.endpoint_server import Check, Server, ServerSettings, Sources
from mooring.observe.decision_records import DecisionRecords
from mooring.observe.explanation import view
from mooring.observe.logs import verbosity
from mooring.observe.pod_resource_metrics import render_resources
from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.scheduler.decision_log import Story
from mooring.scheduler.observer import Watch
from mooring.scheduler.pod_explanation import explain

if TYPE_CHECKING:
    from mooring.live.informers import Informers
    from mooring.scheduler.engine import Engine

#: A lease that we believe to hold may have run out for so long before the process counts as unhealthy.
_OVERDUE_SECONDS = 20.0


class Endpoints:
    """The server of the endpoints, the connections over which it asks who may read them, and plain servers."""

    def __init__(self, server: Server | None, asking: Asking | None, plain: Sequence[Server] = ()) -> None:
        self._server = server
        self._asking = asking
        self._all = (*(() if server is None else (server,)), *plain)

    @property
    def url(self) -> str:
        """Where they are served; empty where there are plain ones only."""
        return self._server.url if self._server is not None else ""

    @property
    def port(self) -> int:
        """Their port, once they are served; 0 before."""
        return self._server.port if self._server is not None else 0

    async def start(self) -> None:
        """Serve; returns when all ports are open. Raises ServerError."""
        for server in self._all:
            await server.start()
        if self._server is not None and self._asking is not None:
            await self._asking.look_up(self._server.trust_clients)

    async def stop(self) -> None:
        """Stop serving."""
        if self._asking is not None:
            await self._asking.close()
        for server in self._all:
            await server.stop()


def make_watch(clock: Callable[[], float], *, records: bool = True) -> Watch:
    """What a live scheduler keeps of its decisions; ``records=False`` for one that need not explain any."""
    return Watch(
        records=DecisionRecords() if records else None,
        metrics=SchedulerMetrics(),
        story=Story.at(verbosity()),
        clock=clock,
    )


def lease_check(election: Callable[[], ElectionThread | None]) -> Check:
    """Whether a lease that we believe to hold has run out for long."""

    def check() -> str | None:
        thread = election()
        overdue = thread.overdue() if thread is not None else 0.0
        return f"the lease ran out {overdue:.0f} s ago" if overdue > _OVERDUE_SECONDS else None

    return check


def synced_check(lagging: Callable[[], list[str]]) -> Check:
    """Whether everything that is watched was read."""

    def check() -> str | None:
        kinds = lagging()
        return f"not read yet: {', '.join(kinds)}" if kinds else None

    return check


def make_server(
    settings: ServerSettings | None,
    *,
    plain: Iterable[ServerSettings] = (),
    engine: Engine,
    config: Callable[[], SchedulerConfiguration],
    client: Client,
    informers: Informers,
    election: Callable[[], ElectionThread | None],
    plugins: Callable[[], list[Any]] = list,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Endpoints:
    """The endpoints, not served yet. Raises ServerError."""
    watch = engine.watch

    def metrics(accept: str) -> tuple[bytes, str]:
        if watch is None or watch.metrics is None:
            return b"", "text/plain; version=0.0.4; charset=utf-8"
        return watch.metrics.render(accept)

    def resources(accept: str) -> tuple[bytes, str]:
        thread = election()
        if thread is not None and not thread.is_leader:
            return b"", "text/plain; version=0.0.4; charset=utf-8"
        return render_resources(informers.pods(), accept)

    def stopping() -> str | None:
        return "process is shutting down" if is_stopping() else None

    def decisions(limit: int) -> list[Any]:
        records = watch.records if watch is not None else None
        return [view(decision) for decision in records.latest(limit)] if records is not None else []

    sources = Sources(
        metrics=metrics,
        resources=resources,
        config=lambda: {"componentconfig": effective(config())},
        decision=lambda key: explain(engine, key),
        decisions=decisions,
        plugins=plugins,
        live={"leaderElection": lease_check(election)},
        ready={"shutdown": stopping, "sched-handler-sync": synced_check(informers.lagging)},
    )
    beside = [Server(each, sources, None) for each in plain]
    if settings is None:
        return Endpoints(None, None, beside)
    asking = Asking(settings, client)
    server = Server(settings, sources, Guard(asking.authenticate, asking.authorize, settings.guard))
    return Endpoints(server, asking, beside)
