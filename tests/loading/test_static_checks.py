"""`mooring plugin check`: the exact output for broken plugins."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main

BROKEN = Path(__file__).parent / "broken"
ROOT = Path(__file__).parents[2]


def check(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plugin", "check", *map(str, arguments)])


@pytest.mark.parametrize("file", sorted(BROKEN.glob("*.py")), ids=lambda file: file.stem)
def test_broken_plugins(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expected output is in the .txt file of each plugin. Update it with `mooring plugin check FILE > FILE.txt`."""
    monkeypatch.chdir(BROKEN)
    result = check(file.name)
    assert result.exit_code == 1
    assert result.stdout == file.with_suffix(".txt").read_text()


def test_there_are_at_least_ten_broken_plugins() -> None:
    assert len(list(BROKEN.glob("*.py"))) >= 10


def test_the_examples_pass() -> None:
    result = check(*sorted(path for path in (ROOT / "examples/plugins").iterdir() if path.is_dir()))
    assert result.exit_code == 0, result.stdout
    assert "NodeNumber: ok (score; sha256 " in result.stdout


def test_a_plugin_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    import mooring.cli.plugin_check as command

    monkeypatch.setattr(command, "_CALL_SECONDS", 0.5)
    monkeypatch.setattr("builtins.still_hanging", threading.Event(), raising=False)
    (tmp_path / "slow.py").write_text(
        "from mooring.framework import Plugin\n\nclass Slow(Plugin):\n"
        "    def filter(self, state, pod, node):\n        still_hanging.wait()\n"
    )
    result = check(tmp_path / "slow.py")
    __builtins__["still_hanging"].set()
    assert result.stdout == f"{tmp_path}/slow.py:5: Slow: did not return within 0.5 s\n"


def test_arguments_in_a_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: NodeNumber}]}}\n"
        "  pluginConfig:\n  - {name: NodeNumber, args: {revers: true}}\n"
    )
    result = check(ROOT / "examples/plugins/nodenumber", "--config", config)
    assert result.exit_code == 1
    told = (
        f'{config}:6: profiles[0].pluginConfig[0].args: Object contains unknown field `revers`. Did you mean "reverse"?'
    )
    assert told in result.stdout


def test_errors_of_arguments_in_mappings_name_the_key(tmp_path: Path) -> None:
    (tmp_path / "pools.py").write_text(
        "from mooring.framework import Plugin\n"
        "class Pools(Plugin):\n"
        "    class Args:\n        node_pools: dict[str, dict[str, list[int]]] = {}\n"
        "    def score(self, state, pod, node): return 1\n"
    )
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {multiPoint: {enabled: [{name: Pools}]}}\n"
        "  pluginConfig:\n  - name: Pools\n    args:\n      nodePools:\n"
        "        east: {a: [1]}\n        west:\n          a: [1]\n          b: [1, x]\n"
    )
    result = check(tmp_path / "pools.py", "--config", config)
    told = f"{config}:12: profiles[0].pluginConfig[0].args.nodePools.west.b[1]: Expected `int`, got `str`"
    assert told in result.stdout


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("nowhere", "nowhere: no such file"),
        ("empty", "empty: defines no plugin"),
        ("a.txt", "a.txt: not a Python file"),
    ],
)
def test_nothing_to_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, told: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("")
    result = check(path)
    assert result.exit_code == 1
    assert result.stdout.startswith(told)


def test_list(tmp_path: Path) -> None:
    folder = ROOT / "examples/plugins/nodenumber"
    result = CliRunner().invoke(main, ["plugin", "list", "--plugins-dir", str(folder)])
    row = result.stdout.splitlines()[2].split()
    assert row == ["NodeNumber", "default-scheduler", "score", "1", "running", str(folder / "nodenumber.py")]
    everything = CliRunner().invoke(main, ["plugin", "list", "-a", "-o", "json"])
    assert '"source": "built in"' in everything.stdout
    assert "only built-in plugins are enabled" in CliRunner().invoke(main, ["plugin", "list"]).stderr


def test_list_notes_plugins_in_no_profile(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    (tmp_path / "magic.py").write_text("class Magic:\n    def on_session_open(self, session): ...\n")
    (tmp_path / "idle.py").write_text(
        "from mooring.framework import Plugin\nclass Idle(Plugin):\n    def score(self, state, pod, node): return 1\n"
    )
    result = CliRunner().invoke(main, ["plugin", "list", "--config", str(config), "--plugins-dir", str(tmp_path)])
    assert result.stderr == "plugin Idle is in no profile: enable it under profiles[].plugins.multiPoint\n"
    idle, magic = result.stdout.splitlines()[2:]
    assert idle.split()[:3] == ["Idle", "score", "idle"]
    assert "for batch sessions" in magic
