"""`mooring cluster`: start, inspect and stop an embedded cluster."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mooring.cluster import EmbeddedCluster

KUBECONFIG = "mooring.kubeconfig"


def _checked_controllers(_context: click.Context, _option: click.Parameter, value: str) -> str:
    from mooring.cluster.controllers.controller import disabled_controllers
    from mooring.cluster.embedded import CONTROLLERS

    try:
        disabled_controllers(value, {each.name for each in CONTROLLERS})
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


controllers_option = click.option(
    "--controllers",
    default="*",
    show_default=True,
    metavar="LIST",
    callback=_checked_controllers,
    help="Controllers to run, as for kube-controller-manager: '*,-deployment' runs all but one.",
)


def _device_counts(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """Return the number of devices by name."""
    found = {}
    for value in values:
        name, _, count = value.partition("=")
        if not re.fullmatch(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?", name) or not count.isdecimal() or int(count) > 128:
            raise click.BadParameter(
                f"{value!r} is not NAME=COUNT, such as gpu=8, with at most 128 devices for each node"
            )
        found[name] = int(count)
    return found


devices_option = click.option(
    "--devices",
    multiple=True,
    metavar="NAME=COUNT",
    callback=_device_counts,
    help="Devices of each fake node, and a DeviceClass for them, such as gpu=8. Repeatable.",
)


@click.group()
def cluster() -> None:
    """Run a local Kubernetes API server with fake nodes."""


@cluster.command()
@devices_option
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
@controllers_option
@click.option(
    "--queue-gates",
    multiple=True,
    metavar="SCHEDULER",
    help="Add a scheduling gate to pods of this scheduler that request it, as Volcano's webhook does with the feature "
    "gate SchedulingGatesQueueAdmission. Repeatable.",
)
@click.option("--attached", is_flag=True, hidden=True, help="For a parent process: see cli/cluster_process.py.")
def start(
    nodes: int,
    devices: dict[str, int],
    port: int,
    data_dir: Path | None,
    kubeconfig_out: Path,
    batch: bool,
    controllers: str,
    queue_gates: tuple[str, ...],
    attached: bool,
) -> None:
    """Serve the Kubernetes API on 127.0.0.1 until Ctrl-C.

    The nodes are fake: pods bound to them are reported as running, but nothing is executed. Deployments, ReplicaSets,
    Jobs, StatefulSets and DaemonSets create their pods. A scheduler, such as `mooring run`, has to bind the pods.
    """
    from mooring.apiserver.volcano_admission.review import AdmissionSettings
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
    rules = AdmissionSettings(scheduler_names=queue_gates, adds_queue_gates=True) if queue_gates else True
    try:
        run(
            lambda: serve(
                EmbeddedCluster(port, data_dir, definitions=definitions, controllers=controllers, admission=rules),
                kubeconfig=kubeconfig,
                nodes=nodes,
                devices=devices,
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


_kubeconfig_option = click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    type=click.Path(),
    show_default=f"{KUBECONFIG} in this directory, or $KUBECONFIG",
    help="The kubeconfig that `start` or `up` wrote.",
)


@cluster.command()
@_kubeconfig_option
def status(kubeconfig: str) -> None:
    """Show whether an embedded cluster is running, and its nodes and pods. The exit code is 1 if none is running."""
    from mooring.cli.cluster_process import cluster_status

    found = cluster_status(_found(kubeconfig))
    click.echo(f"The embedded cluster is serving {found.server} (process {found.pid}).")
    click.echo(f"Data: {found.data_dir or 'in memory only'}")
    click.echo(f"Nodes: {found.nodes}, ready {found.ready}")
    click.echo(f"Pods: {found.pods}, bound {found.bound}")


@cluster.command()
@_kubeconfig_option
def stop(kubeconfig: str) -> None:
    """Stop an embedded cluster and wait until it has exited."""
    from mooring.cli.cluster_process import cluster_status, stop_cluster

    stop_cluster(cluster_status(_found(kubeconfig)))
    click.echo("The embedded cluster has stopped.")


def _found(kubeconfig: str) -> str:
    """Return the kubeconfig to use; empty for the files of $KUBECONFIG."""
    if kubeconfig:
        return kubeconfig
    return "" if os.environ.get("KUBECONFIG") and not Path(KUBECONFIG).exists() else KUBECONFIG


def program() -> str:
    """Return the command that invokes `mooring`: its name, or its path if it is not on the PATH."""
    if shutil.which("mooring"):
        return "mooring"
    return shlex.quote(sys.argv[0]) if Path(sys.argv[0]).name == "mooring" else f"{interpreter()} -m mooring.cli"


def interpreter() -> str:
    """Return the command that invokes this Python: its name, or its path if the name is that of another Python."""
    found = shutil.which("python")
    # Do not resolve the paths: the interpreters of all virtual environments may be links to one file.
    if found is not None and Path(found).absolute() == Path(sys.executable).absolute():
        return "python"
    path, here = Path(sys.executable), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def usage_hint(kubeconfig: Path) -> str:
    """Return the shell commands to use a cluster with kubectl."""
    lines = [f"  export KUBECONFIG={shlex.quote(str(kubeconfig.resolve()))}", "  kubectl get nodes"]
    if shutil.which("kubectl") is None:
        lines[1] += "      # kubectl is not installed; use any version from 1.35 to 1.37"
    return "\n".join(lines)
