"""`mooring cluster`: the embedded cluster in a process of its own."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mooring.cluster import EmbeddedCluster

KUBECONFIG = "mooring.kubeconfig"


@click.group()
def cluster() -> None:
    """A Kubernetes API with fake nodes, for trying things out."""


@cluster.command()
@click.option("--nodes", type=click.IntRange(min=0), default=100, show_default=True, help="How many fake nodes.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Where to listen; any free port unless given.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep everything in this folder; otherwise it is gone when the cluster ends.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(KUBECONFIG),
    show_default=True,
    help="Where to write how the cluster is reached.",
)
@click.option(
    "--batch/--no-batch",
    default=True,
    show_default=True,
    help="Serve queues, pod groups and jobs as Volcano defines them.",
)
@click.option("--attached", is_flag=True, hidden=True, help="For a parent process: see cli/attached.py.")
def start(nodes: int, port: int, data_dir: Path | None, kubeconfig_out: Path, batch: bool, attached: bool) -> None:
    """Serve the Kubernetes API on 127.0.0.1 until Ctrl-C.

    Every node is fake: what is bound to it counts as running, and nothing is executed. Deployments, ReplicaSets, Jobs,
    StatefulSets and DaemonSets make their pods; a scheduler, such as `mooring run`, has to bind them.
    """
    from mooring.cluster import DataError, EmbeddedCluster
    from mooring.cluster.kubeconfig import ForeignFileError
    from mooring.cluster.serving import run, serve
    from mooring.controllers.definitions import DEFINITIONS

    def ready(cluster: EmbeddedCluster) -> None:
        if attached:
            click.echo(json.dumps([cluster.url, cluster.authority, cluster.token]))
            return
        click.echo(f"The embedded cluster serves {cluster.url}; Ctrl-C ends it.")
        click.echo(how_to_use(kubeconfig_out))
        click.echo(f"  {program()} run --kubeconfig {shlex.quote(str(kubeconfig_out))}")

    kubeconfig = None if attached else kubeconfig_out
    definitions = DEFINITIONS if batch else ()

    def made() -> EmbeddedCluster:
        return EmbeddedCluster(port, data_dir, definitions=definitions)

    try:
        run(lambda: serve(made(), kubeconfig=kubeconfig, nodes=nodes, ready=ready))
    except DataError as error:
        raise click.ClickException(str(error)) from None
    except ForeignFileError as error:
        raise click.ClickException(f"{error.filename} {error.strerror}; give another --kubeconfig-out") from None
    except OSError as error:
        where = f"port {port}" if error.filename is None else error.filename
        raise click.ClickException(f"cannot use {where}: {error.strerror or error}; choose another") from None


@cluster.command()
@click.option("--kubeconfig", default=KUBECONFIG, show_default=True, help="The file that `start` or `up` wrote.")
def status(kubeconfig: str) -> None:
    """Tell whether an embedded cluster runs, and what is in it. The exit code is 1 if none does."""
    from mooring.cli.cluster_client import ask

    found = ask(kubeconfig)
    click.echo(f"The embedded cluster serves {found.server} (process {found.pid}).")
    click.echo(f"Data: {found.data_dir or 'in memory only'}")
    click.echo(f"Nodes: {found.nodes}, ready {found.ready}")
    click.echo(f"Pods: {found.pods}, bound {found.bound}")


@cluster.command()
@click.option("--kubeconfig", default=KUBECONFIG, show_default=True, help="The file that `start` or `up` wrote.")
def stop(kubeconfig: str) -> None:
    """End an embedded cluster, and wait until it has ended."""
    from mooring.cli.cluster_client import ask, end

    end(ask(kubeconfig))
    click.echo("The embedded cluster has ended.")


def program() -> str:
    """What to type for `mooring`: that, or the path where it is not found by its name."""
    return "mooring" if shutil.which("mooring") else shlex.quote(sys.argv[0])


def how_to_use(kubeconfig: Path) -> str:
    """What to type in order to use a cluster, with kubectl if it is there."""
    lines = [f"  export KUBECONFIG={shlex.quote(str(kubeconfig.resolve()))}", "  kubectl get nodes"]
    if shutil.which("kubectl") is None:
        lines[1] += "      # kubectl was not found on this machine; any 1.35 to 1.37 will do"
    return "\n".join(lines)
