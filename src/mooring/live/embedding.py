"""Scheduler: run Mooring inside another asyncio program.

It does what `mooring run` does without changing the process: it does not handle SIGINT and SIGTERM, does not configure
logging, and changes the garbage collector's thresholds only while it reads lists. On the main thread it handles SIGURG,
unless the program does, to interrupt plugins that hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import msgspec

from mooring.config import ConfigError, SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.kube import Access, AccessError, LostLeaseError, load_access
from mooring.live.endpoints.endpoint_server import ServerError, ServerSettings
from mooring.live.endpoints.plugin_status import plugin_status
from mooring.live.scheduler import LiveScheduler
from mooring.loading import PluginLoadError, Requested, Setup, find_plugins
from mooring.loading.plugin_rows import PluginRow
from mooring.loading.setup_files import SetupFiles
from mooring.observe.explanation import Explanation
from mooring.releases import Release, ReleaseError, release_named
from mooring.scheduler.pod_explanation import explain
from mooring.scheduler.profile import ProfileError


class SchedulerError(Exception):
    """An error that prevents the start of the scheduler or ends it. The message names the problem and the remedy."""


class Scheduler:
    """A scheduler for the pods of a cluster, in the process that creates it.

    As a context manager::

        async with Scheduler(config="scheduler.yaml", custom_plugin_files={"NodeNumber": "nodenumber.py"}) as scheduler:
            await scheduler.ready()
            ...

    or with ``await scheduler.run()``, until it is cancelled or stopped. An object can run only once.
    """

    def __init__(
        self,
        config: str | Path | SchedulerConfiguration | None = None,
        *,
        kubeconfig: str | Path = "",
        master: str = "",
        access: Access | None = None,
        custom_plugin_files: Mapping[str, str | Path] | None = None,
        plugins: Mapping[str, type[Plugin]] | None = None,
        plugins_dir: str | Path | None = None,
        leader_elect: bool | None = None,
        reload: bool = True,
        serve: ServerSettings | None = None,
        seed: int | None = None,
        emulated_version: str = "",
    ) -> None:
        """Read and check the configuration and the plugins, without connecting. Raises SchedulerError.

        ``config`` is a file (KubeSchedulerConfiguration) or a configuration. Without one, the default configuration is
        used, and the given plugins are enabled at all their points. The cluster is found as `mooring run` finds it, or
        given as ``access``. If ``config`` and plugins are files, they are reloaded when they change, unless ``reload``
        is False. ``serve`` configures the endpoints (health, metrics, decisions); by default they are not served.
        ``emulated_version`` is the release of kube-scheduler to emulate, such as ``1.36``; by default the newest.
        """
        try:
            named = tuple((name, Path(path)) for name, path in (custom_plugin_files or {}).items())
            folders = () if plugins_dir is None else (Path(plugins_dir),)
            requested = Requested(named, folders, classes=tuple((plugins or {}).items()))
            setup, files = _setup(config, requested, leader_elect, release_named(emulated_version))
            #: The initial configuration.
            self.config = setup.config
            if access is None:
                found = str(kubeconfig) or self.config.client_connection.kubeconfig
                access = load_access(kubeconfig=found, master=master)
            rng = None if seed is None else random.Random(seed)
            self._live = LiveScheduler(
                self.config,
                access,
                catalog=setup.catalog,
                rng=rng,
                serve=serve,
                whole_process=False,
                files=files,
                reload=reload,
            )
        except ConfigError as error:
            raise SchedulerError("\n".join(error.lines())) from None
        except (AccessError, PluginLoadError, ProfileError, ReleaseError, ServerError) as error:
            raise SchedulerError(str(error)) from None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The URL of the endpoints once they are served; empty if they are not."""
        server = self._live.server
        return server.url if server is not None and server.port else ""

    async def run(self) -> None:
        """Schedule until cancelled or stopped. Raises SchedulerError, also if another scheduler acquires the lease."""
        self.start()
        assert self._task is not None  # start has created it
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if not self._task.done():  # this coroutine was cancelled, not the scheduler
                await self.stop()
                raise
        await self.stop()

    def start(self) -> None:
        """Start a task in the running loop; `run` and ``async with`` call this."""
        if self._task is not None:
            raise SchedulerError("this Scheduler was already started; create another one")
        self._task = asyncio.get_running_loop().create_task(self._live.run(), name="mooring")

    async def ready(self) -> None:
        """Wait until the caches are synced and, with leader election, this instance leads. Raises SchedulerError."""
        task = self._started()
        waiter = asyncio.ensure_future(self._live.ready.wait())
        try:
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            if not self._live.ready.is_set():
                await self.stop()
                raise SchedulerError("the scheduler was stopped before it was ready")
        finally:
            waiter.cancel()

    async def stop(self) -> None:
        """Stop when work in progress is done. Raises SchedulerError if the scheduler has failed before."""
        task = self._started()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await asyncio.shield(task)
            except (LostLeaseError, ServerError) as error:
                raise SchedulerError(str(error)) from None

    def explain(self, pod: str) -> Explanation | None:
        """Return why a pod (``namespace/name``) was placed or is pending; None if the pod is unknown."""
        return explain(self._live.engine, pod)

    def plugins(self) -> list[PluginRow]:
        """Return the status of the plugins, as `mooring plugin list` shows it."""
        live = self._live
        return plugin_status(live.engine, live.catalog, live.reloader, live.batch)

    async def __aenter__(self) -> Scheduler:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.stop()
        except SchedulerError:
            if error is None:  # otherwise the program's own error is raised
                raise

    def _started(self) -> asyncio.Task[None]:
        if self._task is None:
            raise SchedulerError("the Scheduler was not started: use `async with`, run() or start() first")
        return self._task


def _setup(
    config: str | Path | SchedulerConfiguration | None,
    requested: Requested,
    leader_elect: bool | None,
    release: Release,
) -> tuple[Setup, SetupFiles | None]:
    """Return the configuration and its plugins, and the files to reload if there are any."""

    def adjust(read: SchedulerConfiguration) -> SchedulerConfiguration:
        if leader_elect is None:
            return read
        election = msgspec.structs.replace(read.leader_election, leader_elect=leader_elect)
        return msgspec.structs.replace(read, leader_election=election)

    if isinstance(config, SchedulerConfiguration):
        return Setup(adjust(config), find_plugins(requested)), None
    files = SetupFiles(Path(config) if config is not None else None, requested, adjust=adjust, release=release)
    return files.load(), files
