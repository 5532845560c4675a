"""`mooring config`: view, check and migrate scheduler configuration files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from mooring.api.yaml_writer import yaml_text
from mooring.cli.input_files import fail, read_text, source_name
from mooring.cli.options import ReleaseChoice, output_option, plugin_options, release_options
from mooring.config import ConfigError, PluginSpec, effective, load_config, written
from mooring.config.config_migration import migrate as migrate_text
from mooring.config.document import read_document
from mooring.loading import PluginLoadError, Requested, find_plugins, load_setup
from mooring.loading.plugin_sources import read_sources, split
from mooring.loading.wasm.guest_config import guests_in
from mooring.releases import Release

_FILE = click.argument("file", default="-")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def config() -> None:
    """View, check and migrate scheduler configuration files.

    The versions v1, v1beta3 and v1beta2 of KubeSchedulerConfiguration are supported.
    """


@config.command()
@_FILE
@output_option("yaml", "json")
@click.option("--expand", is_flag=True, help="Print the plugins that run at each extension point.")
@click.option(
    "--lines", is_flag=True, help='Read one JSON object per line ({"id", "config": TEXT}), and answer each with one.'
)
@plugin_options
@release_options
def view(file: str, output: str, expand: bool, lines: bool, requested: Requested, emulated: ReleaseChoice) -> None:
    """Print the configuration in FILE with all defaults applied.

    Without FILE, or with -, standard input is read. The output is a configuration file, the same that kube-scheduler
    writes with --write-config-to. With --expand it lists the plugins at each extension point in the order they run.
    """
    if lines:
        _answer_lines(file, requested, emulated.release())
        return
    try:
        loaded = load_setup(
            read_text(file),
            source=source_name(file),
            requested=requested,
            base=Path(file).parent,
            file=Path(file) if file != "-" else None,
            release=emulated.release(),
        ).config
    except (ConfigError, PluginLoadError) as error:
        fail([str(error)])
    result = effective(loaded) if expand else written(loaded)
    text = yaml_text(result) if output == "yaml" else json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    click.echo(text, nl=False)


@config.command()
@_FILE
@plugin_options
def migrate(file: str, requested: Requested) -> None:
    """Convert FILE, a v1beta2 or v1beta3 configuration, to v1.

    The new file is written to standard output. Notes are written to standard error: fields that v1 does not have,
    fields that are now explicit because v1 has other defaults, and what v1 does in addition.
    """
    text, sources = split(read_text(file))
    try:
        guests = guests_in(read_document(text, source=source_name(file)))
        found = find_plugins(
            requested,
            read_sources(sources, source=source_name(file)),
            base=Path(file).parent,
            file=Path(file) if file != "-" else None,
            guests=guests,
        )
        migration = migrate_text(text, source=source_name(file), plugins=found.specs())
    except (ConfigError, PluginLoadError) as error:
        fail([str(error)])
    click.echo(migration.text, nl=False)
    if sources.strip():
        click.echo(f"---\n{sources.strip()}")
    for note in migration.notes:
        click.echo(f"- {note}", err=True)


def _answer_lines(file: str, requested: Requested, release: Release) -> None:
    try:
        specs = find_plugins(requested).specs()
    except PluginLoadError as error:
        fail([str(error)])
    unreadable = False
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        case, problem = _case(line)
        if problem is None:
            answer = _answer(case, specs, release)
        else:
            unreadable = True
            message = f"line {number} is not a valid case: {problem}"
            answer = {"id": case.get("id"), "ok": False, "errors": [{"path": "", "message": message}]}
        click.echo(json.dumps(answer))
    if unreadable:
        raise SystemExit(1)


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


def _answer(case: dict[str, Any], specs: Mapping[str, PluginSpec], release: Release) -> dict[str, Any]:
    try:
        loaded = load_config(case["config"], source="", plugins=specs, release=release)
    except ConfigError as error:
        return {"id": case.get("id"), "ok": False, "stage": error.stage, "errors": list(_errors(error))}
    return {"id": case.get("id"), "ok": True, "effective": effective(loaded)}


def _errors(error: ConfigError) -> Iterator[dict[str, str]]:
    for each in error.errors:
        message = f"{each.message}. {each.remedy}" if each.remedy else each.message
        yield {"path": each.path, "message": message}
