"""What the flags of `mooring run` mean: for the configuration, for the cluster, and for the endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from mooring.config import SchedulerConfiguration
    from mooring.kube import Access
    from mooring.live.endpoints.endpoint_server import ServerSettings

#: Flags of leader election -> the field of the configuration they override.
_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}


def configured(
    config: SchedulerConfiguration, given: Mapping[str, Any], *, from_file: bool
) -> tuple[SchedulerConfiguration, list[str]]:
    """The configuration with what flags override, as in kube-scheduler, and what to tell about flags that did not.

    Flags of leader election override a file; those that kube-scheduler calls deprecated count only without one. Ends
    the command where the result is faulty.
    """
    from mooring.config.check import check_election

    told: list[str] = []
    client: dict[str, Any] = {}
    for flag, field in (("kube_api_qps", "qps"), ("kube_api_burst", "burst"), ("kubeconfig", "kubeconfig")):
        value = given[flag]
        if value is None:
            continue
        named = config.client_connection.kubeconfig
        if from_file and (flag != "kubeconfig" or (named and named != value)):
            told.append(f"--{flag.replace('_', '-')}: ignored because of --config; set clientConnection.{field} there")
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
    return changed, told


def without_cluster(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """The configuration, without a word about which cluster it is for."""
    connection = msgspec.structs.replace(config.client_connection, kubeconfig="")
    return msgspec.structs.replace(config, client_connection=connection)


def served(given: Mapping[str, Any]) -> ServerSettings | None:
    """Where and how the endpoints are served; None where they are not. Ends the command for what cannot be."""
    from mooring.live.endpoints.endpoint_auth import GuardSettings
    from mooring.live.endpoints.endpoint_server import ServerSettings
    from mooring.live.endpoints.endpoint_tls import TlsSettings

    port = given["secure_port"]
    if not 0 <= port <= 65535:
        raise click.BadParameter(f"{port} is not a port: give a number from 0 to 65535", param_hint="--secure-port")
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
        guard=GuardSettings(
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


def gate_notes(given: Mapping[str, Any]) -> list[str]:
    """What to tell about feature gates. Ends the command for those that cannot be had."""
    from mooring.cli.flags.flag import parse_bool
    from mooring.config.gates import GateError, check_gates

    try:
        wanted = {name.removeprefix("kube:"): parse_bool(value) for name, value in given["feature_gates"]}
        return [f"--feature-gates: {note}" for note in check_gates(wanted)]
    except (GateError, ValueError) as error:
        raise click.BadParameter(str(error), param_hint="--feature-gates") from None


def _access(kubeconfig: str, flag: str) -> Access | None:
    from mooring.kube import AccessError, load_access

    if not kubeconfig:
        return None
    try:
        return load_access(kubeconfig=kubeconfig)
    except AccessError as error:
        raise click.ClickException(f"{flag}: {error}") from None
