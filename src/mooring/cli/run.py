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

from mooring import __version__
from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.daemon import StopSignals, log_start, log_warnings, run_until_stopped, start_logging
from mooring.cli.flags.go_flags import GoCommand, notes
from mooring.cli.flags.supported_flags import SUPPORTED_FLAGS
from mooring.cli.flags.unsupported_flags import UNSUPPORTED_FLAGS
from mooring.cli.options import context_option, plugin_options

if TYPE_CHECKING:
    from mooring.api.meta import KubeObject
    from mooring.config import SchedulerConfiguration
    from mooring.dashboard.what_if_worker import WhatIfWorker
    from mooring.kube import Access
    from mooring.live import LiveScheduler
    from mooring.live.batch.batch_settings import BatchSettings
    from mooring.live.endpoints.endpoint_server import Extension
    from mooring.live.recording import LiveRecording
    from mooring.loading import Requested, Setup
    from mooring.observe.tracing import AttemptTracer
    from mooring.releases import Release


class OwnCluster:
    """Context object of a caller that provides the cluster: `--kubeconfig` overrides the configuration file.

    ``link_token`` is a one-time token that opens the dashboard with the rights of ``bearer``.
    """

    def __init__(self, bearer: str = "", link_token: str = "") -> None:
        self.bearer = bearer
        self.link_token = link_token


def _version(form: str) -> str:
    """Return the output of `--version` and `--version=raw`."""
    from mooring.releases import RELEASES

    emulated = " or ".join(release.reference for release in RELEASES)
    if form == "raw":
        return f"version {__version__}, decides as kube-scheduler {emulated}, Python {sys.version.split()[0]}"
    return f"mooring {__version__} (decides as kube-scheduler {emulated})"


