"""`mooring simulate` from the outside: output, exit codes, and one clear message for each kind of bad input."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.api.yaml_writer import documents_text
from mooring.cli.main import main
from mooring.cli.simulate import Progress
from tests.simulation.manifests import node, pod, workload
from tests.simulation.test_sessions import CONF, gang

ROOT = Path(__file__).parent.parent.parent
DEMO = ROOT / "examples" / "demo"
CHEAPEST = ROOT / "examples" / "plugins" / "cheapest_node" / "cheapest_node.py"
NODE_NUMBER = ROOT / "examples" / "plugins" / "nodenumber" / "nodenumber.py"

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: NodeNumber, weight: 100}]}}
  pluginConfig: [{name: NodeNumber, args: {reverse: %s}}]
"""


def simulate(*arguments: str | Path, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)], input=text)


def manifests(folder: Path, *objects: dict[str, Any], name: str = "m.yaml") -> Path:
    file = folder / name
    file.write_text(documents_text(objects))
    return file


# Output


def test_the_demo_is_worth_reading() -> None:
    result = simulate(
        "-f", DEMO / "cluster", "--config", DEMO / "scheduler.yaml", "--plugin", f"CheapestNode={CHEAPEST}"
    )
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    first, second = result.stdout.splitlines()[:2]
    assert first == "50 nodes, 200 pods; profiles default-scheduler, thrifty; seed 0"
    assert second.startswith("8 running, 183 placed, 6 pending, 1 gated, 2 evicted;")
    for title in ("WORKLOADS", "NODES, THE 12 FULLEST", "PENDING", "EVICTED"):
        assert f"\n{title}\n" in result.stdout
    assert "\x1b" not in result.stdout
    assert "no profile has the scheduler name" in result.stdout


def test_the_demo_plugin_decides_where_its_pods_go() -> None:
    arguments = ["-f", DEMO / "cluster", "--config", DEMO / "scheduler.yaml", "--plugin", f"CheapestNode={CHEAPEST}"]
    pods = json.loads(simulate(*arguments, "-o", "json").stdout)["pods"]
    nightly = Counter(each["node"].partition("-")[0] for each in pods if each["profile"] == "thrifty")
    assert nightly == {"spot": 36, "small": 9, "general": 3}  # the cheap ones are full


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_the_same_seed_gives_the_same_output(tmp_path: Path, output: str) -> None:
    file = manifests(tmp_path, *(node(f"n{number}") for number in range(5)), workload("Deployment", replicas=6))
    texts = [simulate("-f", file, "-o", output, "--seed", seed).stdout for seed in ("3", "3", "4")]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    file = manifests(tmp_path, node("n"), pod("p"), pod("big", cpu="99"))
    as_json, as_yaml = (simulate("-f", file, "-o", output).stdout for output in ("json", "yaml"))
    assert json.loads(as_json) == yaml.safe_load(as_yaml)
    assert json.loads(as_json)["summary"]["pending"] == 1


def test_pending_pods_are_no_failure(tmp_path: Path) -> None:
    result = simulate("-f", manifests(tmp_path, node("n"), pod("big", cpu="99")))
    assert result.exit_code == 0
    assert "0/1 nodes are available: 1 Insufficient cpu." in result.stdout


def test_manifests_from_everywhere(tmp_path: Path) -> None:
    one = manifests(tmp_path, node("n"), name="a.yaml")
    two = manifests(tmp_path, pod("p"), name="b.yaml")
    result = simulate("-f", one, two, "-f", "-", text=json.dumps(pod("q")))
    assert result.stdout.startswith("1 node, 2 pods;")


# Plugins


@pytest.mark.parametrize(("reverse", "place"), [("false", "n1"), ("true", "n2")])
def test_a_plugin_of_a_profile(tmp_path: Path, reverse: str, place: str) -> None:
    file = manifests(tmp_path, node("n1"), node("n2"), pod("p1"))
    (tmp_path / "config").write_text(CONFIG % reverse)
    result = simulate(
        "-f", file, "--config", tmp_path / "config", "--plugin", f"NodeNumber={NODE_NUMBER}", "-o", "json"
    )
    assert json.loads(result.stdout)["pods"][0]["node"] == place


