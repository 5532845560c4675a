"""From flags to the scheduler's configuration and settings."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from mooring.cli.flags.scheduler_settings import (
    batch_settings,
    configured,
    emulated_release,
    gate_notes,
    gated_release,
    plain_endpoints,
    served,
    with_sessions,
    without_cluster,
)
from mooring.cli.flags.supported_flags import SUPPORTED_FLAGS
from mooring.config import default_config
from mooring.releases import V1_36, V1_37

DEFAULTS = {flag.name.replace("-", "_"): flag.default for flag in SUPPORTED_FLAGS}


def flags(**given: Any) -> dict[str, Any]:
    return {**DEFAULTS, **given}


def test_leader_election_flags_override_a_file_and_deprecated_flags_do_not() -> None:
    given = flags(leader_elect=False, kube_api_qps=7.0)
    config, ignored = configured(default_config(), given, from_file=True)
    assert config.leader_election.leader_elect is False
    assert config.client_connection.qps == default_config().client_connection.qps
    assert ignored == ["--kube-api-qps: ignored because of --config; set clientConnection.qps there"]
    config, ignored = configured(default_config(), given, from_file=False)
    assert (config.client_connection.qps, ignored) == (7.0, [])


def test_invalid_leader_election_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="--leader-elect-"):
        configured(default_config(), flags(leader_elect_lease_duration=1), from_file=False)


def test_a_kubeconfig_can_be_removed() -> None:
    connection = msgspec.structs.replace(default_config().client_connection, kubeconfig="file")
    config = msgspec.structs.replace(default_config(), client_connection=connection)
    assert without_cluster(config).client_connection.kubeconfig == ""


def test_the_endpoints_can_be_disabled() -> None:
    assert served(flags(secure_port=0)) is None
    settings = served(flags(secure_port=4443, authorization_always_allow_paths=("/livez",)))
    assert settings is not None
    assert (settings.port, settings.auth.open_paths, settings.auth.token_seconds) == (4443, ("/livez",), 10.0)
    with pytest.raises(click.BadParameter, match="is not a port"):
        served(flags(secure_port=70_000))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, None),
        ({"scheduler_name": ("default-scheduler",)}, None),
        ({"scheduler_conf": "file"}, ("volcano",)),
        ({"scheduler_name": ("a", "b")}, ("a", "b")),
    ],
)
def test_sessions_run_if_a_flag_enables_them(given: dict[str, Any], names: tuple[str, ...] | None) -> None:
    settings = batch_settings(flags(**given))
    assert (None if settings is None else settings.scheduler_names) == names


def test_without_a_file_no_profile_matches_a_pod_and_the_lease_is_not_kube_schedulers() -> None:
    given = flags(scheduler_conf="file")
    batch = batch_settings(given)
    assert batch is not None
    config = with_sessions(default_config(), batch, given)
    assert [profile.scheduler_name for profile in config.profiles] == [""]
    assert config.leader_election.resource_name == "volcano"
    assert config.client_connection.qps == 2000.0


def test_a_profile_and_sessions_cannot_have_the_same_name() -> None:
    given = flags(config="file", scheduler_name=("default-scheduler", "volcano"))
    batch = batch_settings(given)
    assert batch is not None
    with pytest.raises(click.BadParameter, match="is also a profile"):
        with_sessions(default_config(), batch, given)


def test_plain_endpoints_share_an_address() -> None:
    assert plain_endpoints(flags()) == []
    both = flags(enable_healthz=True, enable_metrics=True, healthz_address=":8080", listen_address=":8080")
    (only,) = plain_endpoints(both)
    assert (only.bind_address, only.port, only.plain_paths) == ("0.0.0.0", 8080, ("/healthz", "/metrics"))
    apart = plain_endpoints(flags(enable_healthz=True, enable_metrics=True, listen_address="[::1]:9"))
    assert [(each.bind_address, each.port) for each in apart] == [("0.0.0.0", 11251), ("::1", 9)]
    with pytest.raises(click.BadParameter, match="is not HOST:PORT"):
        plain_endpoints(flags(enable_metrics=True, listen_address="nonsense"))


def test_the_release_and_its_gates() -> None:
    assert emulated_release("") is None
    assert emulated_release("kube=1.37") is V1_37
    with pytest.raises(click.BadParameter, match=r"kube-scheduler 1\.33 cannot be emulated; use 1\.36 or 1\.37"):
        emulated_release("1.33")
    gates = [("kube:StorageCapacityScoring", "true"), ("MemoryQoS", "true")]
    assert gated_release(V1_36, gates).enabled("StorageCapacityScoring")
    assert gate_notes(V1_36, gates) == ["--feature-gates: MemoryQoS=true has no effect on a scheduler"]
    # Which release is emulated is not known yet: the gate is refused in one of them, but not in the other.
    assert gate_notes(None, [("SidecarContainers", "true")]) == []
    with pytest.raises(click.BadParameter, match="unrecognized feature gate: NoSuchGate"):
        gated_release(V1_36, [("NoSuchGate", "true")])
    with pytest.raises(click.BadParameter, match="neither true nor false"):
        gated_release(V1_36, [("StorageCapacityScoring", "maybe")])
