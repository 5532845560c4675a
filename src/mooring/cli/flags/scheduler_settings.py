"""The scheduler's configuration and settings from the flags of `mooring run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

if TYPE_CHECKING:
    from mooring.config import SchedulerConfiguration
    from mooring.kube import Access
    from mooring.kube.membership import MembershipSettings
    from mooring.live.batch.batch_settings import BatchSettings
    from mooring.live.endpoints.endpoint_server import ServerSettings
    from mooring.releases import Release


#: Leader election flag -> the configuration field that it overrides.
_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}


class VolcanoGate(NamedTuple):
    """A feature gate of Volcano: the value that Mooring acts upon (None: both), and what another value means.

    Another value is an error if it would change decisions; otherwise there is a warning with the text.
    """

    value: bool | None
    text: str
    is_error: bool = False


#: The gate with which pods wait for room in their queue behind a scheduling gate.
QUEUE_GATES: Final = "SchedulingGatesQueueAdmission"
#: The feature gates of Volcano 1.15.
VOLCANO_GATES: Final = {
    "WorkLoadSupport": VolcanoGate(True, "`mooring controller` always creates the PodGroups of workloads"),
    "VolcanoJobSupport": VolcanoGate(True, "`mooring controller` always handles jobs and CronJobs"),
    "CronVolcanoJobSupport": VolcanoGate(True, "`mooring controller` always handles jobs and CronJobs"),
    "QueueCommandSync": VolcanoGate(True, "`mooring controller` always carries out the commands for queues"),
    "CSIStorage": VolcanoGate(True, "storage capacity is always checked, as in kube-scheduler"),
    "PodDisruptionBudgetsSupport": VolcanoGate(
        True, "budgets are always read; remove the plugin pdb from --scheduler-conf instead", is_error=True
    ),
    "PriorityClass": VolcanoGate(True, "priority classes are always used; remove the gate", is_error=True),
    "ResourceTopology": VolcanoGate(
        True, "Numatopologies are used if the plugin numa-aware is configured; remove it from --scheduler-conf instead"
    ),
    QUEUE_GATES: VolcanoGate(None, ""),
}


def configured(
    config: SchedulerConfiguration, given: Mapping[str, Any], *, from_file: bool
) -> tuple[SchedulerConfiguration, list[str]]:
    """Return the configuration with the flags applied, and warnings about ignored flags.

    As in kube-scheduler, leader election flags override a file, and deprecated flags are ignored if there is a file.
    Ends the command if the result is invalid.
    """
    from mooring.config.config_validation import check_election

    ignored: list[str] = []
    client: dict[str, Any] = {}
    for flag, field in (("kube_api_qps", "qps"), ("kube_api_burst", "burst"), ("kubeconfig", "kubeconfig")):
        value = given[flag]
        if value is None:
            continue
        named = config.client_connection.kubeconfig
        if from_file and (flag != "kubeconfig" or (named and named != value)):
            ignored.append(
                f"--{flag.replace('_', '-')}: ignored because of --config; set clientConnection.{field} there"
            )
        else:
            client[field] = value
    election = {field: given[flag] for flag, field in _ELECTION.items() if given[flag] is not None}
    changed = msgspec.structs.replace(
        config,
        leader_election=msgspec.structs.replace(config.leader_election, **election),
        client_connection=msgspec.structs.replace(config.client_connection, **client),
    )
    faults = check_election(changed.leader_election) if election else []
    if faults:
        raise click.UsageError("; ".join(f"--leader-elect-{fault}" for fault in faults))
    return changed, ignored


def without_cluster(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return the configuration without its kubeconfig."""
    connection = msgspec.structs.replace(config.client_connection, kubeconfig="")
    return msgspec.structs.replace(config, client_connection=connection)


