"""Health and metrics of the controllers, served as a scheduler's are."""

from __future__ import annotations

from collections.abc import Callable

from mooring.controllers.metrics import ControllerMetrics
from mooring.kube import Client, ElectionThread
from mooring.live.endpoints.client_ca import Asking
from mooring.live.endpoints.endpoint_auth import Guard
from mooring.live.endpoints.endpoint_server import Server, ServerSettings, Sources
from mooring.live.endpoints.scheduler_endpoints import Endpoints, lease_check, synced_check

__all__ = ["Endpoints", "make_endpoints"]


def make_endpoints(
    settings: ServerSettings,
    *,
    client: Client,
    metrics: ControllerMetrics,
    election: Callable[[], ElectionThread | None],
    lagging: Callable[[], list[str]],
) -> Endpoints:
    """The endpoints, not served yet. Raises ServerError."""
    sources = Sources(
        metrics=metrics.render,
        resources=lambda _accept: (b"", "text/plain; version=0.0.4; charset=utf-8"),
        config=dict,
        decision=lambda _key: None,
        decisions=lambda _limit: [],
        live={"leaderElection": lease_check(election)},
        ready={"informer-sync": synced_check(lagging)},
    )
    asking = Asking(settings, client)
    return Endpoints(Server(settings, sources, Guard(asking.authenticate, asking.authorize, settings.guard)), asking)
