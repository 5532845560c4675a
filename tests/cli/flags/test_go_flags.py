"""Command lines in the syntax of Go programs."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from mooring.cli.flags.go_flags import Flag, GoCommand, UnsupportedFlag, given_values, notes, parse_bool

FLAGS = (
    Flag("name", "Group A", "text", "A name.", "none"),
    Flag("switch", "Group A", "bool", "A switch.", True),
    Flag("count", "Group B", "int", "A number.", 3),
    Flag("wait", "Group B", "duration", "A duration.", 0, "0s"),
    Flag("items", "Group B", "list", "A list.", ()),
    Flag("pairs", "Group B", "map", "A map.", ()),
    Flag("v", "Group B", "int", "Verbosity.", 0),
)
UNSUPPORTED = (
    UnsupportedFlag("old", "was removed", is_error=True, accepted=("0",)),
    UnsupportedFlag("quiet", "is ignored", takes_value=False, accepted=("true",)),
)


@click.command(cls=GoCommand, flags=FLAGS, unsupported=UNSUPPORTED, version=lambda form: f"version {form}".strip())
@click.option("--own/--no-own", default=False, help="An option of the program.")
@click.pass_context
def program(ctx: click.Context, **given: Any) -> None:
    click.echo(repr(given))
    for note in notes(ctx):
        click.echo(f"note: {note}")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--name=x"], "name", "x"),
        (["--name", "x"], "name", "x"),
        (["--name", "-x"], "name", "-x"),
        (["--switch=false"], "switch", False),
        (["--no-switch"], "switch", False),
        (["--count=0x10"], "count", 16),
        (["--wait=1m30s"], "wait", 90_000_000_000),
        (["--items=a,b", "--items=c"], "items", ("a", "b", "c")),
        (["--pairs=a=1", "--pairs=b=2"], "pairs", (("a", "1"), ("b", "2"))),
        (["-v=4"], "v", 4),
        (["-v4"], "v", 4),
        (["-v", "4"], "v", 4),
        (["--own"], "own", True),
        (["--own=false"], "own", False),
    ],
)
def test_values_are_parsed_as_go_does(arguments: list[str], name: str, value: object) -> None:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert f"{name!r}: {value!r}" in result.output


def test_words_may_be_joined_by_underscores() -> None:
    assert "'own': True" in run("--own").output
    assert given_values(["--scheduler_name=a", "--scheduler-name", "b"], "scheduler-name") == ("a", "b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nam=x"], "unknown flag: --nam. Did you mean --name?"),
        (["--xyz"], "unknown flag: --xyz. Try"),
        (["stray"], "this command takes only flags"),
        (["--switch", "false"], "write --switch=false"),
        (["--count=x"], "'x' is not an integer"),
        (["--count"], "--count: a value is missing"),
        (["--pairs=x"], "'x' is not NAME=VALUE"),
        (["--old=1"], "--old: was removed"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("arguments", "noted"),
    [(["--old=0"], []), (["--quiet=true"], []), (["--quiet=false"], ["--quiet: is ignored"]), (["--quiet"], [])],
)
def test_unsupported_flags_are_noted_unless_the_value_agrees(arguments: list[str], noted: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert [line.removeprefix("note: ") for line in result.output.splitlines()[1:]] == noted


def test_help_is_grouped_and_shows_defaults() -> None:
    text = run("--help").output
    assert text.index("Group A:") < text.index("Group B:") < text.index("Mooring options:")
    assert "A switch.  [true]" in text


def test_version() -> None:
    assert run("--version").output == "version\n"
    assert run("--version=raw").output == "version raw\n"


@pytest.mark.parametrize(("text", "value"), [("1", True), ("T", True), ("FALSE", False), ("f", False)])
def test_booleans(text: str, value: bool) -> None:
    assert parse_bool(text) is value
    with pytest.raises(ValueError, match="neither true nor false"):
        parse_bool("yes")
