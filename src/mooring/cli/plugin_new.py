"""`mooring plugin new`: create a plugin with a test and a configuration."""

from __future__ import annotations

import importlib.util
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
    help="Extension points, as method names (pre_filter) or as in a configuration (preFilter). filter_nodes and "
    "score_nodes handle all nodes in one call.",
)
@click.option(
    "--crd",
    metavar="KIND",
    default="",
    help="Also declare a custom resource of this kind, for filter and score to use.",
)
@click.option("--batch", is_flag=True, help="Create a plugin for batch sessions, with a volcano-scheduler.conf.")
@click.option("--job", is_flag=True, help="Create a plugin of Volcano jobs, with a job that uses it.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Directory to write to. By default one named after the plugin.",
)
def new(name: str, points: str, crd: str, batch: bool, job: bool, folder: Path | None) -> None:
    """Create a working plugin with a test and a configuration.

    NAME is the class name of the plugin, such as NodeNumber.
    """
    from mooring.cli.scaffold.pod_plugin import snake
    from mooring.loading import JOB, POD, SESSION

    for given, what in ((name, "NAME"), (crd, "--crd")):
        if given and not (given.isidentifier() and given[0].isupper()):
            raise click.BadParameter(f"{given!r} is not a class name such as NodeNumber", param_hint=what)
    if batch and job:
        raise click.UsageError("--batch and --job exclude each other")
    kind = JOB if job else SESSION if batch else POD
    if (name if kind is POD else snake(name).replace("_", "-")) in kind.builtin:
        raise click.BadParameter(f"{name} is a built-in plugin; choose another name", param_hint="NAME")
    folder = folder or Path(snake(name))
    texts = _pod(name, points, crd) if kind is POD else _other(name, crd, job=job)
    there = [str(folder / file) for file in texts if (folder / file).exists()]
    if there:
        raise click.ClickException(f"{', '.join(there)}: already exists; choose another name or --dir")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror or error}") from None
    _print_next_steps(folder, list(texts), kind.name)


def _pod(name: str, points: str, crd: str) -> dict[str, str]:
    from mooring.cli.scaffold.method_examples import EXAMPLES
    from mooring.cli.scaffold.pod_plugin import PodPlugin, parse_points

    chosen, unknown = parse_points(points)
    if unknown or not chosen:
        text = f"{', '.join(unknown) or 'nothing'}: not an extension point; use some of {', '.join(EXAMPLES)}"
        raise click.BadParameter(text, param_hint="--points")
    if crd == name:
        raise click.BadParameter("the plugin and its custom resource need different names", param_hint="--crd")
    plugin = PodPlugin(name, chosen, crd)
    added = [point for point in plugin.points if point not in chosen]
    if added:
        click.echo(f"note: {', '.join(added)} was added, because pre_score runs only for plugins that score", err=True)
    return plugin.files()


def _other(name: str, crd: str, *, job: bool) -> dict[str, str]:
    from mooring.cli.scaffold.job_plugin import job_files
    from mooring.cli.scaffold.session_plugin import session_files

    source = click.get_current_context().get_parameter_source("points")
    if crd or (source is not None and source.name != "DEFAULT"):
        raise click.UsageError(
            f"{'--job' if job else '--batch'} cannot be combined with --points or --crd: "
            f"{'job' if job else 'session'} plugins have other extension points"
        )
    return job_files(name) if job else session_files(name)


def _print_next_steps(folder: Path, files: list[str], kind: str) -> None:
    from mooring.cli.cluster import interpreter, program

    plugin, test, config = (shlex.quote(str(folder / file)) for file in files)
    mooring = program()
    click.echo(f"Wrote {plugin}, {test} and {config}. Next steps:")
    click.echo(f"  {mooring} plugin check {plugin}")
    if importlib.util.find_spec("pytest") is None:
        click.echo(f"  {interpreter()} -m pip install pytest")
    click.echo(f"  {interpreter()} -m pytest {test}")
    if kind == "job":
        click.echo(f"  {mooring} up --scheduler-name volcano --plugins-dir {shlex.quote(str(folder))}")
        click.echo(f"  kubectl apply -f {config}")
    elif kind == "session":
        click.echo(f"  {mooring} up --scheduler-conf {config} --plugins-dir {shlex.quote(str(folder))}")
    else:
        click.echo(f"  {mooring} up --config {config}")
    click.echo(
        f"Then edit {plugin}: {'the controller' if kind == 'job' else 'the scheduler'} reloads it when you save."
    )
