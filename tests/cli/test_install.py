"""`mooring install static-pod`: a manifest that takes the place of kube-scheduler on a kubeadm node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import main

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PLUGIN = """
from mooring.framework import CustomResource, Lister, Plugin

class Report(CustomResource, group="example.com", version="v1"):
    class Spec:
        load: int = 0
    spec: Spec

class Reader(Plugin):
    reports = Lister(Report)
    def score(self, state, pod, node):
        return 0
"""


def static_pod(*arguments: str) -> tuple[dict[str, Any], str]:
    done = CliRunner().invoke(main, ["install", "static-pod", *arguments])
    assert done.exit_code == 0, done.output
    return yaml.safe_load(done.stdout), done.stderr


def test_what_kubeadm_expects() -> None:
    pod, notes = static_pod("--image", "mooring:test")
    assert notes == ""
    assert (pod["kind"], pod["metadata"]["name"], pod["metadata"]["namespace"]) == (
        "Pod",
        "kube-scheduler",
        "kube-system",
    )
    assert pod["metadata"]["labels"] == {"component": "kube-scheduler", "tier": "control-plane"}
    assert pod["spec"]["hostNetwork"] is True
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "mooring:test"
    assert container["command"][:3] == ["mooring", "run", "--kubeconfig=/etc/kubernetes/scheduler.conf"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"


def test_files_are_mounted_where_they_are(tmp_path: Path) -> None:
    config, folder, conf = tmp_path / "scheduler.yaml", tmp_path / "plugins", tmp_path / "volcano-scheduler.conf"
    config.write_text(HEAD + "profiles: [{plugins: {multiPoint: {enabled: [{name: Reader}]}}}]\n")
    conf.write_text("")
    folder.mkdir()
    (folder / "reader.py").write_text(PLUGIN)
    pod, notes = static_pod(
        "--config", str(config), "--plugins-dir", str(folder), "--scheduler-conf", str(conf)
    )  # fmt: skip
    (container,) = pod["spec"]["containers"]
    for flag in (f"--config={config}", f"--plugins-dir={folder}", f"--scheduler-conf={conf}"):
        assert flag in container["command"]
    mounted = {each["mountPath"]: each.get("readOnly") for each in container["volumeMounts"]}
    assert mounted == {
        "/etc/kubernetes/scheduler.conf": True,
        str(config): True,
        str(folder): True,
        str(conf): True,
        "/tmp": None,
    }
    kinds = {
        each["hostPath"]["path"]: each["hostPath"]["type"] for each in pod["spec"]["volumes"] if "hostPath" in each
    }
    assert kinds[str(folder)] == "Directory"
    assert "mooring rbac --user system:kube-scheduler" in notes


@pytest.mark.parametrize(
    ("config", "note"),
    [
        ("profiles: [{schedulerName: mine}]\n", "there is no profile default-scheduler (there are: mine)"),
        ("leaderElection: {leaderElect: false}\n", "leaderElection.leaderElect is false"),
        ("leaderElection: {resourceName: mine}\n", "the lease kube-system/mine is not kube-scheduler's"),
    ],
)
def test_what_would_surprise_is_said(tmp_path: Path, config: str, note: str) -> None:
    (tmp_path / "config.yaml").write_text(HEAD + config)
    assert note in static_pod("--config", str(tmp_path / "config.yaml"))[1]


def test_a_faulty_configuration_ends_it() -> None:
    done = CliRunner().invoke(main, ["install", "static-pod", "--config", "nowhere.yaml"])
    assert (done.exit_code, done.output) == (1, "nowhere.yaml: no such file\n")


def test_json() -> None:
    done = CliRunner().invoke(main, ["install", "static-pod", "-o", "json"])
    assert json.loads(done.output)["kind"] == "Pod"
