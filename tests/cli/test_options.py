"""`--plugins-dir` and `--plugin` in every command that takes plugins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

PLUGIN = """\
from mooring.framework import Plugin

class Veto(Plugin):
    def filter(self, state, pod, node):
        return "veto"
"""
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "pods": "9"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"containers": [{"name": "c"}]},
}


CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "veto.py").write_text(PLUGIN)
    (tmp_path / "m.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}))
    (tmp_path / "case.json").write_text(json.dumps({"id": 1, "objects": [NODE], "pod": POD}))
    return tmp_path


def test_every_command_takes_a_folder(folder: Path) -> None:
    option = ["--plugins-dir", str(folder / "plugins")]
    run = CliRunner().invoke
    simulated = run(main, ["simulate", "-f", str(folder / "m.json"), "-o", "json", *option])
    assert "1 veto" in simulated.stdout, simulated.output
    evaluated = run(main, ["evaluate", str(folder / "case.json"), *option])
    assert json.loads(evaluated.stdout)["filter"]["n"]["reasons"] == ["veto"]
    config = f"{CONFIG}profiles: [{{plugins: {{filter: {{enabled: [{{name: Veto}}]}}}}}}]\n"
    assert "- name: Veto" in run(main, ["config", "view", *option], input=config).stdout
    explained = run(main, ["explain", "pod", "p", "-f", str(folder / "m.json"), *option])
    assert "veto" in explained.stdout


def test_the_file_says_where_its_plugins_are(folder: Path) -> None:
    (folder / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {enabled: [{name: Veto}]}}}]\n"
        "---\napiVersion: mooring.dev/v1alpha1\nkind: PluginSources\ndirectories: [plugins]\n"
    )
    run = CliRunner().invoke
    simulated = run(main, ["simulate", "-f", str(folder / "m.json"), "--config", str(folder / "config.yaml")])
    assert "veto" in simulated.stdout, simulated.output
    migrated = run(main, ["config", "migrate", str(folder / "config.yaml")])
    assert migrated.stdout.endswith(
        "---\napiVersion: mooring.dev/v1alpha1\nkind: PluginSources\ndirectories: [plugins]\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "-f", "m.json"],
        ["evaluate", "case.json"],
        ["config", "view"],
        ["run"],
        ["explain", "pod", "p", "-f", "m.json"],
    ],
)
def test_a_folder_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(
        main,
        [*command, "--plugins-dir", "nowhere"],
        input=CONFIG,
    )
    assert result.exit_code == 1
    assert result.stderr == "nowhere: no such folder\n"
