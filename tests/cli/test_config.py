"""`mooring config`: output, messages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.config import config
from tests.config.golden_compare import cases, compare

STUBS = Path(__file__).parent.parent / "config" / "stub_plugins.py"
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ALL_STUBS = [
    f"--plugin={name}={STUBS}" for name in ("NodeCRDResourceFit", "ScoreByName", "ScoreByNameLength", "BlockAll")
]


def run(*arguments: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(config, list(arguments), input=text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD)
    return path


def test_view_prints_what_can_be_read_again(file: Path) -> None:
    result = run("view", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    assert yaml.safe_load(result.stdout)["kind"] == "KubeSchedulerConfiguration"
    assert run("view", text=result.stdout).stdout == result.stdout


def test_view_as_json(file: Path) -> None:
    result = run("view", "-o", "json", str(file))
    assert json.loads(result.stdout) == yaml.safe_load(run("view", str(file)).stdout)


@pytest.mark.parametrize(
    ("options", "has_shape"),
    [
        ([], True),
        (["--emulated-version=1.37"], True),
        (["--emulated-version=kube=1.36"], False),
        (["--feature-gates=StorageCapacityScoring=false"], False),
        (["--emulated-version=1.36", "--feature-gates=MemoryQoS=true,StorageCapacityScoring=true"], True),
    ],
)
def test_view_expanded(file: Path, options: list[str], has_shape: bool) -> None:
    profile = json.loads(run("view", "-o", "json", "--expand", *options, str(file)).stdout)["profiles"][0]
    assert profile["plugins"]["bind"] == [{"name": "DefaultBinder"}]
    shape = {"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]} if has_shape else {}
    assert profile["pluginConfig"]["VolumeBinding"] == {"bindTimeoutSeconds": 600, **shape}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--emulated-version=1.35", "kube-scheduler 1.35 cannot be emulated; use 1.36 or 1.37"),
        ("--feature-gates=SidecarContainers=true", "unrecognized feature gate: SidecarContainers"),
        ("--feature-gates=StorageCapacityScoring", "'StorageCapacityScoring' is not NAME=VALUE"),
    ],
)
def test_a_release_that_cannot_be_had_is_a_usage_error(file: Path, option: str, message: str) -> None:
    result = run("view", option, str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize("arguments", [["view"], ["view", "-"]])
def test_view_reads_standard_input(arguments: list[str]) -> None:
    assert yaml.safe_load(run(*arguments, text=HEAD + "parallelism: 3\n").stdout)["parallelism"] == 3


def test_errors_are_one_a_line_with_file_line_path_and_remedy(file: Path) -> None:
    file.write_text(HEAD + "paralelism: 3\nprofiles:\n- schedulerName: 5\n")
    result = run("view", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f'{file}:3: paralelism: unknown field "paralelism". Did you mean "parallelism"?',
        f'{file}:5: profiles[0].schedulerName: expected text, found the number 5. Put it in quotes: "5".',
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "standard input:1: kind: kind is missing."),
        ("a: b: c", "standard input:1: not valid YAML: mapping values are not allowed here"),
        ("{", "standard input:1: not valid JSON: expected a field name in double quotes"),
        (HEAD + "parallelism: 0\n", "standard input:3: parallelism: 0 is not above 0. Write 1 or more."),
        (HEAD + "profiles: [{plugins: {filter: {enabled: [{name: X}]}}}]\n", 'the plugin "X" does not exist'),
    ],
)
@pytest.mark.parametrize("command", ["view", "migrate"])
def test_bad_files(command: str, text: str, message: str) -> None:
    result = run(command, text=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_bad_bytes() -> None:
    result = run("view", text=HEAD.encode() + b"\xff\n")
    assert result.exit_code == 1
    assert result.stderr == "standard input:3: not UTF-8 text; save the file as UTF-8\n"
    assert run("view", text=HEAD.encode("utf-16")).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["view", "/nonexistent/file"], 1, "/nonexistent/file: no such file"),
        (["view", "-o", "xml"], 2, "'xml' is not one of 'yaml', 'json'"),
        (["view", "--plugin", "X"], 2, "is not NAME=FILE"),
        (["view", "--plugin", "X=/nonexistent/x.py"], 1, "no such file"),
        (["view", "--plugin", f"Nope={STUBS}"], 1, "defines no plugin Nope"),
        (["view", f"--plugin=BlockAll={STUBS}", f"--plugin=BlockAll={STUBS}"], 2, "given twice"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_bad_usage(arguments: list[str], code: int, message: str) -> None:
    result = run(*arguments, text=HEAD)
    assert result.exit_code == code
    assert message in result.stderr


def test_a_plugin_file_with_declared_arguments(tmp_path: Path) -> None:
    plugin = tmp_path / "picky.py"
    plugin.write_text(
        "from mooring.framework import Plugin\n\nclass Picky(Plugin):\n"
        "    class Args:\n        reverse: bool = False\n\n"
        "    def score(self, state, pod, node):\n        return 0\n"
    )

    def view(args: str) -> Result:
        profile = (
            f"[{{plugins: {{score: {{enabled: [{{name: Picky}}]}}}}, pluginConfig: [{{name: Picky, args: {args}}}]}}]"
        )
        return run("view", f"--plugin=Picky={plugin}", text=f"{HEAD}profiles: {profile}\n")

    assert view("{reverse: true}").exit_code == 0
    wrong = view("{reverse: 1}")
    assert wrong.exit_code == 1
    assert "standard input:3: profiles[0].pluginConfig[0].args.reverse: Expected `bool`" in wrong.stderr
    assert 'Did you mean "reverse"?' in view("{revers: true}").stderr


@pytest.mark.parametrize(("data", "version"), [("config", "1.36"), ("config-1.37", "1.37")])
def test_lines_answer_the_golden_files(data: str, version: str) -> None:
    golden = list(cases(data))[::20]
    given = "".join(json.dumps(case) + "\n" for case, _ in golden)
    result = run("view", "--lines", f"--emulated-version={version}", *ALL_STUBS, text=given)
    assert (result.exit_code, result.stderr) == (0, "")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [case["id"] for case, _ in golden]
    assert [compare({"expected": expected}, answer) for (_, expected), answer in zip(golden, answers, strict=True)] == [
        [] for _ in golden
    ]


def test_lines_go_on_after_a_line_that_is_no_case() -> None:
    lines = ["not json", "[]", '{"id": "x"}', "", json.dumps({"id": "y", "config": HEAD})]
    result = run("view", "--lines", text="\n".join(lines) + "\n")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(answer["id"], answer["ok"]) for answer in answers] == [(None, False)] * 2 + [("x", False), ("y", True)]
    assert "line 1 is not a valid case: not JSON" in answers[0]["errors"][0]["message"]
    assert result.exit_code == 1


def test_migrate(file: Path) -> None:
    file.write_text(HEAD.replace("v1", "v1beta2", 1) + "healthzBindAddress: ''\n")
    result = run("migrate", str(file))
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert "- healthzBindAddress is removed in v1" in result.stderr
    assert run("view", text=result.stdout).exit_code == 0


def test_migrating_v1_changes_nothing(file: Path) -> None:
    result = run("migrate", str(file))
    assert (result.exit_code, result.stdout) == (0, HEAD)
    assert "already" in result.stderr


def test_help_names_the_commands() -> None:
    assert "migrate" in run("--help").stdout
    assert "--plugin NAME=FILE" in run("view", "-h").stdout
