"""`mooring run`: run the scheduler on a cluster, with the flags of kube-scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mooring import DECIDES_AS, __version__
from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.daemon import StopSignals, log_start, log_warnings, run_until_stopped, start_logging
from mooring.cli.flags.go_flags import GoCommand, notes
from mooring.cli.flags.supported_flags import SUPPORTED_FLAGS
from mooring.cli.flags.unsupported_flags import UNSUPPORTED_FLAGS
from mooring.cli.options import context_option, plugin_options

if TYPE_CHECKING:
    from mooring.config import SchedulerConfiguration
    from mooring.kube import Access
    from mooring.live import LiveScheduler
    from mooring.live.batch.batch_settings import BatchSettings
    from mooring.loading import Requested


#: Context object of a caller that provides the cluster: `--kubeconfig` overrides the configuration file.
OWN_CLUSTER = object()


def _version(form: str) -> str:
    """Return the output of `--version` and `--version=raw`."""
    if form == "raw":
        return f"version {__version__}, decides as kube-scheduler {DECIDES_AS}, Python {sys.version.split()[0]}"
    return f"mooring {__version__} (decides as kube-scheduler {DECIDES_AS})"


@click.command(cls=GoCommand, flags=SUPPORTED_FLAGS, unsupported=UNSUPPORTED_FLAGS, version=_version)
@plugin_options
@context_option
@click.option("--no-reload", is_flag=True, help="Do not reload plugins and configuration when their files change.")
@click.option("--seed", type=int, help="Seed for breaking ties between nodes. By default random.")
@click.pass_context
def run(
    ctx: click.Context, /, requested: Requested, context: str, no_reload: bool, seed: int | None, **given: Any
) -> None:
    """Schedule the pods of a cluster.

    Accepts the flags of kube-scheduler 1.36. Without --config, kube-scheduler's default configuration is used. With
    --scheduler-conf, it runs Volcano's batch sessions, as vc-scheduler does. With both, it does both, and the
    schedulerName of a pod selects which one schedules it. The cluster is the first of: the kubeconfig given by flag or
    configuration, $KUBECONFIG, the pod's service account, ~/.kube/config.

    A warning is logged for a flag of kube-scheduler or vc-scheduler that has no effect in Mooring.
    """

    from mooring.cli.flags.scheduler_settings import (
        batch_settings,
        configured,
        gate_notes,
        plain_endpoints,
        served,
        with_sessions,
        without_cluster,
    )
    from mooring.cli.input_files import read_setup_files
    from mooring.live import LiveScheduler

    warnings = [*notes(ctx), *gate_notes(given)]
    start_logging(given)
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
    log_warnings((*warnings, *ignored, *setup.notes))
    serve, plain = served(given), plain_endpoints(given)
    access = cluster_access(ClusterChoice(config.client_connection.kubeconfig, context), master=given["master"])
    rng = random.Random(seed) if seed is not None else None
    make = functools.partial(
        LiveScheduler,
        config,
        access,
        catalog=setup.catalog,
        rng=rng,
        serve=serve,
        plain=plain,
        batch=batch,
        files=files,
        reload=not no_reload,
    )
    with StopSignals() as signals:
        code = _run_loop(_run(make, access, given, signals))
    sys.exit(code)


def _run_loop(work: Coroutine[Any, Any, int]) -> int:
    """Run the scheduler on uvloop, if it is installed."""
    from mooring.framework.plugin_errors import run_loop
    from mooring.logs import get_logger

    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        loop_factory = uvloop.new_event_loop
    log = get_logger("mooring")
    return run_loop(
        work,
        loop_factory=loop_factory,
        report=lambda error: log.error("A task that a plugin created failed; the scheduler continues", error=error),
    )


def _flagged(
    config: SchedulerConfiguration, given: Mapping[str, Any], batch: BatchSettings | None, *, own_cluster: bool
) -> SchedulerConfiguration:
    """Return a reloaded configuration with the flags applied."""
    from mooring.cli.flags.scheduler_settings import configured, with_sessions, without_cluster

    try:
        changed, _ = configured(
            without_cluster(config) if own_cluster else config, given, from_file=given["config"] is not None
        )
        return changed if batch is None else with_sessions(changed, batch, given)
    except click.UsageError as error:
        raise ValueError(error.format_message()) from None


def _write(config: SchedulerConfiguration, file: str) -> None:
    """Write the effective configuration, as kube-scheduler does with --write-config-to."""
    from mooring.api.yaml_writer import yaml_text
    from mooring.config import written

    try:
        Path(file).write_text(yaml_text(written(config)), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--write-config-to {file}: {error.strerror or error}") from None
    click.echo(f"Wrote configuration to {file}", err=True)


async def _run(
    make: Callable[[], LiveScheduler], access: Access, given: Mapping[str, Any], signals: StopSignals
) -> int:
    from mooring.config import ConfigError
    from mooring.live.endpoints.endpoint_server import ServerError
    from mooring.logs import get_logger
    from mooring.scheduler.profile import ProfileError

    log = get_logger("mooring")
    log_start("Starting Mooring", access, version=__version__, decidesAs=DECIDES_AS)
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
    watch = scheduler.engine.observer
    if watch is not None and watch.metrics is not None:
        watch.metrics.disabled = frozenset(given["disabled_metrics"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, scheduler.debug)
    signals.call(scheduler.hurry)
    return await run_until_stopped(scheduler.run(), signals)
