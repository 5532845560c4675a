"""What vc-scheduler's flags mean: whether there are batch sessions, for whom, and where plain endpoints are served."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

if TYPE_CHECKING:
    from mooring.config import SchedulerConfiguration
    from mooring.live.batch.scheduler import BatchSettings
    from mooring.live.endpoints.endpoint_server import ServerSettings

_NAMES: Final = ("volcano",)
#: vc-scheduler's own limits of requests a second: kube-scheduler's are made for one pod at a time.
_QPS, _BURST = 2000.0, 2000


def batch_settings(given: Mapping[str, Any]) -> BatchSettings | None:
    """How batch sessions are to be run; None where no flag asks for any."""
    from mooring.live.batch.scheduler import BatchSettings

    names, conf = tuple(given["scheduler_name"]), given["scheduler_conf"]
    if not conf and names in ((), ("default-scheduler",)):
        return None
    period = given["schedule_period"] / 1e9
    if period <= 0:
        raise click.BadParameter("the period must be longer than nothing, such as 1s", param_hint="--schedule-period")
    return BatchSettings(
        scheduler_conf=Path(conf) if conf else None,
        scheduler_names=names or _NAMES,
        schedule_period=period,
        default_queue=given["default_queue"],
    )


def with_sessions(
    config: SchedulerConfiguration, batch: BatchSettings, given: Mapping[str, Any]
) -> SchedulerConfiguration:
    """The configuration beside batch sessions. Without a file there are only sessions, as in vc-scheduler."""
    if given["config"] is not None:
        for profile in config.profiles:
            if profile.scheduler_name in batch.scheduler_names:
                text = f"{profile.scheduler_name} is also a profile of --config; give one of them another name"
                raise click.BadParameter(text, param_hint="--scheduler-name")
        return config
    connection, election = config.client_connection, config.leader_election
    qps = connection.qps if given["kube_api_qps"] is not None else _QPS
    burst = connection.burst if given["kube_api_burst"] is not None else _BURST
    if given["leader_elect_resource_name"] is None:
        # A lease of its own: kube-scheduler's would make it wait for kube-scheduler.
        name = batch.scheduler_names[0] if len(batch.scheduler_names) == 1 else "vc-scheduler"
        election = msgspec.structs.replace(election, resource_name=name)
    # A profile that no pod can name: pods without a scheduler's name are kube-scheduler's.
    nobody = tuple(msgspec.structs.replace(profile, scheduler_name="") for profile in config.profiles[:1])
    return msgspec.structs.replace(
        config,
        profiles=nobody,
        leader_election=election,
        client_connection=msgspec.structs.replace(connection, qps=qps, burst=burst),
    )


def plain_endpoints(given: Mapping[str, Any]) -> list[ServerSettings]:
    """Where health and metrics are served in plain HTTP, as vc-scheduler serves them when it is asked to."""
    from mooring.live.endpoints.endpoint_server import ServerSettings

    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for switch, flag, path in (
        ("enable_healthz", "healthz-address", "/healthz"),
        ("enable_metrics", "listen-address", "/metrics"),
    ):
        if given[switch]:
            where = _address(given[flag.replace("-", "_")], f"--{flag}")
            found[where] = (*found.get(where, ()), path)
    return [ServerSettings(bind_address=host, port=port, plain_paths=paths) for (host, port), paths in found.items()]


def _address(text: str, flag: str) -> tuple[str, int]:
    """``:8080``, ``127.0.0.1:8080`` or ``[::1]:8080``."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8080 or :8080", param_hint=flag)
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)