@click.command(cls=GoCommand, flags=SUPPORTED_FLAGS, unsupported=UNSUPPORTED_FLAGS, version=_version)
@plugin_options
@context_option
@click.option("--no-reload", is_flag=True, help="Do not reload plugins and configuration when their files change.")
@click.option(
    "--dashboard/--no-dashboard", default=True, show_default=True, help="Serve the dashboard on the secure port."
)
@click.option("--seed", type=int, help="Seed for breaking ties between nodes. By default random.")
@click.option(
    "--record",
    "record_folder",
    metavar="DIR",
    help="Record everything that decisions depend on, and the decisions, in a file in this directory.",
)
@click.option("--record-anonymized", is_flag=True, help="Replace all names in the recording.")
@click.option(
    "--suggestions",
    type=click.Choice(("event", "annotation", "simulator-annotations")),
    multiple=True,
    help="Write what would make a pending pod schedulable, as an event or an annotation of the pod, or write decisions "
    "as the annotations of kube-scheduler-simulator. Can be repeated. Annotations need `mooring rbac --annotations`.",
)
@click.option(
    "--tracing-endpoint",
    default="",
    metavar="URL",
    help="Send OpenTelemetry traces of attempts to this OTLP collector (HTTP), such as http://collector:4318.",
)
@click.option(
    "--tracing-sampling-rate-per-million",
    type=int,
    default=1_000_000,
    show_default=True,
    help="The number of attempts of each million that are traced.",
)
@click.pass_context
def run(
    ctx: click.Context,
    /,
    requested: Requested,
    context: str,
    no_reload: bool,
    dashboard: bool,
    seed: int | None,
    record_folder: str | None,
    record_anonymized: bool,
    suggestions: tuple[str, ...],
    tracing_endpoint: str,
    tracing_sampling_rate_per_million: int,
    **given: Any,
) -> None:
    """Schedule the pods of a cluster.

    Accepts the flags of kube-scheduler, and decides as the release of the API server, or of --emulated-version. Without
    --config, kube-scheduler's default configuration is used. With --scheduler-conf, it runs Volcano's batch sessions,
    as vc-scheduler does. With both, it does both, and the schedulerName of a pod selects which one schedules it. The
    cluster is the first of: the kubeconfig given by flag or configuration, $KUBECONFIG, the pod's service account,
    ~/.kube/config.

    A warning is logged for a flag of kube-scheduler or vc-scheduler that has no effect in Mooring.
    """

    from mooring.cli.flags.scheduler_settings import (
        active_active,
        batch_settings,
        configured,
        emulated_release,
        gate_notes,
        gated_release,
        node_selector_notes,
        plain_endpoints,
        served,
        with_sessions,
        without_cluster,
    )
    from mooring.cli.input_files import read_setup_files
    from mooring.live import LiveScheduler
    from mooring.releases import NEWEST

    start_logging(given)
    named = emulated_release(given["emulated_version"])
    gates = given["feature_gates"]
    warnings = [*notes(ctx), *gate_notes(named, gates), *node_selector_notes(given)]
    serve, plain, batch = served(given), plain_endpoints(given), batch_settings(given)
    log_warnings(warnings)

    def choose(config: SchedulerConfiguration) -> Release:
        """Return the release of --emulated-version or of the API server, with the feature gates."""
        found = named
        if found is None and given["write_config_to"]:
            found = NEWEST
        if found is None:
            if isinstance(ctx.obj, OwnCluster):
                config = without_cluster(config)
            config, _ = configured(config, given, from_file=given["config"] is not None)
            connection = ClusterChoice(config.client_connection.kubeconfig, context)
            found = _server_release(cluster_access(connection, master=given["master"]))
        return gated_release(found, gates)

    setup, files = read_setup_files(given["config"], requested, named or NEWEST, choose=choose)
    config = without_cluster(setup.config) if isinstance(ctx.obj, OwnCluster) else setup.config
    config, ignored = configured(config, given, from_file=given["config"] is not None)
    if given["write_config_to"]:
        _write(config, given["write_config_to"])
        return
    if batch is not None:
        config = with_sessions(config, batch, given)
    if files is not None:
        files.adjust = functools.partial(
            _flagged, given=given, batch=batch, own_cluster=isinstance(ctx.obj, OwnCluster)
        )
    group = active_active(given, config, batch=batch, records=record_folder is not None)
    log_warnings((*ignored, *setup.notes))
    access = cluster_access(ClusterChoice(config.client_connection.kubeconfig, context), master=given["master"])
    rng = random.Random(seed) if seed is not None else None
    recording = _recording(record_folder, setup, config, seed, given, anonymize=record_anonymized)
    tracer = _tracer(tracing_endpoint, tracing_sampling_rate_per_million)
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
        tracer=tracer,
        recording=recording,
        active_active=group,
        suggestions=suggestions,
        extend=functools.partial(_dashboard, own=ctx.obj) if dashboard else None,
    )
    with StopSignals() as signals:
        code = _run_loop(_run(make, access, config.release, given, signals))
    sys.exit(code)


def _recording(
    folder: str | None,
    setup: Setup,
    config: SchedulerConfiguration,
    seed: int | None,
    given: Mapping[str, Any],
    *,
    anonymize: bool,
) -> LiveRecording | None:
    """Return the recording of the flags; None without a folder. Ends the command if it cannot be created."""
    if folder is None:
        return None
    from mooring.live.recording import LiveRecording, plugin_files
    from mooring.recording.records import RecordingError

    try:
        return LiveRecording(
            folder,
            config,
            plugins=plugin_files(setup.catalog),
            seed=seed,
            max_in_unschedulable=given["pod_max_in_unschedulable_pods_duration"] / 1e9,
            anonymize=anonymize,
        )
    except RecordingError as error:
        raise click.ClickException(f"--record {error}") from None


def _dashboard(scheduler: LiveScheduler, own: object) -> list[Extension]:
    """Return the dashboard and the what-if service of a scheduler, which are made for the first client."""
    from mooring.live.endpoints.endpoint_server import LateExtensions

    return [LateExtensions(lambda: _made_dashboard(scheduler, own))]


