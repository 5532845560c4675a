"""`mooring cluster start`: the embedded cluster in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mooring.cluster import EmbeddedCluster


@click.group()
def cluster() -> None:
    """A Kubernetes API with fake nodes, for trying things out."""


@cluster.command()
@click.option("--nodes", type=click.IntRange(min=0), default=100, show_default=True, help="How many fake nodes.")
@click.option("--port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="0 takes any free port.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep everything in this folder; otherwise it is gone when the cluster ends.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("mooring.kubeconfig"),
    show_default=True,
    help="Where to write how the cluster is reached.",
)
def start(nodes: int, port: int, data_dir: Path | None, kubeconfig: Path) -> None:
    """Serve the Kubernetes API on 127.0.0.1 until Ctrl-C.

    Every node is fake: what is bound to it counts as running, and nothing is executed. ReplicaSets, Deployments and
    Jobs make their pods; a scheduler, such as `mooring run`, has to bind them.
    """
    from mooring.cluster import DataError, EmbeddedCluster
    from mooring.cluster.serving import run, serve

    def ready(cluster: EmbeddedCluster) -> None:
        click.echo(f"The embedded cluster listens on {cluster.url}")
        click.echo(f"  export KUBECONFIG={kubeconfig.resolve()}")
        click.echo("  kubectl get nodes")

    try:
        run(lambda: serve(EmbeddedCluster(port, data_dir), kubeconfig=kubeconfig, nodes=nodes, ready=ready))
    except DataError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = f"port {port}" if error.filename is None else error.filename
        raise click.ClickException(f"cannot use {where}: {error.strerror or error}; choose another") from None
