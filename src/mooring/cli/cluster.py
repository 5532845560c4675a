"""`mooring cluster`: start, inspect and stop an embedded cluster."""

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
    """Run a local Kubernetes API server with fake nodes."""


@cluster.command()
@click.option("--nodes", type=click.IntRange(min=0), default=100, show_default=True, help="Number of fake nodes.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on. By default any free port.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory to store all objects in. By default they are kept in memory.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(KUBECONFIG),
    show_default=True,
    help="File to write the kubeconfig of the cluster to.",
)
@click.option(
    "--batch/--no-batch",
    default=True,
    show_default=True,
    help="Serve Volcano's queues, pod groups and jobs.",
)
@click.option("--attached", is_flag=True, hidden=True, help="For a parent process: see cli/cluster_process.py.")
def start(nodes: int, port: int, data_dir: Path | None, kubeconfig_out: Path, batch: bool, attached: bool) -> None:
    """Serve the Kubernetes API on 127.0.0.1 until Ctrl-C.

    The nodes are fake: pods bound to them are reported as running, but nothing is executed. Deployments, ReplicaSets,
    Jobs, StatefulSets and DaemonSets create their pods. A scheduler, such as `mooring run`, has to bind the pods.
    """
    from mooring.cluster import DataError, EmbeddedCluster
    from mooring.cluster.kubeconfig import ForeignFileError
    from mooring.cluster.serving import run, serve
    from mooring.controllers.definitions import DEFINITIONS

    def ready(cluster: EmbeddedCluster) -> None:
        if attached:
            click.echo(json.dumps([cluster.url, cluster.authority, cluster.token]))
            return
        click.echo(f"The embedded cluster is serving {cluster.url}; press Ctrl-C to stop it.")
        click.echo(usage_hint(kubeconfig_out))
        click.echo(f"  {program()} run --kubeconfig {shlex.quote(str(kubeconfig_out))}")

    kubeconfig = None if attached else kubeconfig_out
    definitions = DEFINITIONS if batch else ()

    try:
        run(
            lambda: serve(
                EmbeddedCluster(port, data_dir, definitions=definitions),
                kubeconfig=kubeconfig,
                nodes=nodes,
                ready=ready,
            )
        )
    except DataError as error:
        raise click.ClickException(str(error)) from None
    except ForeignFileError as error:
        raise click.ClickException(f"{error.filename} {error.strerror}; give another --kubeconfig-out") from None
    except OSError as error:
        where = f"port {port}" if error.filename is None else error.filename
        raise click.ClickException(f"cannot use {where}: {error.strerror or error}; choose another") from None


@cluster.command()
@click.option("--kubeconfig", default=KUBECONFIG, show_default=True, help="The kubeconfig that `start` or `up` wrote.")
def status(kubeconfig: str) -> None:
    """Show whether an embedded cluster is running, and its nodes and pods. The exit code is 1 if none is running."""
    from mooring.cli.cluster_process import cluster_status

    found = cluster_status(kubeconfig)
    click.echo(f"The embedded cluster is serving {found.server} (process {found.pid}).")
    click.echo(f"Data: {found.data_dir or 'in memory only'}")
    click.echo(f"Nodes: {found.nodes}, ready {found.ready}")
    click.echo(f"Pods: {found.pods}, bound {found.bound}")


@cluster.command()
@click.option("--kubeconfig", default=KUBECONFIG, show_default=True, help="The kubeconfig that `start` or `up` wrote.")
def stop(kubeconfig: str) -> None:
    """Stop an embedded cluster and wait until it has exited."""
    from mooring.cli.cluster_process import cluster_status, stop_cluster

    stop_cluster(cluster_status(kubeconfig))
    click.echo("The embedded cluster has stopped.")


def program() -> str:
    """Return how to invoke `mooring`: by name, or by path if it is not on the PATH."""
    return "mooring" if shutil.which("mooring") else shlex.quote(sys.argv[0])


def usage_hint(kubeconfig: Path) -> str:
    """Return the shell commands to use a cluster with kubectl."""
    lines = [f"  export KUBECONFIG={shlex.quote(str(kubeconfig.resolve()))}", "  kubectl get nodes"]
    if shutil.which("kubectl") is None:
        lines[1] += "      # kubectl is not installed; use any version from 1.35 to 1.37"
    return "\n".join(lines)
