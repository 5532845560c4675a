"""`mooring run`: the scheduler as a process on a cluster, with the flags of kube-scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring import DECIDES_AS, __version__
from mooring.cli.flags.command import DropInCommand, notes
from mooring.cli.flags.foreign import FOREIGN
from mooring.cli.flags.known import FLAGS
from mooring.cli.plugin_options import plugin_options
from mooring.cli.until_stopped import until_stopped

if TYPE_CHECKING:
    from mooring.config import SchedulerConfiguration
    from mooring.kube import Access
    from mooring.live import LiveScheduler
    from mooring.live.batch.scheduler import BatchSettings
    from mooring.loading import Requested


#: Whoever starts the command with this has a cluster for it: `--kubeconfig` counts, whatever the configuration names.
OWN_CLUSTER = object()


def _version(form: str) -> str:
    """What `--version` and `--version=raw` print."""
    if form == "raw":
        return f"version {__version__}, decides as kube-scheduler {DECIDES_AS}, Python {sys.version.split()[0]}"
    return f"mooring {__version__} (decides as kube-scheduler {DECIDES_AS})"


@click.command(cls=DropInCommand, flags=FLAGS, foreign=FOREIGN, version=_version)
@plugin_options
@click.option("--no-reload", is_flag=True, help="Read plugins and configuration once only, not when they change.")
@click.option("--seed", type=int, help="Decides ties; random unless given.")
@click.pass_context
def run(ctx: click.Context, /, requested: Requested, no_reload: bool, seed: int | None, **given: Any) -> None:
    """Schedule the pods of a cluster.

    Takes the flags of kube-scheduler 1.36. Without --config its default configuration is in force. With
    --scheduler-conf it runs Volcano's batch sessions, as vc-scheduler does; with both, it does both, and pods choose by
    their schedulerName. The cluster is found as kubectl finds it: a kubeconfig that is named, $KUBECONFIG, the pod's
    own service account, ~/.kube/config.
    Flags of kube-scheduler and vc-scheduler that have no effect here are explained when they are given.
    """
    import structlog

    from mooring.cli.flags.batch import batch_settings, plain_endpoints, with_sessions
    from mooring.cli.flags.effects import configured, gate_notes, served, without_cluster
    from mooring.cli.inputs import read_setup_files
    from mooring.kube import AccessError, load_access
    from mooring.live import LiveScheduler
    from mooring.observe.logs import configure_logs

    if given["logging_format"] not in ("text", "json"):
        raise click.BadParameter(f"{given['logging_format']!r}: use text or json", param_hint="--logging-format")
    told = [*notes(ctx), *gate_notes(given)]
    configure_logs(given["v"], as_json=given["logging_format"] == "json")
    setup, files = read_setup_files(given["config"], requested)
    config = without_cluster(setup.config) if ctx.obj is OWN_CLUSTER else setup.config
    config, ignored = configured(config, given, from_file=given["config"] is not None)
    if given["write_config_to"]:
        _write(config, given["write_config_to"])
        return
    batch = batch_settings(given)
    if batch is not None:
        config = with_sessions(config, batch, given)
    if files is not None:
        files.adjust = functools.partial(_flagged, given=given, batch=batch, own_cluster=ctx.obj is OWN_CLUSTER)
    log = structlog.get_logger("mooring")
    for note in (*told, *ignored, *setup.notes):
        log.warning(note)
    serve, plain = served(given), plain_endpoints(given)
    try:
        access = load_access(kubeconfig=config.client_connection.kubeconfig, master=given["master"])
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    rng = random.Random(seed) if seed is not None else None
    make = functools.partial(
        LiveScheduler, config, access, catalog=setup.catalog, rng=rng, serve=serve, plain=plain, batch=batch
    )
    make = functools.partial(make, files=files, reload=not no_reload)
    work = _run(make, access, given)
    with contextlib.suppress(ImportError):
        import uvloop

        sys.exit(uvloop.run(work))
    sys.exit(asyncio.run(work))


def _flagged(
    config: SchedulerConfiguration, given: Mapping[str, Any], batch: BatchSettings | None, *, own_cluster: bool
) -> SchedulerConfiguration:
    """A configuration that was read again, with what flags make of it."""
    from mooring.cli.flags.batch import with_sessions
    from mooring.cli.flags.effects import configured, without_cluster

    try:
        changed, _ = configured(
            without_cluster(config) if own_cluster else config, given, from_file=given["config"] is not None
        )
        return changed if batch is None else with_sessions(changed, batch, given)
    except click.UsageError as error:
        raise ValueError(error.format_message()) from None


def _write(config: SchedulerConfiguration, file: str) -> None:
    """Write the configuration in force, as kube-scheduler does with --write-config-to."""
    from mooring.api.yaml_writer import yaml_text
    from mooring.config import written

    try:
        Path(file).write_text(yaml_text(written(config)), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--write-config-to {file}: {error.strerror or error}") from None
    click.echo(f"Wrote configuration to {file}", err=True)


async def _run(make: Callable[[], LiveScheduler], access: Access, given: Mapping[str, Any]) -> int:
    import structlog

    from mooring.config import ConfigError
    from mooring.live.endpoints.endpoint_server import ServerError
    from mooring.scheduler.profile import ProfileError

    log = structlog.get_logger("mooring")
    log.info("Starting Mooring", version=__version__, decidesAs=DECIDES_AS, server=access.server, found=access.origin)
    for warning in access.warnings:
        log.warning(warning)
    try:
        scheduler = make()
    except ConfigError as error:
        for line in error.lines():
            log.error(line)
        return 1
    except (ProfileError, ServerError) as error:
        log.error(str(error))
        return 1
    scheduler.engine.queue.max_in_unschedulable = given["pod_max_in_unschedulable_pods_duration"] / 1e9
    watch = scheduler.engine.watch
    if watch is not None and watch.metrics is not None:
        watch.metrics.disabled = frozenset(given["disabled_metrics"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, scheduler.debug)
    return await until_stopped(scheduler.run())
