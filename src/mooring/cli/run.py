"""`mooring run`: the scheduler as a process on a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from typing import TYPE_CHECKING

import click

from mooring.cli.plugin_options import plugin_options

if TYPE_CHECKING:
    from mooring.config import SchedulerConfiguration
    from mooring.kube import Access
    from mooring.live.server import ServerSettings
    from mooring.loading import Catalog, Requested


@click.command()
@click.option("--config", "config_file", metavar="FILE", help="A KubeSchedulerConfiguration (v1, v1beta3, v1beta2).")
@click.option("--kubeconfig", default="", help="How to reach the cluster; overrides clientConnection.kubeconfig.")
@click.option("--master", default="", help="Address of the API server, instead of the kubeconfig's.")
@plugin_options
@click.option("--leader-elect/--no-leader-elect", default=None, help="Overrides leaderElection.leaderElect.")
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Where health and metrics are served.")
@click.option("--secure-port", type=int, default=10259, show_default=True, help="Their port; 0 serves nothing.")
@click.option("--tls-cert-file", default="", help="Certificate of the endpoints; self-signed unless given.")
@click.option("--tls-private-key-file", default="", help="Its key.")
@click.option("--cert-dir", default="", help="Where a self-signed certificate is kept.")
@click.option("--seed", type=int, help="Decides ties; random unless given.")
@click.option("-v", "--verbosity", type=int, default=2, show_default=True, help="How much to log.")
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(
    config_file: str | None,
    kubeconfig: str,
    master: str,
    requested: Requested,
    leader_elect: bool | None,
    bind_address: str,
    secure_port: int,
    tls_cert_file: str,
    tls_private_key_file: str,
    cert_dir: str,
    seed: int | None,
    verbosity: int,
    logging_format: str,
) -> None:
    """Schedule the pods of a cluster.

    Without --config the default configuration of kube-scheduler 1.36 is in force. The cluster is found as kubectl finds
    it: --kubeconfig, $KUBECONFIG, the pod's own service account, ~/.kube/config.
    """
    import msgspec
    import structlog

    from mooring.cli.inputs import read_setup
    from mooring.kube import AccessError, load_access
    from mooring.live.server import ServerSettings
    from mooring.observe.logs import configure_logs

    configure_logs(verbosity, as_json=logging_format == "json")
    setup = read_setup(config_file, requested)
    config, catalog = setup.config, setup.catalog
    for note in setup.notes:
        structlog.get_logger("mooring").warning(note)
    if leader_elect is not None:
        election = msgspec.structs.replace(config.leader_election, leader_elect=leader_elect)
        config = msgspec.structs.replace(config, leader_election=election)
    try:
        access = load_access(kubeconfig=kubeconfig or config.client_connection.kubeconfig, master=master)
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    rng = random.Random(seed) if seed is not None else None
    serve = None
    if secure_port:
        serve = ServerSettings(
            bind_address=bind_address,
            port=secure_port,
            cert_file=tls_cert_file,
            key_file=tls_private_key_file,
            cert_dir=cert_dir,
        )
    with contextlib.suppress(ImportError):
        import uvloop

        sys.exit(uvloop.run(_run(config, access, catalog, rng, serve)))
    sys.exit(asyncio.run(_run(config, access, catalog, rng, serve)))


async def _run(
    config: SchedulerConfiguration,
    access: Access,
    catalog: Catalog,
    rng: random.Random | None,
    serve: ServerSettings | None,
) -> int:
    import structlog

    from mooring.live import LiveScheduler, LostLeaseError
    from mooring.live.server import ServerError
    from mooring.scheduler.profile import ProfileError

    log = structlog.get_logger("mooring")
    for warning in access.warnings:
        log.warning(warning)
    try:
        scheduler = LiveScheduler(config, access, catalog=catalog, rng=rng, serve=serve)
    except (ProfileError, ServerError) as error:
        log.error(str(error))
        return 1
    task = asyncio.ensure_future(scheduler.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    loop.add_signal_handler(signal.SIGUSR2, scheduler.debug)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopped")
        return 0
    except (LostLeaseError, ServerError) as error:
        log.error(str(error))
        return 1
    return 0
