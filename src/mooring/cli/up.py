"""`mooring up`: run an embedded cluster and a scheduler for it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.cluster import KUBECONFIG, controllers_option, devices_option

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mooring.cli.cluster_process import ChildCluster


class _Up(click.Command):
    """A command that also completes the options of `mooring run`."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the options that start with a word."""
        from mooring.cli.run import run

        own = super().shell_complete(ctx, incomplete)
        names = {item.value for item in own}
        return [*own, *(item for item in run.shell_complete(ctx, incomplete) if item.value not in names)]


@click.command(cls=_Up, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.option("--nodes", type=click.IntRange(min=0), default=100, show_default=True, help="Number of fake nodes.")
@devices_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server. By default any free port."
)
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
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the scheduler's endpoints. By default any free port.",
)
@click.option(
    "--controller/--no-controller",
    "with_controllers",
    default=True,
    show_default=True,
    help="Run the controllers of queues, pod groups and jobs (`mooring controller`).",
)
@controllers_option
@click.argument("scheduler_options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF `mooring run`]...")
def up(
    nodes: int,
    devices: dict[str, int],
    port: int,
    data_dir: Path | None,
    kubeconfig_out: Path,
    secure_port: int,
    with_controllers: bool,
    controllers: str,
    scheduler_options: tuple[str, ...],
) -> None:
    """Run a local cluster and a scheduler for it, until Ctrl-C.

    The scheduler takes all options of `mooring run`, such as --config, --plugin, --plugins-dir and -v. The nodes are
    fake: pods bound to them are reported as running, but nothing is executed.
    """
    from mooring.cli.cluster_process import ChildCluster
    from mooring.cluster.kubeconfig import ForeignFileError, check_writable, remove_kubeconfig, write_kubeconfig

    gated = _check_scheduler_options(scheduler_options)
    if secure_port:
        _check_port(secure_port)
    try:
        check_writable(kubeconfig_out)
    except ForeignFileError as error:
        raise click.ClickException(f"{error.filename} {error.strerror}; give another --kubeconfig-out") from None
    with (
        ChildCluster(
            nodes=nodes,
            port=port,
            data_dir=data_dir,
            controllers=controllers,
            devices=devices,
            queue_gates=gated,
        ) as cluster,
        tempfile.TemporaryDirectory(prefix="mooring-up-") as folder,
    ):
        secure_port = secure_port or _free_port()
        text, certificate = _prepare(cluster, secure_port, Path(folder))
        try:
            write_kubeconfig(text, kubeconfig_out)
        except OSError as error:
            raise click.ClickException(f"cannot write {kubeconfig_out}: {error.strerror or error}") from None
        try:
            link_token = "" if "--no-dashboard" in scheduler_options else secrets.token_urlsafe(32)
            _print_usage(cluster, nodes, kubeconfig_out, secure_port, link_token)
            options = [
                "--bind-address",
                "127.0.0.1",
                "--kubeconfig",
                str(kubeconfig_out),
                "--secure-port",
                str(secure_port),
                *certificate,
            ]
            with _controllers(kubeconfig_out, scheduler_options) if with_controllers else contextlib.nullcontext():
                status = _schedule(cluster, [*options, *scheduler_options], link_token)
            sys.exit(status)
        finally:
            if data_dir is None:
                remove_kubeconfig(text, kubeconfig_out)


def _check_scheduler_options(options: tuple[str, ...]) -> tuple[str, ...]:
    """Report invalid scheduler options before the cluster starts.

    Return the schedulers whose pods wait for room in their queue behind a scheduling gate.
    """
    from mooring.cli.flags.go_flags import UnknownFlagError
    from mooring.cli.flags.scheduler_settings import batch_settings
    from mooring.cli.input_files import read_text
    from mooring.cli.run import run

    here = click.get_current_context()
    try:
        with run.make_context("up", list(options), parent=here.parent) as parsed:
            given = parsed.params
    except UnknownFlagError as error:
        own = [name for each in here.command.params for name in (*each.opts, *each.secondary_opts)]
        raise UnknownFlagError(error.name, (*own, *error.known), here) from None
    for file in (given["config"], given["scheduler_conf"]):
        if file and file != "-":
            read_text(file)
    batch = batch_settings(given)
    return batch.scheduler_names if batch is not None and batch.removes_queue_gates else ()


