"""The alerts and the dashboard: promtool proves the rules, and a real Prometheus finds data for every query."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane, Process, free_port
from tests.e2e.endpoints import is_ready
from tests.e2e.helm import CHART
from tests.e2e.mooring_process import MOORING, mooring_command
from tests.e2e.prometheus import MissingError, Prometheus, program

RULES: Final = CHART / "files" / "alerts.yaml"
ALERTS: Final = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}
#: What a healthy scheduler and controller export, besides what a case says. One value a minute.
HEALTHY: Final = {
    'scheduler_pending_pods{job="mooring",queue="active"}': "0x90",
    'leader_election_master_status{job="mooring",name="mooring",pod="a"}': "1x90",
    'leader_election_master_status{job="mooring",name="mooring",pod="b"}': "0x90",
    'scheduler_schedule_attempts_total{job="mooring",profile="p",result="error"}': "0x90",
    'mooring_plugin_failures_total{job="mooring",plugin="Mine",method="score"}': "0x90",
    'mooring_plugin_hangs_total{job="mooring",plugin="Mine",method="score"}': "0x90",
    'mooring_plugin_switched_off{job="mooring",plugin="Mine"}': "0x90",
    'mooring_plugin_reloads_total{job="mooring",result="failed"}': "0x90",
    'mooring_batch_binds_total{job="mooring",result="failed"}': "0x90",
    'mooring_controller_reconcile_errors_total{job="mooring",controller="queue"}': "0x90",
    'rest_client_requests_total{job="mooring",host="h",code="200",method="GET"}': "0+100x90",
    'volcano_unschedule_job_count{job="mooring"}': "0x90",
}
#: Once, after an hour of nothing: the first failure.
FIRST: Final = "0x60 1x30"
#: (what happens, series, minute, alert, labels).
CASES: Final[list[tuple[str, dict[str, str], int, str, dict[str, str]]]] = [
    ("nothing", {}, 89, "", {}),
    (
        "another scheduler fails, is overloaded and waits for its lease",
        {
            'scheduler_schedule_attempts_total{job="kube-scheduler",profile="p",result="error"}': "0+100x90",
            'scheduler_pending_pods{job="kube-scheduler",queue="active"}': "0+100x90",
            'leader_election_master_status{job="kube-scheduler",name="kube-scheduler"}': "0x90",
            'scheduler_pod_scheduling_sli_duration_seconds_bucket{job="kube-scheduler",le="+Inf"}': "0+100x90",
            'rest_client_requests_total{job="kube-scheduler",host="h",code="500",method="GET"}': "0+100x90",
        },
        89,
        "",
        {},
    ),
    (
        "Mooring is gone, and another scheduler runs",
        {**dict.fromkeys(HEALTHY, ""), 'scheduler_pending_pods{job="kube-scheduler",queue="active"}': "0x90"},
        89,
        "MooringAbsent",
        {"job": "mooring"},
    ),
    (
        "no replica holds the lease",
        {'leader_election_master_status{job="mooring",name="mooring",pod="a"}': "1x60 0x30"},
        70,
        "MooringNoLeader",
        {"name": "mooring"},
    ),
    (
        "the first attempt that fails",
        {'scheduler_schedule_attempts_total{job="mooring",profile="p",result="error"}': FIRST},
        67,
        "MooringErrors",
        {"profile": "p"},
    ),
    (
        "pods wait for minutes",
        {
            'scheduler_pod_scheduling_sli_duration_seconds_bucket{job="mooring",le="40.96"}': "0x90",
            'scheduler_pod_scheduling_sli_duration_seconds_bucket{job="mooring",le="163.84"}': "0+10x90",
            'scheduler_pod_scheduling_sli_duration_seconds_bucket{job="mooring",le="+Inf"}': "0+10x90",
        },
        60,
        "MooringSlowToPlace",
        {},
    ),
    (
        "the backlog grows",
        {'scheduler_pending_pods{job="mooring",queue="active"}': "0+50x90"},
        60,
        "MooringBacklog",
        {},
    ),
    (
        "requests fail without a response",
        {'rest_client_requests_total{job="mooring",host="h",code="<error>",method="GET"}': "0+50x90"},
        60,
        "MooringApiErrors",
        {"host": "h"},
    ),
    (
        "a plugin is switched off",
        {'mooring_plugin_switched_off{job="mooring",plugin="Mine"}': FIRST},
        62,
        "MooringPluginSwitchedOff",
        {"plugin": "Mine"},
    ),
    (
        "the first call that fails",
        {'mooring_plugin_failures_total{job="mooring",plugin="Mine",method="score"}': FIRST},
        62,
        "MooringPluginFails",
        {"plugin": "Mine"},
    ),
    (
        "the first call that hangs",
        {'mooring_plugin_hangs_total{job="mooring",plugin="Mine",method="score"}': FIRST},
        62,
        "MooringPluginHangs",
        {"plugin": "Mine"},
    ),
    (
        "the first reload that fails",
        {'mooring_plugin_reloads_total{job="mooring",result="failed"}': FIRST},
        62,
        "MooringReloadFailed",
        {},
    ),
    (
        "the first bind of a session that fails",
        {'mooring_batch_binds_total{job="mooring",result="failed"}': FIRST},
        62,
        "MooringBindsFail",
        {},
    ),
    (
        "reconciliations keep failing",
        {'mooring_controller_reconcile_errors_total{job="mooring",controller="queue"}': "0x30 0+1x60"},
        70,
        "MooringReconcileErrors",
        {"controller": "queue"},
    ),
    ("jobs wait for an hour", {'volcano_unschedule_job_count{job="mooring"}': "2x90"}, 80, "MooringJobsWait", {}),
]


def found_program(name: str) -> str:
    try:
        return str(program(name))
    except MissingError as error:
        pytest.skip(f"not proven here: {error}")


def test_every_alert_has_a_case() -> None:
    assert {alert for *_, alert, _ in CASES if alert} == set(ALERTS)


def test_the_rules_fire_when_they_should_and_only_then(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """promtool test rules: in each case one alert fires, or none, and no other."""
    promtool = found_program("promtool")
    tests = [
        {
            "name": what,
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values} for series, values in {**HEALTHY, **changed}.items() if values
            ],
            "alert_rule_test": [
                {"alertname": name, "eval_time": f"{minute}m", "exp_alerts": expected(name, labels, name == alert)}
                for name in ALERTS
            ],
        }
        for what, changed, minute, alert, labels in CASES
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with capsys.disabled():
        print(f"\npromtool test rules: {len(ALERTS)} alerts in {len(CASES)} cases: {done.stdout.split()[-1]}")


def expected(name: str, labels: dict[str, str], fires: bool) -> list[dict[str, Any]]:
    """The alert as promtool writes it; the value of the only one that shows it is 2."""
    if not fires:
        return []
    rule = ALERTS[name]

    def filled(text: str) -> str:
        text = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], text)
        return text.replace("{{ $value }}", "2")

    notes = {key: filled(text) for key, text in rule["annotations"].items()}
    return [{"exp_labels": {**rule["labels"], **labels}, "exp_annotations": notes}]


# A real Prometheus

PLUGIN: Final = '''
from mooring.framework import Plugin


class Picky(Plugin):
    """Fails for pods with the label break."""

    def score(self, state, pod, node):
        if "break" in pod.metadata.labels:
            raise RuntimeError("this pod breaks it")
        return 0
'''


@pytest.fixture
def plane(built: None) -> Iterator[ControlPlane]:
    yield from running(ControlPlane())


def start_mooring(cluster: Cluster, folder: Path) -> tuple[Process, list[int]]:
    """A scheduler with a plugin and batch sessions, and the controllers; their ports."""
    plugins = folder / "plugins"
    plugins.mkdir(mode=0o755)
    (plugins / "picky.py").write_text(PLUGIN)
    config = folder / "config.yaml"
    profile = {"schedulerName": "mooring", "plugins": {"multiPoint": {"enabled": [{"name": "Picky"}]}}}
    lease = {"leaderElect": True, "resourceName": "mooring"}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump({**head, "leaderElection": lease, "profiles": [profile]}))
    kubeconfig = ["--kubeconfig", str(cluster.plane.kubeconfig())]
    subprocess.run([str(MOORING), "batch", "install", *kubeconfig], check=True, capture_output=True, timeout=120)
    ports = [free_port(), free_port()]
    flags = ["--config", str(config), "--plugins-dir", str(plugins), "--scheduler-name", "volcano"]
    command = mooring_command(cluster.plane, *flags, user="admin", port=ports[0])
    scheduler = cluster.plane.run("mooring", command, ready=lambda: is_ready(ports[0]))
    command = [str(MOORING), "controller", *kubeconfig, "--bind-address", "127.0.0.1", "--secure-port", str(ports[1])]
    cluster.plane.run("controllers", command, ready=lambda: is_ready(ports[1]))
    return scheduler, ports


def work(cluster: Cluster, number: int) -> None:
    """Some pods that fit, one that does not, one that preempts another."""
    here = {"schedulerName": "mooring"}
    cluster.add_node(f"node-{number}", cpu="4", labels={"round": str(number)})
    cluster.add_pod(f"victim-{number}", cpu="3", nodeSelector={"round": str(number)}, **here)
    cluster.wait_bound(f"victim-{number}")
    for pod in range(12):
        cluster.add_pod(f"pod-{number}-{pod}", cpu="10m", **here)
    cluster.add_pod(f"big-{number}", cpu="100", **here)
    cluster.add_pod(
        f"urgent-{number}", cpu="3", priorityClassName="urgent", nodeSelector={"round": str(number)}, **here
    )
    cluster.wait_bound(f"urgent-{number}", *(f"pod-{number}-{pod}" for pod in range(12)))


def queries() -> list[str]:
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_query_of_the_dashboard_has_data_and_the_first_failure_fires(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Next to a kube-scheduler that exports metrics of the same names."""
    found_program("prometheus")
    cluster = Cluster(plane)
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    process = plane.start_kube_scheduler()
    (theirs,) = (each.partition("=")[2] for each in process.command if each.startswith("--secure-port="))
    _, ours = start_mooring(cluster, tmp_path)
    jobs = {"mooring": ours, "kube-scheduler": [int(theirs)]}
    prometheus = Prometheus(plane, tmp_path, jobs, RULES)
    rounds = 0

    def without_data() -> list[str]:
        return [each for each in queries() if not any(map(math.isfinite, prometheus.values(each)))]

    def all_have_data() -> bool:
        nonlocal rounds
        work(cluster, rounds)
        rounds += 1
        return not without_data()

    cluster.api.wait_for("data for every query", lambda: all_have_data() or None, timeout=120)
    assert prometheus.broken_targets() == []
    assert prometheus.values('scheduler_pending_pods{job="kube-scheduler",queue="active"}')
    assert prometheus.alerts() == {}
    cluster.add_pod("breaks", schedulerName="mooring", metadata={"labels": {"break": "yes"}})
    firing = cluster.api.wait_for(
        "the alert of the plugin", lambda: [name for name, state in prometheus.alerts().items() if state == "firing"]
    )
    assert firing == ["MooringPluginFails"]
    with capsys.disabled():
        print(
            f"\nPrometheus: {len(queries())} queries of the dashboard have data after {rounds} rounds; {firing} fires"
        )
