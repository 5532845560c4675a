"""`mooring controller`: run the controllers of queues, pod groups and jobs, as vc-controller-manager does."""

from __future__ import annotations

import asyncio
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mooring import __version__
from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.daemon import StopSignals, log_start, log_warnings, run_until_stopped, start_logging
from mooring.cli.flags.go_flags import Flag, GoCommand, UnsupportedFlag, notes
from mooring.cli.flags.supported_flags import SUPPORTED_FLAGS
from mooring.cli.options import context_option, plugin_options
from mooring.cli.rbac import LEASE

if TYPE_CHECKING:
    from mooring.apiserver.volcano_admission.pods import ResourceGroup
    from mooring.controllers.manager import ControllerManager, ManagerSettings, WebhookSettings
    from mooring.controllers.reconciler import Settings
    from mooring.controllers.topology_discovery import TopologySettings
    from mooring.kube import Access, ElectionSettings
    from mooring.loading import Requested

_CLUSTER: Final = "Cluster"
_PODS: Final = "Queues and pods"
_ADMISSION: Final = "Admission"
_TOPOLOGY: Final = "Topology"
_PORT: Final = 10260
#: The path of the webhook that sets the defaults of pods.
_POD_DEFAULTS: Final = "/pods/mutate"
#: Flags of `mooring run` that the controllers do not have.
_EXCLUDED: Final = frozenset(
    {
        "config",
        "write-config-to",
        "disabled-metrics",
        "pod-max-in-unschedulable-pods-duration",
        "node-selector",
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
    "kubeconfig": {
        "group": _CLUSTER,
        "help": "Path to the kubeconfig file. By default it is found as kubectl finds it.",
    },
    "master": {"group": _CLUSTER},
    "kube-api-qps": {"group": _CLUSTER},
    "kube-api-burst": {"group": _CLUSTER},
    "scheduler-name": {"group": _PODS, "help": "Create PodGroups for pods of this scheduler. Repeatable."},
    "default-queue": {"group": _PODS, "help": "Queue of jobs and pod groups that name none."},
    "feature-gates": {
        "group": _ADMISSION,
        "help": "Feature gates of Volcano. SchedulingGatesQueueAdmission=true adds a scheduling gate to pods that "
        "request it; the webhook must serve /pods/mutate.",
    },
    "leader-elect": {"help": "Act only while holding the lease."},
    "leader-elect-resource-name": {"shown": LEASE},
}


_ADMISSION_FLAGS: Final = (
    Flag(
        "enabled-admission",
        _ADMISSION,
        "text",
        "Paths of the admission webhook to serve on the secure port, such as /jobs/mutate,/jobs/validate, or all. "
        "By default it is not served.",
        "",
    ),
    Flag("webhook-namespace", _ADMISSION, "text", "Namespace of the webhook's Service.", "kube-system"),
    Flag("webhook-service-name", _ADMISSION, "text", "Name of the webhook's Service.", "mooring-controller"),
    Flag(
        "webhook-configuration",
        _ADMISSION,
        "text",
        "Name of the webhook configurations in which to write the CA.",
        "mooring-admission",
    ),
    Flag("admission-conf", _ADMISSION, "text", "File with resource groups of pods (volcano-admission.conf).", ""),
    Flag("max-queue-depth", _ADMISSION, "int", "Maximum depth of the tree of queues.", 5),
    Flag(
        "enable-queue-allocated-pods-check",
        _ADMISSION,
        "bool",
        "Refuse to delete queues that have allocated pods.",
        False,
    ),
    Flag(
        "enable-root-queue-protection",
        _ADMISSION,
        "bool",
        "Refuse to change the resources of the root queue.",
        True,
    ),
)


def _flags() -> Iterator[Flag]:
    for flag in SUPPORTED_FLAGS:
        if flag.name not in _EXCLUDED:
            group = flag.group.partition(" (")[0]
            yield msgspec.structs.replace(flag, **{"group": group, **_DEFAULTS.get(flag.name, {})})
    yield from _ADMISSION_FLAGS
    yield Flag(
        "controller-conf",
        _TOPOLOGY,
        "text",
        "File with the sources from which to discover HyperNodes: node labels, a UFM server (volcano-controller.conf).",
        "",
    )


#: Flags of vc-controller-manager that have no effect here.
_UNSUPPORTED: Final = (
    *(
        UnsupportedFlag(
            f"worker-threads{what}", "objects are reconciled concurrently in one event loop, without worker threads"
        )
        for what in ("", "-for-cronjob", "-for-podgroup", "-for-queue", "-for-gc")
    ),
    UnsupportedFlag(
        "controllers",
        "all controllers run, except Volcano's sharding controller, which Mooring does not have",
        accepted=("*", "*,-sharding-controller"),
    ),
    UnsupportedFlag(
        "lock-object-namespace", "is the old name of --leader-elect-resource-namespace; use that", is_error=True
    ),
    UnsupportedFlag("ca-cert-file", "the controllers create and renew the certificate of the webhook themselves"),
    UnsupportedFlag("max-requeue-num", "failed objects are requeued without limit, with exponential backoff"),
    UnsupportedFlag("healthz-address", "health is served with the metrics; use --bind-address and --secure-port"),
    UnsupportedFlag("listen-address", "metrics are served at --bind-address and --secure-port"),
    UnsupportedFlag("enable-healthz", "health is always served", takes_value=False, accepted=("true",)),
    UnsupportedFlag("enable-metrics", "metrics are always served", takes_value=False, accepted=("true",)),
    UnsupportedFlag("logtostderr", "logs always go to standard error", takes_value=False, accepted=("true",)),
)


@click.command(
    cls=GoCommand, flags=tuple(_flags()), unsupported=_UNSUPPORTED, version=lambda _form: f"mooring {__version__}"
)
@click.option(
    "--inherit-owner-annotations/--no-inherit-owner-annotations",
    default=True,
    show_default=True,
    help="Copy annotations of the pods' owner to their PodGroup.",
)
@context_option
@plugin_options
@click.pass_context
def controller(
    ctx: click.Context, /, inherit_owner_annotations: bool, context: str, requested: Requested, **given: Any
) -> None:
    """Run the controllers of queues, pod groups and jobs, as vc-controller-manager does.

    They create the root queue and the default queue, open and close queues, create a PodGroup for pods of batch
    schedulers that have none, run jobs (batch.volcano.sh), and count the members of HyperNodes. With --controller-conf,
    they create HyperNodes from node labels or a UFM server. While Volcano's own controllers are running, they do
    nothing. If the cluster serves PodGroups and ElasticQuotas of scheduling.x-k8s.io at startup, they also update the
    status of those, as the controller of scheduler-plugins does.

    --plugins-dir and --plugin add job plugins, which jobs name in spec.plugins. They are reloaded when they change.
    """
    from mooring.cli.flags.scheduler_settings import served
    from mooring.controllers.manager import ManagerSettings
    from mooring.controllers.reconciler import Settings

    start_logging(given)
    log_warnings([*notes(ctx), *_gate_notes(given["feature_gates"])])
    settings = Settings(
        scheduler_names=tuple(given["scheduler_name"]) or ("volcano",),
        default_queue=given["default_queue"],
        inherit_owner_annotations=inherit_owner_annotations,
        topology=_topology(given["controller_conf"]),
    )
    program = ManagerSettings(
        settings=settings,
        election=_election(given),
        serve=served(given),
        job_plugins=requested,
        webhook=_webhook(given, settings),
        qps=given["kube_api_qps"] if given["kube_api_qps"] is not None else 50.0,
        burst=given["kube_api_burst"] if given["kube_api_burst"] is not None else 100,
    )
    access = cluster_access(ClusterChoice(given["kubeconfig"] or "", context), master=given["master"])
    with StopSignals() as signals:
        code = asyncio.run(_run(access, program, signals))
    sys.exit(code)


def _webhook(given: Mapping[str, Any], settings: Settings) -> WebhookSettings | None:
    """Return the settings of the webhook; None if it is not served."""
    if not given["enabled_admission"]:
        return None
    from mooring.apiserver.volcano_admission.review import HOOKS, AdmissionSettings
    from mooring.cli.flags.scheduler_settings import queue_gates
    from mooring.controllers.admission.webhook_certificates import CertificateSettings
    from mooring.controllers.manager import WebhookSettings

    known = [each.path for each in HOOKS]
    paths = [each.strip() for each in given["enabled_admission"].split(",") if each.strip()]
    for path in paths:
        if path not in {*known, "all"}:
            raise click.UsageError(f"--enabled-admission: there is no {path}; use all, or some of {', '.join(known)}")
    chosen = tuple(known if "all" in paths else paths)
    gated = queue_gates(given["feature_gates"])
    if gated and _POD_DEFAULTS not in chosen:
        log_warnings([f"--feature-gates: pods get no scheduling gate without {_POD_DEFAULTS} in --enabled-admission"])
    rules = AdmissionSettings(
        scheduler_names=settings.scheduler_names,
        default_queue=settings.default_queue,
        max_queue_depth=given["max_queue_depth"],
        protect_root_queue=given["enable_root_queue_protection"],
        check_allocated_pods=given["enable_queue_allocated_pods_check"],
        resource_groups=_resource_groups(given["admission_conf"]),
        adds_queue_gates=gated,
    )
    certificates = CertificateSettings(
        namespace=given["webhook_namespace"],
        service=given["webhook_service_name"],
        configuration=given["webhook_configuration"],
    )
    return WebhookSettings(paths=chosen, rules=rules, certificates=certificates)


def _gate_notes(gates: Sequence[tuple[str, str]]) -> list[str]:
    """Return warnings about feature gates. Ends the command for those of which another value is expected."""
    from mooring.cli.flags.scheduler_settings import VOLCANO_GATES, volcano_gate_notes

    others = [f"{name} has no effect: it is not a gate of Volcano" for name, _ in gates if name not in VOLCANO_GATES]
    return [f"--feature-gates: {note}" for note in (*volcano_gate_notes(gates), *others)]


def _resource_groups(file: str) -> tuple[ResourceGroup, ...]:
    """Read the resource groups of pods from a file in the format of volcano-admission.conf."""
    from mooring.api.yaml_reader import read_documents
    from mooring.apiserver.volcano_admission.pods import ResourceGroup
    from mooring.cli.input_files import read_text

    if not file:
        return ()
    try:
        document = next(iter(read_documents(read_text(file))), None) or {}
        groups = msgspec.convert(document.get("resourceGroups") or [], tuple[ResourceGroup, ...])
        for group in groups:
            if group.affinity:
                msgspec.json.decode(group.affinity, type=dict)
    except (ValueError, AttributeError) as error:
        raise click.ClickException(f"--admission-conf {file}: {error}") from None
    return groups


def _topology(file: str) -> TopologySettings:
    """Read the sources of HyperNodes from a file in the format of volcano-controller.conf."""
    from mooring.cli.input_files import read_text
    from mooring.controllers.topology_discovery import TopologySettings, read_topologies

    if not file:
        return TopologySettings()
    warnings: list[str] = []
    try:
        found = read_topologies(read_text(file), warnings.append)
    except ValueError as error:
        raise click.ClickException(f"--controller-conf {file}: {error}") from None
    log_warnings(f"--controller-conf {file}: {each}" for each in warnings)
    return found


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


async def _run(access: Access, settings: ManagerSettings, signals: StopSignals) -> int:
    from mooring.controllers import scheduler_plugins
    from mooring.controllers.manager import RECONCILERS, ControllerManager
    from mooring.kube import Client
    from mooring.live import ServerError
    from mooring.loading import PluginLoadError
    from mooring.logs import get_logger

    log_start("Starting controllers", access, version=__version__)
    try:
        async with Client(access) as client:
            more = await scheduler_plugins.served_reconcilers(client)
        program: ControllerManager = ControllerManager(access, settings, reconcilers=(*RECONCILERS, *more))
    except (ServerError, PluginLoadError) as error:
        get_logger("mooring").error(str(error))
        return 1
    return await run_until_stopped(program.run(), signals)
