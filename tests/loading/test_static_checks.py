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


def test_what_was_not_called_is_listed(tmp_path: Path) -> None:
    """A dry run cannot reach Score after a Filter that rejects all nodes, nor the binding cycle."""
    head = "from mooring.framework import Plugin\n\nclass Mine(Plugin):\n"
    strict = "    def filter(self, state, pod, node):\n        return 'no gpu'\n"
    scores = "    def score(self, state, pod, node):\n        return 1 / 0\n"
    binds = "    def pre_bind(self, state, pod, node_name):\n        return 1 / 0\n"
    needs = "    class Args:\n        pool: str\n"
    for text, told in (
        (head + strict + scores, "Mine: ok (filter; not called: score; sha256 "),
        (head + binds, "Mine: not called (preBind; sha256 "),
        (head + needs + strict, "Mine: not called (its arguments are missing: Object missing required field `pool`; "),
    ):
        (tmp_path / "mine.py").write_text(text)
        result = check(tmp_path / "mine.py")
        assert result.exit_code == 0, result.output
        assert told in result.stdout
        assert "Mine: ok (" in check(tmp_path / "mine.py", "--no-dry-run").stdout


def test_scores_between_0_and_1_produce_a_warning(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "from mooring.framework import Plugin\n\nclass Model(Plugin):\n"
        "    def score(self, state, pod, node):\n        return 0.9 if node.name == 'node-1' else 0.1\n"
    )
    result = check(tmp_path / "model.py")
    assert result.exit_code == 0
    assert result.stderr == (
        f"warning: {tmp_path}/model.py:4: Model: score: all scores are between 0 and 1, and only their whole part "
        "counts; declare score_range = (0.0, 1.0) in the class\n"
    )


def test_a_wrong_score_range_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "from mooring.framework import Plugin\n\nclass Model(Plugin):\n    score_range = (1.0, 0.0)\n\n"
        "    def score(self, state, pod, node):\n        return 0.5\n"
    )
    result = check(tmp_path / "model.py")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path}/model.py:4: Model: score_range is (1.0, 0.0); write the lowest and")


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


_MAGIC = """
class Magic:
    class Args:
        node: str
        weight: int = 1

    def on_session_open(self, session):
        session.add_node_order(lambda task, node: float(self.args.weight))
"""
_VOLCANO = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: magic
    arguments:
      node: a
      {}
"""


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("weight: 2", 0, "magic: ok (node_order; sha256 "),
        ("weight: heavy", 1, "conf:9: tiers[0].plugins[1].arguments.weight: magic: Expected `int`, got `str`"),
        ("wieght: 2", 1, "conf:8: tiers[0].plugins[1].arguments: magic: Object contains unknown field `wieght`"),
    ],
)
def test_the_arguments_in_a_volcano_configuration(tmp_path: Path, line: str, code: int, told: str) -> None:
    (tmp_path / "magic.py").write_text(_MAGIC)
    (tmp_path / "conf").write_text(_VOLCANO.format(line))
    result = check(tmp_path / "magic.py", "--config", tmp_path / "conf")
    assert (result.exit_code, told in result.stdout) == (code, True), result.stdout


def test_unknown_names_in_a_volcano_configuration(tmp_path: Path) -> None:
    (tmp_path / "magic.py").write_text(_MAGIC)
    (tmp_path / "conf").write_text(_VOLCANO.format("").replace("name: magic", "name: magik"))
    result = check(tmp_path / "magic.py", "--config", tmp_path / "conf")
    assert 'there is no plugin "magik"; did you mean "magic"?' in result.stderr


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
