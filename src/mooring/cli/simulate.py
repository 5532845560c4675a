"""`mooring simulate`: manifests in, placements out, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from mooring.api.manifest_error import ManifestError
from mooring.cli.plugin_options import plugin_spec, plugins_from_options
from mooring.cli.progress import Progress
from mooring.config import ConfigError, SchedulerConfiguration, default_config, load_config
from mooring.framework.plugin import Plugin
from mooring.scheduler.profile import ProfileError
from mooring.simulate.outcome import Outcome
from mooring.simulate.sources import STDIN, InputError, read

_EVERYWHERE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{enabled}]
"""


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="MANIFEST",
    help="A file or folder of manifests (YAML or JSON), or - for standard input; repeatable.",
)
@click.argument("more", nargs=-1, metavar="[MANIFEST]...")
@click.option("-R", "--recursive", is_flag=True, help="Look into the folders of folders too.")
@click.option("--config", "config_file", metavar="FILE", help="A KubeSchedulerConfiguration (v1, v1beta3 or v1beta2).")
@click.option(
    "--plugin",
    "plugin_options",
    multiple=True,
    metavar="NAME=FILE",
    help="A plugin of your own and the Python file that defines it; repeatable.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Decides ties and the names of pods.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", show_default=True
)
def simulate(
    files: tuple[str, ...],
    more: tuple[str, ...],
    recursive: bool,
    config_file: str | None,
    plugin_options: tuple[str, ...],
    seed: int,
    output: str,
) -> None:
    """Schedule nodes and workloads from manifests, and show what goes where and why some pods stay pending.

    Deployments, ReplicaSets, StatefulSets, Jobs and DaemonSets become the pods that their controllers would make; pods
    that name a node are there already. Then all pods go through the scheduling queue and the whole framework,
    preemption included, until nothing changes any more. Time is simulated, nothing is waited for.

    Without --config, plugins given by --plugin are enabled at all their extension points.

    The exit code is 0 also when pods stay pending, 1 when the input cannot be used, 2 for a wrong command line.
    """
    paths = (*files, *more)
    if not paths:
        raise click.UsageError("give manifests with -f: files, folders, or - for standard input")
    plugins = plugins_from_options(plugin_options)
    try:
        config = _config(config_file, plugins)
        outcome = _run(paths, config, plugins, recursive=recursive, seed=seed)
    except ConfigError as error:
        _fail(error.lines())
    except (InputError, ManifestError, ProfileError) as error:
        _fail(str(error).splitlines())
    for note in (*outcome.notes, *_notes(config, plugins)):
        click.echo(f"note: {note}", err=True)
    _show(outcome, output)


def _run(
    paths: Sequence[str],
    config: SchedulerConfiguration,
    plugins: Mapping[str, type[Plugin]],
    *,
    recursive: bool,
    seed: int,
) -> Outcome:
    # The engine takes a while to import; wrong options are told before.
    from mooring.simulate.run import simulate as run
    from mooring.simulate.scenario import build

    given = read(paths, recursive=recursive, stdin=sys.stdin.buffer.read)
    scenario = build(given, seed=seed)
    with Progress("pods done:") as progress:
        return run(scenario, config, plugins=plugins, seed=seed, progress=progress)


def _fail(lines: Iterable[str]) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(1)


# Configuration and plugins


def _config(file: str | None, plugins: Mapping[str, type[Plugin]]) -> SchedulerConfiguration:
    specs = {name: plugin_spec(cls) for name, cls in plugins.items()}
    if file is not None:
        return load_config(_read(file), source=file, plugins=specs)
    if not plugins:
        return default_config()
    enabled = ", ".join(f"{{name: {name}}}" for name in plugins)
    return load_config(_EVERYWHERE.format(enabled=enabled), source="--plugin", plugins=specs)


def _read(file: str) -> str:
    if file == STDIN:
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    except UnicodeError:
        raise InputError(f"{file}: not UTF-8 text; save the file as UTF-8") from None


def _notes(config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]]) -> Iterable[str]:
    """What of the configuration has no effect."""
    from mooring.plugins.registry import BUILTIN

    enabled = {entry.name for profile in config.profiles for point in profile.plugins.values() for entry in point}
    for name in plugins:
        if name not in enabled:
            yield f"plugin {name} is in no profile: enable it under profiles[].plugins.multiPoint"
    if config.extenders:
        yield "extenders are not called in a simulation"
    if absent := sorted(enabled - BUILTIN.keys() - plugins.keys()):
        yield f"left out, since they have no effect in kube-scheduler 1.36 as it comes: {', '.join(absent)}"


# Output


def _show(outcome: Outcome, output: str) -> None:
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(outcome.as_dict()), indent=2).decode()
        click.echo(text)
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(outcome.as_dict(), sort_keys=False, allow_unicode=True), nl=False)
    else:
        from mooring.cli.tables import show
        from mooring.simulate.report import report

        show(report(outcome, wide=output == "wide"), sys.stdout)
