"""`mooring controller`: queues, pod groups and jobs are looked after, as vc-controller-manager does."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mooring import __version__
from mooring.cli.flags.command import DropInCommand, notes
from mooring.cli.flags.flag import Flag, Foreign
from mooring.cli.flags.known import FLAGS
from mooring.cli.rbac import LEASE
from mooring.cli.until_stopped import until_stopped

if TYPE_CHECKING:
    from mooring.controllers.manager import ControllerManager, ManagerSettings
    from mooring.kube import Access, ElectionSettings

_CLUSTER: Final = "Cluster"
_PODS: Final = "Queues and pods"
_PORT: Final = 10260
#: Flags of `mooring run` that mean nothing here.
_NOT_HERE: Final = frozenset(
    {
        "config",
        "write-config-to",
        "feature-gates",
        "disabled-metrics",
        "pod-max-in-unschedulable-pods-duration",
        "scheduler-conf",
        "schedule-period",
        "enable-healthz",
        "enable-metrics",
        "healthz-address",
        "listen-address",
    }
)
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "secure-port": {"default": _PORT},
    "kubeconfig": {"group": _CLUSTER, "help": "How to reach the cluster; otherwise found as kubectl finds it."},
    "master": {"group": _CLUSTER},
    "kube-api-qps": {"group": _CLUSTER},
    "kube-api-burst": {"group": _CLUSTER},
    "scheduler-name": {"group": _PODS, "help": "Pods of this scheduler get a PodGroup; repeatable."},
    "default-queue": {"group": _PODS, "help": "The queue of what names none."},
    "leader-elect": {"help": "Act only while holding a lease."},
    "leader-elect-resource-name": {"shown": LEASE},
}


def _flags() -> Iterator[Flag]:
    for flag in FLAGS:
        if flag.name not in _NOT_HERE:
            group = flag.group.partition(" (")[0]
            yield msgspec.structs.replace(flag, **{"group": group, **_DEFAULTS.get(flag.name, {})})


#: Flags of vc-controller-manager that have no effect here.
_FOREIGN: Final = (
    *(
        Foreign(f"worker-threads{what}", "objects are looked after several at a time in one loop, not in threads")
        for what in ("", "-for-cronjob", "-for-podgroup", "-for-queue", "-for-gc")
    ),
    Foreign("max-requeue-num", "what fails is tried again for as long as it takes, later each time"),
    Foreign("healthz-address", "health is served with the metrics: see --bind-address and --secure-port"),
    Foreign("listen-address", "metrics are served at --bind-address and --secure-port"),
    Foreign("enable-healthz", "health is always served", takes_value=False, fine=("true",)),
    Foreign("enable-metrics", "metrics are always served", takes_value=False, fine=("true",)),
    Foreign("logtostderr", "logs always go to standard error", takes_value=False, fine=("true",)),
)


@click.command(
    cls=DropInCommand, flags=tuple(_flags()), foreign=_FOREIGN, version=lambda _form: f"mooring {__version__}"
)
@click.option(
    "--inherit-owner-annotations/--no-inherit-owner-annotations",
    default=True,
    show_default=True,
    help="Whether PodGroups take over annotations of what owns the pods.",
)
@click.pass_context
def controller(ctx: click.Context, /, inherit_owner_annotations: bool, **given: Any) -> None:
    """Look after queues, pod groups and jobs, as vc-controller-manager does.

    It makes the root queue and the default queue, opens and closes queues, makes a PodGroup for pods of batch
    schedulers that have none, and runs jobs (batch.volcano.sh). Where Volcano's own controllers run, it stays away
    until they are gone. On a cluster that has PodGroups and ElasticQuotas of scheduling.x-k8s.io when it starts, it
    keeps their status, as the controller of scheduler-plugins does.
    """
    import structlog

    from mooring.cli.flags.effects import served
    from mooring.controllers.manager import ManagerSettings
    from mooring.controllers.reconciler import Settings
    from mooring.kube import AccessError, load_access
    from mooring.observe.logs import configure_logs

    if given["logging_format"] not in ("text", "json"):
        raise click.BadParameter(f"{given['logging_format']!r}: use text or json", param_hint="--logging-format")
    configure_logs(given["v"], as_json=given["logging_format"] == "json")
    for note in notes(ctx):
        structlog.get_logger("mooring").warning(note)
    settings = Settings(
        scheduler_names=tuple(given["scheduler_name"]) or ("volcano",),
        default_queue=given["default_queue"],
        inherit_owner_annotations=inherit_owner_annotations,
    )
    program = ManagerSettings(
        settings=settings,
        election=_election(given),
        serve=served(given),
        qps=given["kube_api_qps"] if given["kube_api_qps"] is not None else 50.0,
        burst=given["kube_api_burst"] if given["kube_api_burst"] is not None else 100,
    )
    try:
        access = load_access(kubeconfig=given["kubeconfig"] or "", master=given["master"])
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    raise SystemExit(asyncio.run(_run(access, program)))


def _election(given: Mapping[str, Any]) -> ElectionSettings | None:
    from mooring.kube import ElectionSettings

    if given["leader_elect"] is False:
        return None
    durations = {
        name: given[f"leader_elect_{name}"] / 1e9
        for name in ("lease_duration", "renew_deadline", "retry_period")
        if given[f"leader_elect_{name}"] is not None
    }
    try:
        return ElectionSettings(
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            name=given["leader_elect_resource_name"] or LEASE,
            namespace=given["leader_elect_resource_namespace"] or "kube-system",
            **durations,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


async def _run(access: Access, settings: ManagerSettings) -> int:
    import structlog

    from mooring.controllers import scheduler_plugins
    from mooring.controllers.manager import RECONCILERS, ControllerManager
    from mooring.kube import Client
    from mooring.live import ServerError

    log = structlog.get_logger("mooring")
    log.info("Starting controllers", version=__version__, server=access.server, found=access.origin)
    for warning in access.warnings:
        log.warning(warning)
    try:
        async with Client(access) as client:
            more = await scheduler_plugins.served_reconcilers(client)
        program: ControllerManager = ControllerManager(access, settings, reconcilers=(*RECONCILERS, *more))
    except ServerError as error:
        log.error(str(error))
        return 1
    return await until_stopped(program.run())
