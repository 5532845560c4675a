"""The `mooring` command and its groups."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mooring.cli.main import COMMANDS, entry, kubectl_plugin, main
from mooring.cli.plugin import COMMANDS as PLUGIN_COMMANDS


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            yield (*path, name)
            if isinstance(command, click.Group):
                yield from commands(command, *path, name)


ALL = list(commands(main))


def test_every_command_is_found() -> None:
    assert {path[0] for path in ALL} == set(COMMANDS)
    assert {path[1] for path in ALL if path[0] == "plugin" and len(path) == 2} == set(PLUGIN_COMMANDS)
    assert len(ALL) > 30


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_describes_the_command_and_its_options(path: tuple[str, ...]) -> None:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    assert command.help
    assert command.help.splitlines()[0].rstrip()[-1] in ".:"
    undescribed = [each.name for each in command.params if isinstance(each, click.Option) and not each.help]
    assert undescribed == []
    assert CliRunner().invoke(main, [*path, "--help"]).exit_code == 0


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from mooring.cli.main import main; main(['--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name.startswith(('mooring.', 'numpy', 'aiohttp'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert "mooring.cli.lazy_group" in loaded
    assert "mooring.cli.run" not in loaded
    assert "numpy" not in loaded
    assert "aiohttp" not in loaded


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        *(((*path[:-1], f"{path[-1][:-1]}"), path[-1]) for path in ALL if len(path[-1]) > 3),
        (("queue", "list", "--contxt", "x"), "--context"),
        (("run", "--kubeconfg", "x"), "--kubeconfig"),
        (("controller", "--leader-elct"), "--leader-elect"),
        (("plugin", "new", "--point", "filter", "X"), "--points"),
    ],
    ids=" ".join,
)
def test_misspelt_commands_and_options_get_a_suggestion(arguments: tuple[str, ...], suggestion: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Did you mean" in result.stderr
    assert suggestion in result.stderr
    assert result.stdout == ""


def test_the_kubeconfig_is_the_first_option_of_run() -> None:
    text = CliRunner().invoke(main, ["run", "--help"]).output
    first = next(line for line in text.splitlines() if line.startswith("  -"))
    assert first.startswith("  --kubeconfig ")
    assert "--kubeconfig" not in text.partition("Deprecated")[2]


def test_kubectl_shows_its_own_name_in_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-mooring", "explain", "pod", "--help"])
    with pytest.raises(SystemExit):
        kubectl_plugin()
    assert capsys.readouterr().out.startswith("Usage: kubectl mooring explain pod [OPTIONS]")


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["nonsense"])
    assert (result.exit_code, "No such command" in result.output) == (2, True)


def test_collections_are_rare_during_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = gc.get_threshold(), []
    monkeypatch.setattr("mooring.cli.main.main", lambda prog_name: seen.append(gc.get_threshold()[0]))
    try:
        gc.set_threshold(700)
        entry()
    finally:
        gc.set_threshold(*before)
    assert seen == [200_000]
