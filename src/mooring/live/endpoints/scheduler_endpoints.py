"""The endpoints of a live scheduler: their sources, and their start and stop.

Call path of a request: EndpointServer (thread) -> EndpointAuth (API server) -> Sources (scheduler's loop).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mooring.config import SchedulerConfiguration
from mooring.config.config_writer import effective
from mooring.kube import Access, ElectionThread
from mooring.live.endpoints.client_ca import ClientCa
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from mooring.live.endpoints.endpoint_server import Check, EndpointServer, Extension, ServerSettings, Sources
from mooring.logs import verbosity
from mooring.observe.claim_metrics import ClaimMetrics
from mooring.observe.decision_records import DecisionRecords
from mooring.observe.explanation import view
from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.observe.tracing import AttemptTracer
from mooring.releases import NEWEST, Release
from mooring.scheduler.decision_log import DecisionLog
from mooring.scheduler.observer import Observer
from mooring.scheduler.pod_explanation import Gangs, explain_with_pauses

if TYPE_CHECKING:
    from mooring.live.informers import Informers
    from mooring.scheduler.engine import Engine

#: How long ago a held lease may have expired before the process is unhealthy.
_OVERDUE_SECONDS = 20.0


class Endpoints:
    """The secure server with its client CA, and the plain HTTP servers."""

    def __init__(
        self, server: EndpointServer | None, client_ca: ClientCa | None, plain: Sequence[EndpointServer] = ()
    ) -> None:
        self._server = server
        self._client_ca = client_ca
        self._all = (*(() if server is None else (server,)), *plain)

    @property
    def url(self) -> str:
        """The URL of the secure server; empty if there is none."""
        return self._server.url if self._server is not None else ""

    @property
    def port(self) -> int:
        """The port of the secure server once it is listening; 0 before."""
        return self._server.port if self._server is not None else 0

    async def start(self) -> None:
        """Start serving; return when all ports are open. Raises ServerError."""
        for server in self._all:
            await server.start()
        if self._server is not None and self._client_ca is not None:
            await self._client_ca.start(self._server.trust_clients)

    async def stop(self) -> None:
        """Stop serving."""
        if self._client_ca is not None:
            await self._client_ca.close()
        for server in self._all:
            await server.stop()


def make_observer(
    clock: Callable[[], float],
    *,
    release: Release = NEWEST,
    records: bool = True,
    tracer: AttemptTracer | None = None,
) -> Observer:
    """Return the observer of a live scheduler with the metrics of a release.

    With ``records=False``, it does not record decisions.
    """
    claims = ClaimMetrics(shared=release.shared_claim_metric, extended_resources=release.enabled("DRAExtendedResource"))
    return Observer(
        records=DecisionRecords() if records else None,
        metrics=SchedulerMetrics(entities=release.entity_metrics, claims=claims),
        decision_log=DecisionLog.at(verbosity()),
        tracer=tracer,
        clock=clock,
    )


def lease_check(election: Callable[[], ElectionThread | None]) -> Check:
    """Return a health check that fails if a held lease expired long ago."""

    def check() -> str | None:
        thread = election()
        overdue = thread.overdue() if thread is not None else 0.0
        return f"the lease expired {overdue:.0f} s ago" if overdue > _OVERDUE_SECONDS else None

    return check


def synced_check(lagging: Callable[[], list[str]]) -> Check:
    """Return a health check that fails until all watched kinds are listed."""

    def check() -> str | None:
        kinds = lagging()
        return f"not synced yet: {', '.join(kinds)}" if kinds else None

    return check


def _version(release: Release) -> dict[str, str]:
    """Return the emulated release as /version shows it, with the names that Kubernetes uses."""
    major, _, minor = release.version.partition(".")
    return {"decidesAs": release.reference, "emulationMajor": major, "emulationMinor": minor}


def make_server(
    settings: ServerSettings | None,
    *,
    plain: Iterable[ServerSettings] = (),
    engine: Engine,
    config: Callable[[], SchedulerConfiguration],
    access: Access,
    informers: Informers,
    election: Callable[[], ElectionThread | None],
    plugins: Callable[[], list[Any]] = list,
    is_stopping: Callable[[], bool] = lambda: False,
    extensions: Sequence[Extension] = (),
    gangs: Gangs | None = None,
) -> Endpoints:
    """Return the endpoints, not started yet; the secure server has the extensions. Raises ServerError."""
    watch = engine.observer

    def metrics(accept: str) -> tuple[bytes, str]:
        if watch is None or watch.metrics is None:
            return b"", "text/plain; version=0.0.4; charset=utf-8"
        return watch.metrics.render(accept)

    def resources(accept: str) -> tuple[bytes, str]:
        thread = election()
        if thread is not None and not thread.is_leader:
            return b"", "text/plain; version=0.0.4; charset=utf-8"
        from mooring.observe.pod_resource_metrics import render_resources

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
        decision=lambda key: explain_with_pauses(engine, key, gangs),
        decisions=decisions,
        plugins=plugins,
        version=_version(config().release),
        live={"leaderElection": lease_check(election)},
        ready={"shutdown": stopping, "sched-handler-sync": synced_check(informers.lagging)},
    )
    plain_servers = [EndpointServer(each, sources, None) for each in plain]
    if settings is None:
        return Endpoints(None, None, plain_servers)
    client_ca = ClientCa(settings, access)
    auth = EndpointAuth(client_ca.authenticate, client_ca.authorize, settings.auth)
    return Endpoints(EndpointServer(settings, sources, auth, extensions=extensions), client_ca, plain_servers)