def test_without_a_configuration_plugins_are_enabled(tmp_path: Path) -> None:
    file = manifests(
        tmp_path, *(node(f"n{number}") for number in range(9)), *(pod(f"p{number}") for number in range(9))
    )
    result = simulate("-f", file, "--plugin", f"NodeNumber={NODE_NUMBER}", "-o", "json")
    pods = json.loads(result.stdout)["pods"]
    assert all(each["node"][-1] == each["name"][-1] for each in pods)


def test_a_plugin_in_no_profile_is_noted(tmp_path: Path) -> None:
    file = manifests(tmp_path, node("n"))
    config = tmp_path / "config"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    result = simulate("-f", file, "--config", config, "--plugin", f"NodeNumber={NODE_NUMBER}")
    assert result.exit_code == 0
    assert result.stderr == (
        "note: plugin NodeNumber is in no profile: enable it under profiles[].plugins.multiPoint\n"
    )


def test_old_plugins_and_extenders_are_noted(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://127.0.0.1:9/x', filterVerb: filter}]\n"
    )
    result = simulate("-f", manifests(tmp_path, node("n"), pod("p")), "--config", config)
    assert result.exit_code == 0, result.stderr
    assert "note: extenders are not called in a simulation\n" in result.stderr
    assert "ignored, because they have no effect in kube-scheduler by default: AzureDiskLimits" in result.stderr


# Bad input

BAD_OBJECTS: list[tuple[str, str]] = [
    ("kind: [", "not valid YAML"),
    ("just text", "must be a mapping, not text"),
    ("kind: Pod\nmetadata: {name: p}", "apiVersion: is required"),
    ("apiVersion: v1\nmetadata: {name: p}", "kind: is required"),
    ("apiVersion: v1\nkind: Pod\nmetadata: {}", "metadata.name: is required"),
    ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 3}", "spec.containers: must be a list"),
    (
        "apiVersion: v1\nkind: Node\nmetadata: {name: node}\nstatus: {allocatable: {cpu: 4 cores}}",
        "status.allocatable.cpu: '4 cores' is not a quantity",
    ),
    ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}", "spec.containers: is required"),
    (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: many}",
        "spec.replicas: must be a whole number, not text ('many')",
    ),
    ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {}", "spec.selector: is required"),
    ("apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: soon}", "'soon' is not a timestamp"),
    ("\x00", "the control character"),
]


@pytest.mark.parametrize(("text", "message"), BAD_OBJECTS)
def test_bad_objects(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    assert_refused(simulate("-f", file), str(file), message)


def test_text_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(b"\xff\xfe\x00\xd8")
    assert_refused(simulate("-f", file), str(file), "not UTF-8 text")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profiles: [", "config"),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n", "profiles"),
        ("apiVersion: v1\nkind: Pod\n", "config"),
        (CONFIG % "maybe", "profiles[0].pluginConfig[0].args.reverse"),
    ],
)
def test_bad_configurations(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    file = manifests(tmp_path, node("n"))
    result = simulate("-f", file, "--config", config, "--plugin", f"NodeNumber={NODE_NUMBER}")
    assert_refused(result, str(config), message)


def test_a_plugin_that_is_not_there(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(CONFIG % "true")
    assert_refused(simulate("-f", manifests(tmp_path, node("n")), "--config", config), "NodeNumber")


BAD_PLUGINS: list[tuple[str, str]] = [
    ("class X(", ":1: '(' was never closed"),
    ("raise RuntimeError('oops')", ":1: RuntimeError: oops"),
    ("class Other: pass", "defines no plugin X (it defines no plugin at all)"),
    ("from mooring.framework import Plugin\nclass X(Plugin): pass", "implements no extension point"),
    (
        "from mooring.framework import Plugin\nclass X(Plugin):\n    def filter(self, pod): ...",
        "write 'def filter(self, state, pod, node)'",
    ),
    (
        "from mooring.framework import Plugin\nclass X(Plugin):\n    def fliter(self, state, pod, node): ...",
        "did you mean 'def filter(self, state, pod, node)'?",
    ),
    (
        "from mooring.framework import Plugin\nclass X(Plugin):\n    filter = filter\n    def setup(self): 1 / 0",
        'initializing plugin "X": x.py:4 in setup: ZeroDivisionError: division by zero',
    ),
]


@pytest.mark.parametrize(("code", "message"), BAD_PLUGINS)
def test_bad_plugins(tmp_path: Path, code: str, message: str) -> None:
    file = tmp_path / "x.py"
    file.write_text(code)
    assert_refused(simulate("-f", manifests(tmp_path, node("n")), "--plugin", f"X={file}"), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "missing.yaml"], "missing.yaml: no such file or folder"),
        (["-f", "m.yaml", "--config", "missing"], "missing: no such file"),
        (["-f", "m.yaml", "--config", "."], ".: Is a directory"),
        (["-f", "m.yaml", "--plugin", "X=missing.py"], "missing.py: no such file"),
        (["-f", "m.yaml", "m.yaml"], "given twice"),
    ],
)
def test_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    manifests(tmp_path, node("n"))
    assert_refused(simulate(*arguments), message)


