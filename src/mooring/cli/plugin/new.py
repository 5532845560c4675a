"""`mooring plugin new`: a plugin to start from, with its test and its configuration."""

from __future__ import annotations

import shlex
from pathlib import Path

import click


@click.command()
@click.argument("name")
@click.option(
    "--points",
    default="filter,score",
    show_default=True,
    metavar="POINT,...",
    help="The extension points, as methods (pre_filter) or as in a configuration (preFilter); filter_nodes and "
    "score_nodes for the form that answers for all nodes at once.",
)
@click.option("--crd", metavar="KIND", default="", help="Also declare a custom resource, which filter and score go by.")
@click.option("--batch", is_flag=True, help="A plugin for batch sessions, with a volcano-scheduler.conf.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Where to write it; a folder of its name here.")
def new(name: str, points: str, crd: str, batch: bool, folder: Path | None) -> None:
    """Write a plugin, its test and its configuration, all of which work at once.

    NAME is the plugin's class, such as NodeNumber.
    """
    from mooring.cli.plugin.scaffold.pod import snake
    from mooring.loading import POD, SESSION

    for given, what in ((name, "NAME"), (crd, "--crd")):
        if given and not (given.isidentifier() and given[0].isupper()):
            raise click.BadParameter(f"{given!r} is no name of a class; write for example NodeNumber", param_hint=what)
    if (snake(name).replace("_", "-") in SESSION.builtin) if batch else (name in POD.builtin):
        raise click.BadParameter(f"a plugin {name} is built in; give yours another name", param_hint="NAME")
    folder = folder or Path(snake(name))
    texts = _session(name, crd) if batch else _pod(name, points, crd)
    there = [str(folder / file) for file in texts if (folder / file).exists()]
    if there:
        raise click.ClickException(f"{', '.join(there)}: exists already; give another name or --dir")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror or error}") from None
    _tell(folder, list(texts), batch=batch)


def _pod(name: str, points: str, crd: str) -> dict[str, str]:
    from mooring.cli.plugin.scaffold.pod import PodPlugin, as_points, known_points

    chosen, unknown = as_points(points)
    if unknown or not chosen:
        text = f"{', '.join(unknown) or 'nothing'}: no extension point; there are {', '.join(known_points())}"
        raise click.BadParameter(text, param_hint="--points")
    if crd == name:
        raise click.BadParameter("the plugin and its resource need different names", param_hint="--crd")
    plugin = PodPlugin(name, chosen, crd)
    added = [point for point in plugin.points if point not in chosen]
    if added:
        click.echo(f"note: {', '.join(added)} was added, without which nobody calls pre_score", err=True)
    return plugin.files()


def _session(name: str, crd: str) -> dict[str, str]:
    from mooring.cli.plugin.scaffold.session import session_files

    source = click.get_current_context().get_parameter_source("points")
    if crd or (source is not None and source.name != "DEFAULT"):
        raise click.UsageError("--batch goes with neither --points nor --crd: sessions have points of their own")
    return session_files(name)


def _tell(folder: Path, files: list[str], *, batch: bool) -> None:
    from mooring.cli.cluster import program

    plugin, test, config = (shlex.quote(str(folder / file)) for file in files)
    mooring = program()
    click.echo(f"Wrote {plugin}, {test} and {config}. What to do next:")
    click.echo(f"  {mooring} plugin check {plugin}")
    click.echo(f"  python -m pytest {test}")
    if batch:
        click.echo(f"  {mooring} up --scheduler-conf {config} --plugins-dir {shlex.quote(str(folder))}")
    else:
        click.echo(f"  {mooring} up --config {config}")
    click.echo(f"Then edit {plugin}: what you save is in force a moment later.")
