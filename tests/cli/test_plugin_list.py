"""`mooring plugin list`: of a running scheduler, or of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.certificates import make_certificate
from mooring.cli.main import main
from mooring.cli.scheduler_client import NoAnswer, SchedulerClient
from mooring.cluster.kubeconfig import kubeconfig_text
from mooring.loading.plugin_rows import PluginRow


def row(name: str, **more: object) -> PluginRow:
    values = {"name": name, "profile": "default-scheduler", "source": "mine.py", "state": "running", **more}
    return PluginRow(**values)  # type: ignore[arg-type]  # the values of the test


def answer(monkeypatch: pytest.MonkeyPatch, *answers: list[PluginRow] | BaseException) -> None:
    """Let the running scheduler answer like this, one answer for each query."""
    left = list(answers)

    def plugins(_client: SchedulerClient) -> list[PluginRow]:
        found = left.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(SchedulerClient, "plugins", plugins)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig that names a scheduler, as `mooring up` writes it."""
    authority = make_certificate().authority
    file = tmp_path / "kubeconfig"
    scheduler = ("https://127.0.0.1:1", authority)
    file.write_text(kubeconfig_text(server="https://127.0.0.1:1", authority=authority, token="x", scheduler=scheduler))
    return str(file)


def plugin_list(*arguments: str, kubeconfig: str = "/nonexistent") -> Result:
    return CliRunner().invoke(main, ["plugin", "list", *arguments], env={"KUBECONFIG": kubeconfig})


def test_the_scheduler_of_the_kubeconfig_is_queried(monkeypatch: pytest.MonkeyPatch, kubeconfig: str) -> None:
    for arguments, env in (((), kubeconfig), (("--kubeconfig", kubeconfig), "/nonexistent")):
        answer(monkeypatch, [row("Mine", calls=7)])
        result = plugin_list(*arguments, "-o", "name", kubeconfig=env)
        assert (result.stdout, result.exit_code) == ("plugin/Mine\n", 0), result.stderr


def test_a_configuration_is_listed_without_a_scheduler(monkeypatch: pytest.MonkeyPatch, kubeconfig: str) -> None:
    result = plugin_list("-a", "-o", "name")
    assert "plugin/NodeResourcesFit\n" in result.stdout
    assert result.stderr == ""
    answer(monkeypatch, NoAnswer("No running Mooring answers."))
    result = plugin_list("-a", "-o", "name", kubeconfig=kubeconfig)
    assert "plugin/NodeResourcesFit\n" in result.stdout
    assert "note: No running Mooring answers. These are the plugins of the default" in result.stderr
    folder = "examples/plugins/nodenumber"
    result = plugin_list("--plugins-dir", folder, "-o", "name", kubeconfig=kubeconfig)
    assert (result.stdout, result.stderr) == ("plugin/NodeNumber\n", "")


def test_a_scheduler_that_was_named_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, NoAnswer("No running Mooring answers."))
    result = plugin_list("--scheduler", "https://127.0.0.1:1")
    assert (result.exit_code, result.stderr) == (1, "No running Mooring answers.\n")


def test_a_watch_prints_plugins_whose_state_changes(monkeypatch: pytest.MonkeyPatch, kubeconfig: str) -> None:
    """Not those that were only called."""
    monkeypatch.setattr("mooring.cli.plugin_list._WATCH_SECONDS", 0.0)
    answer(
        monkeypatch,
        [row("Mine", calls=1), row("Other")],
        [row("Mine", calls=2), row("Other")],
        [row("Mine", calls=3, failures=1), row("Other")],
        KeyboardInterrupt(),
    )
    result = plugin_list("--watch", kubeconfig=kubeconfig)
    assert result.exit_code == 130
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["PLUGINS", "NAME", "Mine", "Other", "Mine"]