def _made_dashboard(scheduler: LiveScheduler, own: object) -> list[Extension]:
    from mooring.dashboard.dashboard_routes import Dashboard, DashboardSource
    from mooring.dashboard.what_if_service import WhatIfService
    from mooring.live.informers import KINDS
    from mooring.loading import Setup

    engine = scheduler.engine

    def setup() -> Setup:
        return Setup(
            engine.profiles.config, scheduler.reloader.setup.catalog if scheduler.reloader else scheduler.catalog
        )

    @functools.cache
    def worker() -> WhatIfWorker:
        """Return the worker. Simulations are imported with the first question, which makes a start faster."""
        from mooring.dashboard.what_if_worker import WhatIfWorker

        return WhatIfWorker(setup)

    def objects() -> list[KubeObject]:
        from mooring.simulation.what_if_question import objects_of

        return objects_of(engine, source.kinds())

    source = DashboardSource(
        engine=scheduler.engine,
        config=lambda: scheduler.engine.profiles.config,
        plugins=scheduler.plugin_rows,
        reloader=lambda: scheduler.reloader,
        gangs=scheduler.batch,
        what_if=lambda body, read: worker().answer(body, read),
        kinds=lambda: (*KINDS, *engine.profiles.kinds),
    )
    made = Dashboard(source)
    if isinstance(own, OwnCluster) and own.link_token:
        made.sessions.create_link_token(own.bearer, token=own.link_token)
    service = WhatIfService(objects, setup)
    return [made, service]


def _tracer(endpoint: str, per_million: int) -> AttemptTracer | None:
    """Return the tracer of the flags; None without an endpoint. Ends the command if it cannot be created."""
    if not endpoint:
        return None
    from mooring.observe.tracing import TracingError, make_tracer

    try:
        return make_tracer(endpoint, per_million=per_million)
    except TracingError as error:
        raise click.ClickException(str(error)) from None


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


def _server_release(access: Access) -> Release:
    """Return the release that emulates the API server; wait until it answers. Ends the command if it is stopped."""
    from mooring.kube import Backoff, Client, KubeError
    from mooring.logs import get_logger
    from mooring.releases import NEWEST, release_for_server

    found: list[int | None] = []

    async def ask() -> None:
        backoff = Backoff()
        async with Client(access) as client:
            while not found:
                try:
                    found.append(await client.server_minor())
                    client.failures.succeeded("version")
                except KubeError as error:
                    client.failures.failed("version", error)
                    await asyncio.sleep(backoff.next())

    async def run(signals: StopSignals) -> int:
        return await run_until_stopped(ask(), signals)

    with StopSignals() as signals:
        code = asyncio.run(run(signals))
    if not found:
        sys.exit(code)
    (minor,) = found
    release = NEWEST if minor is None else release_for_server(minor)
    if release.version != f"1.{minor}":
        version = "of unknown version" if minor is None else f"1.{minor}"
        get_logger("mooring").warning(
            f"The API server is {version}, which Mooring does not emulate; it decides as kube-scheduler "
            f"{release.version}. --emulated-version sets another release"
        )
    return release


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


def _emulation(release: Release) -> dict[str, str]:
    """Return the fields of the log that tell which release is emulated."""
    gates = ",".join(f"{name}={str(value).lower()}" for name, value in sorted(release.gate_changes.items()))
    return {
        "emulatedVersion": release.version,
        "decidesAs": release.reference,
        **({"featureGates": gates} if gates else {}),
    }


async def _run(
    make: Callable[[], LiveScheduler],
    access: Access,
    release: Release,
    given: Mapping[str, Any],
    signals: StopSignals,
) -> int:
    from mooring.config import ConfigError
    from mooring.live.endpoints.endpoint_server import ServerError
    from mooring.logs import get_logger
    from mooring.scheduler.profile import ProfileError

    log = get_logger("mooring")
    log_start("Starting Mooring", access, version=__version__, **_emulation(release))
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