def assert_refused(result: Result, *messages: str) -> None:
    """One clear message, no output, and nothing of Python's."""
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for message in messages:
        assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give manifests with -f"),
        (["-f", "m.yaml", "-o", "xml"], "Invalid value for '-o'"),
        (["-f", "m.yaml", "--seed", "x"], "Invalid value for '--seed'"),
        (["-f", "m.yaml", "--plugin", "nonsense"], "is not NAME=FILE"),
        (["-f", "m.yaml", "--unknown"], "No such option"),
    ],
)
def test_wrong_command_lines(arguments: list[str], message: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


# Looks


class Screen(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "line"), [(io.StringIO(), "pods 96 of 200\n"), (Screen(), "\rpods 96 of 200 ")])
def test_progress_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, line: str) -> None:
    now = [0.0]
    monkeypatch.setattr("mooring.cli.simulate.time.monotonic", lambda: now[0])
    with Progress("pods", stream) as progress:
        for done in range(1, 100):
            now[0] = 0.5 if done < 90 else 10.5
            progress(done, 200)
    assert stream.getvalue().startswith(line)
    assert stream.getvalue().count("pods") == 1


# Plugins that fail

RAISES = """\
from mooring.framework import Plugin


class Raises(Plugin):
    def score(self, state, pod, node):
        return self.price(node)

    def price(self, node):
        return {}["missing"]
"""


def test_a_plugin_that_raises_fails_the_command(tmp_path: Path) -> None:
    plugin = tmp_path / "raises.py"
    plugin.write_text(RAISES)
    file = manifests(tmp_path, node("a"), node("b"), pod("p"))
    result = simulate("-f", file, "--plugin", f"Raises={plugin}")
    assert result.exit_code == 1
    assert "running Score plugin \"Raises\": raises.py:9 in price: KeyError: 'missing'" in result.stdout
    assert result.stderr.splitlines() == [
        "plugin Raises failed 3 times, first: raises.py:9 in price: KeyError: 'missing'",
        f'  File "{plugin}", line 6, in score',
        "    return self.price(node)",
        f'  File "{plugin}", line 9, in price',
        '    return {}["missing"]',
    ]


def test_errors_of_plugins_can_be_allowed(tmp_path: Path) -> None:
    plugin = tmp_path / "raises.py"
    plugin.write_text(RAISES)
    file = manifests(tmp_path, node("a"), node("b"), pod("p"))
    result = simulate("-f", file, "--plugin", f"Raises={plugin}", "--allow-plugin-errors", "-o", "json")
    assert result.exit_code == 0
    (failures,) = json.loads(result.stdout)["pluginFailures"]
    assert (failures["plugin"], failures["count"]) == ("Raises", 3)
    assert failures["first"] == "raises.py:9 in price: KeyError: 'missing'"


