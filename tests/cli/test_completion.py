"""Shell completion: the scripts, what they complete, and what kubectl is given."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mooring.cli.completion import complete_for_kubectl
from mooring.cli.main import COMMANDS, main


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with a program `mooring`."""
    file = tmp_path / "mooring"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -m mooring.cli "$@"\n')
    file.chmod(0o755)
    return tmp_path


CASES = {
    "mooring qu": ["queue"],
    "mooring plugin l": ["list"],
    "mooring queue list --cont": ["--context"],
    "mooring job list -o w": ["wide"],
    "mooring run --kubec": ["--kubeconfig"],
    "mooring up --nodes": ["--nodes"],
    "mooring up --plugins": ["--plugins-dir"],
    "mooring completion z": ["zsh"],
}


def test_bash_completes_commands_options_and_values(program: Path) -> None:
    """With the script loaded as the documentation says."""
    calls = "".join(
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}; COMPREPLY=(); _mooring_completion mooring; "
        'echo "${COMPREPLY[*]}"\n'
        for words in CASES
    )
    script = f"set -eu\nPATH={program}:$PATH\nsource <(mooring completion bash)\ncomplete -p mooring\n{calls}"
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    registered, *answers = done.stdout.splitlines()
    assert "_mooring_completion mooring" in registered
    assert [each.split() for each in answers] == list(CASES.values())


@pytest.mark.parametrize(
    ("shell", "variables"),
    [
        ("zsh", {"COMP_WORDS": "mooring que", "COMP_CWORD": "1"}),
        ("fish", {"COMP_WORDS": "mooring que", "COMP_CWORD": "que"}),
    ],
)
def test_the_answers_for_other_shells(shell: str, variables: dict[str, str]) -> None:
    env = {"_MOORING_COMPLETE": f"{shell}_complete", **variables}
    output = CliRunner().invoke(main, [], prog_name="mooring", env=env).output
    assert "queue" in output
    assert "List, show, open and close queues." in output
    assert "plugin" not in output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_valid(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert f"_MOORING_COMPLETE={shell}_complete" in result.output
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=result.output, text=True, check=True)


def test_command_names_are_completed_without_importing_commands() -> None:
    code = (
        "import sys; from click.shell_completion import ShellComplete; from mooring.cli.main import main; "
        "print([each.value for each in ShellComplete(main, {}, 'mooring', '').get_completions([], '')]); "
        "print('mooring.cli.run' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{sorted(COMMANDS)}\nFalse\n"


def test_files_are_completed_by_the_shell() -> None:
    for words in (["rbac", "--config"], ["queue", "list", "--kubeconfig"]):
        (item,) = ShellComplete(main, {}, "mooring", "").get_completions(words, "")
        assert item.type == "file"


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["que"], "queue\tList, show, open and close queues.\n:4\n"),
        (["queue", "list", "-o", "js"], "json\n:4\n"),
        (["queue", "list", "--kubeconfig", ""], ":0\n"),
        (["queue", "list", "--contex"], "--context\tContext of the kubeconfig. By default the current one.\n:4\n"),
    ],
)
def test_kubectl_is_given_completions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], output: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-mooring", *words])
    complete_for_kubectl()
    assert capsys.readouterr().out == output
