"""`mooring run`: which flags work, which are explained, and what a wrong command line says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.flags.scheduler_settings import configured, served
from mooring.cli.main import main
from mooring.cli.run import run
from mooring.config import default_config

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def mooring(*arguments: str) -> Result:
    env = {"KUBECONFIG": "", "HOME": "/nonexistent", "KUBERNETES_SERVICE_HOST": ""}
    return CliRunner().invoke(main, ["run", *arguments], env=env)


def parsed(*arguments: str) -> dict[str, Any]:
    context = run.make_context("run", list(arguments))
    return context.params


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--leader-elect"], "leader_elect", True),
        (["--leader-elect=false"], "leader_elect", False),
        (["--leader_elect=F"], "leader_elect", False),
        (["--no-leader-elect"], "leader_elect", False),
        (["-v=5"], "v", 5),
        (["-v5"], "v", 5),
        (["-v", "5"], "v", 5),
        (["--v=5"], "v", 5),
        (["--config", "file.yaml"], "config", "file.yaml"),
        (["--leader-elect-lease-duration=1m30s"], "leader_elect_lease_duration", 90_000_000_000),
        (["--tls-cipher-suites=A,B"], "tls_cipher_suites", ("A", "B")),
        (["--kube-api-qps", "0.5"], "kube_api_qps", 0.5),
        (["--feature-gates=A=true,B=false"], "feature_gates", (("A", "true"), ("B", "false"))),
        (["--seed=-3"], "seed", -3),
        (["--scheduler-name=a", "--scheduler-name", "b,c"], "scheduler_name", ("a", "b", "c")),
        (["--feature-gates=A=true", "--feature-gates=B=false"], "feature_gates", (("A", "true"), ("B", "false"))),
        ([], "secure_port", 10259),
        ([], "bind_address", "0.0.0.0"),
    ],
)
def test_flags_are_read_as_go_reads_them(arguments: list[str], name: str, value: object) -> None:
    assert parsed(*arguments)[name] == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--leader-elct"], "unknown flag: --leader-elct. Did you mean --leader-elect?"),
        (["--xyzzy"], "unknown flag: --xyzzy. Try 'main run --help'."),
        (["--leader-elect", "false"], "unexpected 'false': write --leader-elect=false"),
        (["stray"], "unexpected argument 'stray': this command takes only flags"),
        (["--leader-elect=maybe"], "'maybe' is neither true nor false"),
        (["--config"], "--config: a value is missing"),
        (["--secure-port=x"], "'x' is not an integer"),
        (["--secure-port=99999", "--kubeconfig=x"], "99999 is not a port"),
        (["--leader-elect-retry-period=2"], '"2" is not a duration'),
        (["--leader-elect-retry-period=20s"], "renew-deadline: 10s must be longer than 1.2 times retry-period (20s)"),
        (["--leader-elect-renew-deadline=15s"], "must be shorter than lease-duration (15s)"),
        (["--leader-elect-resource-lock=endpoints"], "'endpoints' is not supported; use leases"),
        (["--logging-format=xml"], "'xml': use text or json"),
        (["--policy-config-file=x"], "was removed from kube-scheduler 1.23; write a --config file"),
        (["--port=10251"], "served plain HTTP and was removed"),
        (["--tls-sni-cert-key=a,b"], "Mooring serves a single certificate"),
        (["--requestheader-client-ca-file=x"], "clients authenticate with tokens"),
        (["--emulated-version=1.33"], "kube-scheduler 1.33 cannot be emulated; use 1.36 or 1.37"),
        (["--feature-gates=CompositePodGroup=true"], "CompositePodGroup=true changes how kube-scheduler decides"),
        (["--feature-gates=DRADeviceTaints=false", "--emulated-version=1.37"], "feature is locked to true"),
        (
            ["--feature-gates=GenericWorkloads=true"],
            "unrecognized feature gate: GenericWorkloads; did you mean GenericWorkload?",
        ),
        (["--feature-gates=AllBeta=true"], "AllBeta=true sets gates of which Mooring only supports the default"),
        (["--feature-gates=GangScheduling"], "'GangScheduling' is not NAME=VALUE"),
    ],
)
def test_what_cannot_be_had_is_said_in_a_line(arguments: list[str], message: str) -> None:
    done = mooring(*arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no cluster is configured"),
        (["--kubeconfig=nowhere"], "nowhere: no such file"),
        (["--config=nowhere.yaml"], "nowhere.yaml: no such file"),
        (
            ["--authentication-kubeconfig=nowhere", "--kubeconfig=x"],
            "--authentication-kubeconfig: nowhere: no such file",
        ),
        (["--write-config-to=/nonexistent/x"], "--write-config-to /nonexistent/x: No such file or directory"),
    ],
)
def test_what_keeps_it_from_starting(arguments: list[str], message: str) -> None:
    done = mooring(*arguments)
    assert done.exit_code == 1
    assert message in done.output


@pytest.mark.parametrize(
    ("argument", "note"),
    [
        ("--profiling", "--profiling: profiles a Go program; use py-spy"),
        ("--vmodule=cache=5", "--vmodule: sets the verbosity per Go source file; use -v"),
        ("--percentage-nodes-to-find=50", "batch sessions always evaluate all nodes"),
        ("--disable-default-scheduler-config", ""),
        ("--log-file=x", "lines go to standard error, not to a file"),
        ("--kube-api-content-type=application/vnd.kubernetes.protobuf", "requests are always JSON"),
        ("--feature-gates=WatchListClient=false", "WatchListClient=false has no effect on a scheduler"),
        ("--profiling=false", ""),
        ("--logtostderr", ""),
        ("--port=0", ""),
        ("--feature-gates=GangScheduling=false", ""),
        ("--contention-profiling=false", ""),
    ],
)
def test_what_is_harmless_is_told_once_and_only_where_it_says_something(argument: str, note: str) -> None:
    done = mooring(argument, argument, "--kubeconfig=nowhere", "-v=0")
    assert "nowhere: no such file" in done.output
    assert done.output.count('"--') == (1 if note else 0)
    assert note in done.output


# What flags do


def effect(*arguments: str, config: str | None = None) -> Any:
    from mooring.config import load_config

    base = default_config() if config is None else load_config(HEAD + config, source="f")
    return configured(base, parsed(*arguments), from_file=config is not None)


def test_leader_election_overrides_a_file_and_what_is_deprecated_does_not() -> None:
    flags = ("--leader-elect-resource-name=mine", "--kube-api-qps=7", "--kube-api-burst=8", "--kubeconfig=mine")
    config, told = effect(*flags)
    client = config.client_connection
    assert (config.leader_election.resource_name, client.qps, client.burst, client.kubeconfig) == ("mine", 7, 8, "mine")
    assert told == []
    config, told = effect(*flags, config="clientConnection: {kubeconfig: theirs, qps: 9}\n")
    client = config.client_connection
    assert (config.leader_election.resource_name, client.qps, client.kubeconfig) == ("mine", 9, "theirs")
    assert [each.split(":")[0] for each in told] == ["--kube-api-qps", "--kube-api-burst", "--kubeconfig"]
    config, told = effect("--kubeconfig=mine", config="parallelism: 3\n")
    assert (config.client_connection.kubeconfig, told) == ("mine", [])


def test_the_configuration_in_force_is_written(tmp_path: Path) -> None:
    file = tmp_path / "written.yaml"
    done = mooring("--leader-elect=false", "--kube-api-qps=7", f"--write-config-to={file}")
    assert (done.exit_code, done.output) == (0, f"Wrote configuration to {file}\n")
    written = yaml.safe_load(file.read_text())
    assert (written["leaderElection"]["leaderElect"], written["clientConnection"]["qps"]) == (False, 7)


def test_what_is_served() -> None:
    assert served(parsed("--secure-port=0")) is None
    settings = served(
        parsed("--secure-port=1", "--tls-min-version=VersionTLS13", "--authorization-always-allow-paths=/metrics",
               "--authentication-token-webhook-cache-ttl=1m", "--authentication-skip-lookup", "--permit-port-sharing")
    )  # fmt: skip
    assert settings is not None
    assert (settings.tls.min_version, settings.auth.open_paths, settings.auth.token_seconds) == (
        "VersionTLS13", ("/metrics",), 60.0,
    )  # fmt: skip
    assert (settings.look_up_authority, settings.share_port) == (False, True)


def test_help_is_grouped() -> None:
    text = mooring("--help").output
    for heading in ("Cluster and configuration:", "Endpoints:", "Leader election", "Mooring options:"):
        assert heading in text
    assert mooring("--version").output.startswith("mooring ")
