"""vc-scheduler's flags of `mooring run`: S0's command line unchanged, on the embedded cluster."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from mooring.cli.cluster_process import ChildCluster
from mooring.cli.flags.scheduler_settings import (
    VOLCANO_GATES,
    batch_settings,
    gate_notes,
    gated_release,
    node_selector_notes,
    plain_endpoints,
    with_sessions,
)
from mooring.cli.run import run
from mooring.cluster.kubeconfig import kubeconfig_text
from mooring.config import default_config
from mooring.live.batch.batch_settings import session_actions, session_plugins
from mooring.loading import Requested, find_plugins
from mooring.releases import NEWEST
from tests.cli.test_run import mooring
from tests.e2e.controlplane import free_port
from tests.live.volcano_crds import POD_GROUP, QUEUE
from tests.waiting import PATIENCE, wait_until

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: magic}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
MAGIC = """
class Magic:
    def on_session_open(self, session):
        session.add_node_order(lambda task, node: 1000.0 if node.name == "node-2" else 0.0)
"""


def given(*arguments: str) -> dict[str, Any]:
    return run.make_context("run", list(arguments)).params


def test_there_are_sessions_where_a_flag_asks_for_them() -> None:
    assert batch_settings(given()) is None
    assert batch_settings(given("--scheduler-name=default-scheduler")) is None
    assert batch_settings(given("--scheduler-name=volcano")) is not None
    flags = given(
        "--scheduler-conf=x.conf", "--scheduler-name=a", "--scheduler-name=b", "--schedule-period=200ms",
        "--default-queue=q",
    )  # fmt: skip
    found = batch_settings(flags)
    assert found is not None
    assert (found.scheduler_conf, found.scheduler_names) == (Path("x.conf"), ("a", "b"))
    assert (found.schedule_period, found.default_queue) == (0.2, "q")


def test_the_node_selector_is_read_as_in_vc_scheduler() -> None:
    flags = given(
        "--scheduler-conf=x", "--node-selector=pool:batch, role : train", "--node-selector=a:b:c",
        "--node-selector=bare,end:",
    )  # fmt: skip
    found = batch_settings(flags)
    assert found is not None
    assert found.node_selector == (("pool", "batch"), ("role", "train"), ("a", "b:c"))
    assert node_selector_notes(flags) == ["--node-selector: ignored, because they are not key:value: 'bare', 'end:'"]
    assert node_selector_notes(given("--node-selector=a:b")) == []


def test_feature_gates_of_volcano() -> None:
    assert set(VOLCANO_GATES) == {
        "WorkLoadSupport", "VolcanoJobSupport", "CronVolcanoJobSupport", "QueueCommandSync", "CSIStorage",
        "PodDisruptionBudgetsSupport", "PriorityClass", "ResourceTopology", "SchedulingGatesQueueAdmission",
    }  # fmt: skip
    for name, gate in VOLCANO_GATES.items():
        if gate.value is None:
            continue
        assert gate_notes(None, [(name, str(gate.value).lower())]) == []
        other = [(name, str(not gate.value).lower())]
        if gate.is_error:
            with pytest.raises(click.BadParameter, match=name):
                gate_notes(None, other)
        else:
            assert gate_notes(None, other) == [f"--feature-gates: {name}={other[0][1]} has no effect: {gate.text}"]
        assert gated_release(NEWEST, other).gate_changes == NEWEST.gate_changes
    with pytest.raises(click.BadParameter):
        gate_notes(None, [("CSIStorage", "perhaps")])


@pytest.mark.parametrize(
    ("gates", "removes"),
    [
        ((), False),
        (("SchedulingGatesQueueAdmission=true",), True),
        (("CSIStorage=true,SchedulingGatesQueueAdmission=1",), True),
        (("SchedulingGatesQueueAdmission=true", "SchedulingGatesQueueAdmission=false"), False),
    ],
)
def test_scheduling_gates_of_queues(gates: tuple[str, ...], removes: bool) -> None:
    flags = given("--scheduler-conf=x", *(f"--feature-gates={each}" for each in gates))
    found = batch_settings(flags)
    assert found is not None
    assert found.removes_queue_gates is removes
    assert gate_notes(None, flags["feature_gates"]) == []


def test_without_a_file_there_are_only_sessions_with_a_lease_of_their_own() -> None:
    flags = given("--scheduler-conf=x")
    batch = batch_settings(flags)
    assert batch is not None
    config = with_sessions(default_config(), batch, flags)
    assert [profile.scheduler_name for profile in config.profiles] == [""]
    assert config.leader_election.resource_name == "volcano"
    assert (config.client_connection.qps, config.client_connection.burst) == (2000, 2000)


def test_with_a_file_both_engines_run_and_names_must_differ() -> None:
    flags = given("--scheduler-conf=x", "--config=y")
    batch = batch_settings(flags)
    assert batch is not None
    assert with_sessions(default_config(), batch, flags) == default_config()
    flags = given("--scheduler-conf=x", "--config=y", "--scheduler-name=default-scheduler")
    batch = batch_settings(flags)
    assert batch is not None
    with pytest.raises(click.BadParameter, match="also a profile"):
        with_sessions(default_config(), batch, flags)


def test_plain_endpoints_are_served_where_a_flag_asks_for_them() -> None:
    assert plain_endpoints(given("--healthz-address=:1")) == []
    (health,) = plain_endpoints(given("--enable-healthz=true"))
    assert (health.bind_address, health.port, health.plain_paths) == ("0.0.0.0", 11251, ("/healthz",))
    flags = given("--enable-healthz", "--enable-metrics", "--listen-address=[::1]:9", "--healthz-address=[::1]:9")
    (both,) = plain_endpoints(flags)
    assert (both.bind_address, both.port, both.plain_paths) == ("::1", 9, ("/healthz", "/metrics"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--schedule-period=0s", "--scheduler-conf=x"], "the period must be positive"),
        (["--enable-metrics", "--listen-address=8080"], "'8080' is not HOST:PORT"),
        (["--scheduler-sharding-mode=hard"], "sharding nodes among schedulers is not supported"),
    ],
)
def test_a_wrong_command_line_says_so(arguments: list[str], message: str) -> None:
    done = mooring(*arguments, "--kubeconfig=x")
    assert done.exit_code == 2
    assert message in done.output


def test_a_plugin_answers_to_its_name_and_its_file(tmp_path: Path) -> None:
    (tmp_path / "magic.py").write_text("class Wand:\n    def on_session_open(self, session): ...\n")
    (tmp_path / "tidy.py").write_text("class CleanUp:\n    def execute(self, session): ...\n")
    (tmp_path / "other.py").write_text("class Job:\n    def execute(self, query): ...\n")
    catalog = find_plugins(Requested(directories=(tmp_path,)))
    assert sorted(session_plugins(catalog)) == ["magic", "wand"]
    assert sorted(session_actions(catalog)) == ["clean-up"]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with ChildCluster(nodes=3, port=0, data_dir=None) as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig_text(server=cluster.server, authority=cluster.authority, token=cluster.token))
        yield path


def kube(kubeconfig: Path, *arguments: str) -> str:
    command = [sys.executable, "scripts/kube.py", arguments[0], "--kubeconfig", str(kubeconfig), *arguments[1:]]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def gang(name: str, pods: int) -> list[dict[str, Any]]:
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    found: list[dict[str, Any]] = [{**group, "spec": {"minMember": pods, "queue": "default"}}]
    for number in range(pods):
        metadata = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}}
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return found


def test_the_story_s_command_line_works_unchanged(kubeconfig: Path, tmp_path: Path) -> None:
    """Only the addresses are this test's own: servers of tests listen on loopback. An edited plugin counts at once."""
    plugins, conf = tmp_path / "plugins", tmp_path / "volcano-scheduler.conf"
    plugins.mkdir()
    (plugins / "magic.py").write_text(MAGIC)
    conf.write_text(CONF)
    objects = tmp_path / "objects.yaml"
    objects.write_text(yaml.safe_dump_all([QUEUE, POD_GROUP]))
    kube(kubeconfig, "apply", "-f", str(objects))
    objects.write_text(yaml.safe_dump_all(gang("fits", 2)))
    kube(kubeconfig, "apply", "-f", str(objects))
    health, metrics = free_port(), free_port()
    story = [
        "--logtostderr", f"--scheduler-conf={conf}", "--enable-healthz=true", "--enable-metrics=true",
        f"--plugins-dir={plugins}", "-v=3",
    ]  # fmt: skip
    own = [f"--healthz-address=127.0.0.1:{health}", f"--listen-address=127.0.0.1:{metrics}", "--secure-port=0"]
    command = [sys.executable, "-m", "mooring.cli", "run", *story, *own, "--kubeconfig", str(kubeconfig)]
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        for pod in ("fits-0", "fits-1"):
            assert kube(kubeconfig, "bound", "--timeout", "60", pod).strip() == "node-2", log.read_text()
        (plugins / "magic.py").write_text(MAGIC.replace("node-2", "node-1"))
        wait_until(lambda: "Reloaded" in log.read_text(), describe=log.read_text)
        objects.write_text(yaml.safe_dump_all(gang("later", 2)))
        kube(kubeconfig, "apply", "-f", str(objects))
        for pod in ("later-0", "later-1"):
            assert kube(kubeconfig, "bound", "--timeout", "60", pod).strip() == "node-1", log.read_text()
        assert read(health, "/healthz") == "ok"
        assert "scheduler_" in read(metrics, "/metrics")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            read(metrics, "/decisions")
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0, log.read_text()


def read(port: int, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
        return text