def test_scores_between_0_and_1_are_noted(tmp_path: Path) -> None:
    plugin = tmp_path / "model.py"
    plugin.write_text(
        "from mooring.framework import Plugin\n\nclass Model(Plugin):\n"
        "    def score(self, state, pod, node):\n        return 0.9 if node.name == 'b' else 0.1\n"
    )
    file = manifests(tmp_path, node("a"), node("b"), pod("p"))
    result = simulate("-f", file, "--plugin", f"Model={plugin}")
    assert result.exit_code == 0
    assert result.stderr == (
        "note: plugin Model: model.py:4 in score: all scores are between 0 and 1, and only their whole part counts; "
        "declare score_range = (0.0, 1.0) in the class\n"
    )
    plugin.write_text(plugin.read_text().replace("    def", "    score_range = (0.0, 1.0)\n\n    def"))
    for seed in range(3):
        result = simulate("-f", file, "--plugin", f"Model={plugin}", "-o", "json", "--seed", str(seed))
        assert result.stderr == ""
        assert [each["node"] for each in json.loads(result.stdout)["pods"]] == ["b"]


# Gangs


def gang_manifests(folder: Path, *more: dict[str, Any]) -> Path:
    return manifests(
        folder, node("a"), node("b"), *gang("fits", 2), *gang("huge", 9, "3"), pod("plain", cpu="1"), *more
    )


def test_gangs_and_queues_are_shown(tmp_path: Path) -> None:
    result = simulate("-f", gang_manifests(tmp_path))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("2 nodes, 12 pods; profile default-scheduler; seed 0; sessions for volcano\n")
    assert re.search(r"^PodGroup huge +default +Inqueue +9 +9 +0$", result.stdout, re.MULTILINE)
    assert re.search(r"^default +1 +2 +1 +2/\S+ ", result.stdout, re.MULTILINE)
    assert "WAITING GANGS\nPodGroup huge (queue default)\n  " in result.stdout
    data = json.loads(simulate("-f", gang_manifests(tmp_path), "-o", "json").stdout)
    assert [(each["name"], each["placed"]) for each in data["gangs"]] == [("fits", 2), ("huge", 0)]
    assert {each["name"] for each in data["queues"]} == {"root", "default"}
    assert data["summary"]["sessions"] > 0


def test_the_configuration_and_the_names_of_sessions(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(CONF.replace("{name: conformance}", "{name: conformance}, {name: magic, arguments: {node: b}}"))
    plugins = ROOT / "examples" / "batch" / "plugins"
    for given in (["--scheduler-conf", conf], ["-f", conf]):
        result = simulate("-f", gang_manifests(tmp_path), *given, "--plugins-dir", plugins, "-o", "json")
        assert result.exit_code == 0, result.output
        placed = {each["name"]: each["node"] for each in json.loads(result.stdout)["pods"]}
        assert (placed["fits-0"], placed["fits-1"]) == ("b", "b")
    result = simulate("-f", gang_manifests(tmp_path), "--scheduler-name", "mine")
    assert 'no profile has the scheduler name "volcano"' in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler-conf", "nowhere.conf"], "nowhere.conf: no such file or folder"),
        (
            ["--scheduler-name", "default-scheduler"],
            "default-scheduler is both a profile and a scheduler name of sessions",
        ),
    ],
)
def test_wrong_settings_of_sessions(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = simulate("-f", gang_manifests(tmp_path), *arguments)
    assert (result.exit_code, message in result.stderr) == (1, True)


def test_an_invalid_configuration_of_sessions_names_the_line(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text("actions: alocate\n")
    result = simulate("-f", gang_manifests(tmp_path), "--scheduler-conf", conf)
    assert result.exit_code == 1
    assert f'{conf}:1: actions: there is no action "alocate"' in result.stderr