def served(given: Mapping[str, Any]) -> ServerSettings | None:
    """Return the settings of the endpoints, or None if they are disabled. Ends the command for invalid flags."""
    from mooring.live.endpoints.endpoint_auth import AuthSettings
    from mooring.live.endpoints.endpoint_server import ServerSettings
    from mooring.live.endpoints.endpoint_tls import TlsSettings

    port = given["secure_port"]
    if not 0 <= port <= 65535:
        raise click.BadParameter(f"{port} is not a port: use a number from 0 to 65535", param_hint="--secure-port")
    if not port:
        return None
    return ServerSettings(
        bind_address=given["bind_address"],
        port=port,
        tls=TlsSettings(
            cert_file=given["tls_cert_file"],
            key_file=given["tls_private_key_file"],
            cert_dir=given["cert_dir"],
            min_version=given["tls_min_version"],
            cipher_suites=given["tls_cipher_suites"],
            client_ca_file=given["client_ca_file"],
        ),
        auth=AuthSettings(
            open_paths=given["authorization_always_allow_paths"],
            token_seconds=given["authentication_token_webhook_cache_ttl"] / 1e9,
            allowed_seconds=given["authorization_webhook_cache_authorized_ttl"] / 1e9,
            denied_seconds=given["authorization_webhook_cache_unauthorized_ttl"] / 1e9,
        ),
        authentication=_access(given["authentication_kubeconfig"], "--authentication-kubeconfig"),
        authorization=_access(given["authorization_kubeconfig"], "--authorization-kubeconfig"),
        look_up_authority=not given["authentication_skip_lookup"],
        tolerate_lookup_failure=given["authentication_tolerate_lookup_failure"],
        share_address=given["permit_address_sharing"] or None,
        share_port=given["permit_port_sharing"],
    )


def emulated_release(version: str) -> Release | None:
    """Return the release of `--emulated-version`, or None if the flag is not given. Ends the command if invalid."""
    from mooring.releases import ReleaseError, release_named

    try:
        return release_named(version) if version else None
    except ReleaseError as error:
        raise click.BadParameter(str(error), param_hint="--emulated-version") from None


def gated_release(release: Release, gates: Iterable[tuple[str, str]]) -> Release:
    """Return a release with the gates of `--feature-gates`. Ends the command for gates that are not supported."""
    return _with_gates([release], gates)[0]


def gate_notes(release: Release | None, gates: Iterable[tuple[str, str]]) -> list[str]:
    """Return warnings about feature gates. Ends the command for gates that the release does not support.

    If the release is not known yet, that means gates that no release supports.
    """
    from mooring.releases import RELEASES

    notes = _with_gates([release] if release is not None else RELEASES, gates)[1]
    return [f"--feature-gates: {note}" for note in (*notes, *volcano_gate_notes(gates))]


def queue_gates(gates: Iterable[tuple[str, str]]) -> bool:
    """Return whether pods wait for room in their queue behind a scheduling gate. Ends the command if invalid."""
    from mooring.cli.flags.go_flags import parse_bool

    try:
        return any([parse_bool(value) for name, value in gates if name == QUEUE_GATES][-1:])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from None


def volcano_gate_notes(gates: Iterable[tuple[str, str]]) -> list[str]:
    """Return warnings about Volcano's gates. Ends the command for values that would change decisions."""
    from mooring.cli.flags.go_flags import parse_bool

    notes = []
    for name, value in gates:
        gate = VOLCANO_GATES.get(name)
        try:
            if gate is None or gate.value in (None, parse_bool(value)):
                continue
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--feature-gates") from None
        if gate.is_error:
            raise click.BadParameter(f"{name}={value}: {gate.text}", param_hint="--feature-gates")
        notes.append(f"{name}={value} has no effect: {gate.text}")
    return notes


def _with_gates(releases: Sequence[Release], gates: Iterable[tuple[str, str]]) -> tuple[Release, list[str]]:
    """Return the newest of the releases that supports the gates, with the gates set, and notes about them."""
    from mooring.cli.flags.go_flags import parse_bool
    from mooring.releases import with_gates

    problems = []
    for release in reversed(releases):
        try:
            wanted = {
                name.removeprefix("kube:"): parse_bool(value) for name, value in gates if name not in VOLCANO_GATES
            }
            return with_gates(release, wanted)
        except ValueError as error:
            problems.append(str(error))
    raise click.BadParameter(problems[0], param_hint="--feature-gates")


def _access(kubeconfig: str, flag: str) -> Access | None:
    from mooring.kube import AccessError, load_access

    if not kubeconfig:
        return None
    try:
        return load_access(kubeconfig=kubeconfig)
    except AccessError as error:
        raise click.ClickException(f"{flag}: {error}") from None


_DEFAULT_NAMES: Final = ("volcano",)
#: vc-scheduler's default client limits; kube-scheduler's are too low for sessions.
_QPS, _BURST = 2000.0, 2000


