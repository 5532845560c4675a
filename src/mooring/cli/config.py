"""`mooring config`: look at scheduler configuration files, check them, and bring old ones to v1."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from mooring.api.yaml_writer import yaml_text
from mooring.cli.plugin_options import plugin_options
from mooring.config import ConfigError, PluginSpec, effective, load_config, written
from mooring.config.document import read_document
from mooring.config.migrate import migrate as migrate_text
from mooring.loading import PluginLoadError, Requested, find_plugins, load_setup
from mooring.loading.plugin_sources import read_sources, split
from mooring.loading.wasm.configured import guests_in

_FILE = click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def config() -> None:
    """Look at, check and migrate scheduler configuration files.

    KubeSchedulerConfiguration is read in the versions v1, v1beta3 and v1beta2.
    """


@config.command()
@_FILE
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="How to print it."
)
@click.option("--expand", is_flag=True, help="Show what runs at each extension point instead of what was asked for.")
@click.option("--lines", is_flag=True, help='Read one JSON line a file ({"id", "config": TEXT}), answer with one each.')
@plugin_options
def view(file: Path, output: str, expand: bool, lines: bool, requested: Requested) -> None:
    """Print the configuration that FILE means, with all defaults filled in.

    Without FILE, or with -, it reads standard input. The result is a configuration file, the one that kube-scheduler
    writes with --write-config-to; with --expand it shows what really runs at each point, in running order.
    """
    if lines:
        _answer_lines(file, requested)
        return
    try:
        loaded = load_setup(_read(file), source=_name(file), requested=requested, base=file.parent).config
    except (ConfigError, PluginLoadError) as error:
        _fail(error)
    result = effective(loaded) if expand else written(loaded)
    text = yaml_text(result) if output == "yaml" else json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    click.echo(text, nl=False)


@config.command()
@_FILE
@plugin_options
def migrate(file: Path, requested: Requested) -> None:
    """Rewrite FILE, a v1beta2 or v1beta3 configuration, as v1.

    The new file goes to standard output, and what a reader should know about it to standard error: what was left out,
    what is written out because v1's defaults differ, and what v1 does on top.
    """
    text, sources = split(_read(file))
    try:
        guests = guests_in(read_document(text, source=_name(file)))
        found = find_plugins(requested, read_sources(sources, source=_name(file)), base=file.parent, guests=guests)
        migration = migrate_text(text, source=_name(file), plugins=found.specs())
    except (ConfigError, PluginLoadError) as error:
        _fail(error)
    click.echo(migration.text, nl=False)
    if sources.strip():
        click.echo(f"---\n{sources.strip()}")
    for note in migration.notes:
        click.echo(f"- {note}", err=True)


def _name(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)


def _fail(error: ConfigError | PluginLoadError) -> NoReturn:
    click.echo(str(error), err=True)
    sys.exit(1)


def _read(file: Path) -> str:
    """The text of a file, in whichever encoding Kubernetes' reader would take."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        click.echo(f"{_name(file)}: cannot be read: {error.strerror or error}", err=True)
        sys.exit(1)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        click.echo(f"{_name(file)}:{line}: the text is not {encoding.upper()}. Save the file as UTF-8.", err=True)
        sys.exit(1)


def _answer_lines(file: Path, requested: Requested) -> None:
    try:
        specs = find_plugins(requested).specs()
    except PluginLoadError as error:
        _fail(error)
    unreadable = False
    for number, line in enumerate(_read(file).split("\n"), start=1):
        if not line.strip():
            continue
        case, problem = _case(line)
        if problem is None:
            answer = _answer(case, specs)
        else:
            unreadable = True
            message = f"line {number} is no case: {problem}"
            answer = {"id": case.get("id"), "ok": False, "errors": [{"path": "", "message": message}]}
        click.echo(json.dumps(answer))
    if unreadable:
        sys.exit(1)


def _case(line: str) -> tuple[dict[str, Any], str | None]:
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {}, f"not JSON: {error}"
    if not isinstance(case, dict):
        return {}, 'expected {"id", "config"}'
    if not isinstance(case.get("config"), str):
        return case, '"config" must be the text of a file'
    return case, None


def _answer(case: dict[str, Any], specs: Mapping[str, PluginSpec]) -> dict[str, Any]:
    try:
        loaded = load_config(case["config"], source="", plugins=specs)
    except ConfigError as error:
        return {"id": case.get("id"), "ok": False, "stage": error.stage, "errors": list(_errors(error))}
    return {"id": case.get("id"), "ok": True, "effective": effective(loaded)}


def _errors(error: ConfigError) -> Iterator[dict[str, str]]:
    for each in error.errors:
        message = f"{each.message}. {each.remedy}" if each.remedy else each.message
        yield {"path": each.path, "message": message}