def _check_port(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise click.ClickException(
            f"--secure-port {port}: {os.strerror(error.errno or 0)}; choose another, or leave it out for any free port"
        ) from None


def _prepare(cluster: ChildCluster, secure_port: int, folder: Path) -> tuple[str, list[str]]:
    """Return the kubeconfig, and the options for a serving certificate that is signed by the CA in the kubeconfig."""
    from mooring.certificates import make_certificate
    from mooring.cluster.kubeconfig import kubeconfig_text

    made = make_certificate(names=("localhost",))
    files = {"tls-cert-file": made.certificate, "tls-private-key-file": made.key}
    options = []
    for name, text in files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        options += [f"--{name}", str(path)]
    scheduler = (f"https://127.0.0.1:{secure_port}", made.authority)
    text = kubeconfig_text(server=cluster.server, authority=cluster.authority, token=cluster.token, scheduler=scheduler)
    return text, options


def _print_usage(cluster: ChildCluster, nodes: int, kubeconfig: Path, secure_port: int, link_token: str) -> None:
    from mooring.cli.cluster import program, usage_hint

    file = shlex.quote(str(kubeconfig))
    click.echo(f"An embedded cluster with {nodes} fake nodes is serving {cluster.server}; starting its scheduler.")
    click.echo(usage_hint(kubeconfig))
    click.echo(f"  {program()} explain pod NAMESPACE/NAME --kubeconfig {file}")
    click.echo(f"Scheduler health and metrics: https://127.0.0.1:{secure_port}")
    if link_token:
        click.echo("Dashboard (the link works once; the browser does not know the certificate, accept it):")
        click.echo(f"  https://127.0.0.1:{secure_port}/dashboard?token={link_token}")
    click.echo("Press Ctrl-C to stop. The scheduler's log follows.\n")


def _controllers(kubeconfig: Path, scheduler_options: tuple[str, ...]) -> contextlib.AbstractContextManager[object]:
    """Return the controllers of batch objects for the schedulers in the options."""
    from mooring.cli.flags.go_flags import given_values
    from mooring.controllers.manager import ControllerThread, ManagerSettings
    from mooring.controllers.reconciler import Settings
    from mooring.kube import load_access
    from mooring.loading import Requested, parse_plugin_option

    names = given_values(scheduler_options, "scheduler-name") or ("volcano",)
    requested = Requested(
        tuple(parse_plugin_option(each) for each in given_values(scheduler_options, "plugin")),
        tuple(Path(each) for each in given_values(scheduler_options, "plugins-dir")),
        "--allow-writable-plugins" in scheduler_options,
    )
    settings = ManagerSettings(settings=Settings(scheduler_names=names), job_plugins=requested, qps=0)
    return ControllerThread(load_access(kubeconfig=str(kubeconfig)), settings)


def _schedule(cluster: ChildCluster, options: list[str], link_token: str) -> int:
    """Run the scheduler in this process and return the exit code."""
    from mooring.cli.main import main
    from mooring.cli.run import OwnCluster

    cluster_failed = False

    def stop() -> None:
        nonlocal cluster_failed
        cluster_failed = True
        os.kill(os.getpid(), signal.SIGTERM)

    def terminate(_number: int, _frame: object) -> None:
        raise SystemExit(1)

    # Handle SIGTERM until the scheduler does: the cluster may exit, or the user may stop it, during startup.
    signal.signal(signal.SIGTERM, terminate)
    cluster.on_exit(stop)
    try:
        main(["run", *_with_defaults(options)], prog_name="mooring", obj=OwnCluster(cluster.token, link_token))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        return status or int(cluster_failed)
    return int(cluster_failed)


def _with_defaults(options: list[str]) -> list[str]:
    """Return the options with defaults that suit an embedded cluster."""
    from mooring.cli.run import run

    known = {name for each in run.params for name in (*each.opts, *each.secondary_opts)}
    wanted: list[str] = []
    # There is only one scheduler.
    if not any(each.startswith(("--leader-elect", "--no-leader-elect")) for each in options):
        wanted.append("--no-leader-elect" if "--no-leader-elect" in known else "--leader-elect=false")
    # The API server has no other clients to protect.
    if not any(each.startswith(("--config", "--kube-api-")) for each in options) and "--kube-api-qps" in known:
        wanted += ["--kube-api-qps=5000", "--kube-api-burst=5000"]
    return [*options, *wanted]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port