def batch_settings(given: Mapping[str, Any]) -> BatchSettings | None:
    """Return the settings of batch sessions, or None if no flag enables them."""
    names, conf = tuple(given["scheduler_name"]), given["scheduler_conf"]
    if not conf and names in ((), ("default-scheduler",)):
        return None
    period = given["schedule_period"] / 1e9
    if period <= 0:
        raise click.BadParameter("the period must be positive, such as 1s", param_hint="--schedule-period")
    from mooring.live.batch.batch_settings import BatchSettings

    return BatchSettings(
        scheduler_conf=Path(conf) if conf else None,
        scheduler_names=names or _DEFAULT_NAMES,
        schedule_period=period,
        default_queue=given["default_queue"],
        node_selector=tuple(filter(None, map(parse_node_label, given["node_selector"]))),
        removes_queue_gates=queue_gates(given["feature_gates"]),
    )


def node_selector_notes(given: Mapping[str, Any]) -> list[str]:
    """Return a warning if `--node-selector` has entries without a key and a value, which are ignored."""
    ignored = [entry for entry in given["node_selector"] if parse_node_label(entry) is None]
    if not ignored:
        return []
    return [f"--node-selector: ignored, because they are not key:value: {', '.join(map(repr, ignored))}"]


def parse_node_label(text: str) -> tuple[str, str] | None:
    """Parse ``key:value``, as vc-scheduler does; None if it is something else."""
    key, _, value = text.partition(":")
    return (key.strip(), value.strip()) if value else None


def active_active(
    given: Mapping[str, Any], config: SchedulerConfiguration, *, batch: BatchSettings | None, records: bool
) -> MembershipSettings | None:
    """Return the settings of `--active-active`; None without the flag. Ends the command for invalid combinations."""
    from mooring.kube.membership import MembershipSettings, member_identity

    if not given["active_active"]:
        return None
    for unsupported, flag in ((batch is not None, "--scheduler-conf"), (records, "--record")):
        if unsupported:
            raise click.UsageError(f"--active-active cannot be combined with {flag}: remove one of them")
    duration = given["active_active_lease_duration"] / 1e9
    if not 0.2 <= duration <= 60:
        text = "the duration must be between 200ms and 60s, such as 600ms"
        raise click.BadParameter(text, param_hint="--active-active-lease-duration")
    election = config.leader_election
    return MembershipSettings(
        identity=member_identity(election.resource_name),
        group=election.resource_name,
        namespace=election.resource_namespace,
        lease_duration=duration,
    )


def with_sessions(
    config: SchedulerConfiguration, batch: BatchSettings, given: Mapping[str, Any]
) -> SchedulerConfiguration:
    """Return the configuration for a scheduler that also runs batch sessions.

    Without --config there are only sessions, as in vc-scheduler.
    """
    if given["config"] is not None:
        for profile in config.profiles:
            if profile.scheduler_name in batch.scheduler_names:
                text = f"{profile.scheduler_name} is also a profile in --config; rename one of them"
                raise click.BadParameter(text, param_hint="--scheduler-name")
        return config
    connection, election = config.client_connection, config.leader_election
    qps = connection.qps if given["kube_api_qps"] is not None else _QPS
    burst = connection.burst if given["kube_api_burst"] is not None else _BURST
    if given["leader_elect_resource_name"] is None:
        # Do not use kube-scheduler's lease: the process would wait for kube-scheduler.
        name = batch.scheduler_names[0] if len(batch.scheduler_names) == 1 else "vc-scheduler"
        election = msgspec.structs.replace(election, resource_name=name)
    # A profile with an empty name matches no pod: pods without a schedulerName belong to kube-scheduler.
    unused = tuple(msgspec.structs.replace(profile, scheduler_name="") for profile in config.profiles[:1])
    return msgspec.structs.replace(
        config,
        profiles=unused,
        leader_election=election,
        client_connection=msgspec.structs.replace(connection, qps=qps, burst=burst),
    )


def plain_endpoints(given: Mapping[str, Any]) -> list[ServerSettings]:
    """Return the settings of the plain HTTP endpoints for health and metrics, as in vc-scheduler."""
    from mooring.live.endpoints.endpoint_server import ServerSettings

    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for enabled, flag, path in (
        ("enable_healthz", "healthz-address", "/healthz"),
        ("enable_metrics", "listen-address", "/metrics"),
    ):
        if given[enabled]:
            where = _address(given[flag.replace("-", "_")], f"--{flag}")
            found[where] = (*found.get(where, ()), path)
    return [ServerSettings(bind_address=host, port=port, plain_paths=paths) for (host, port), paths in found.items()]


def _address(text: str, flag: str) -> tuple[str, int]:
    """Parse ``:8080``, ``127.0.0.1:8080`` or ``[::1]:8080``."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8080 or :8080", param_hint=flag)
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)
