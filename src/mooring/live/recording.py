"""The recording of a running scheduler, and the recorder of a cluster that another scheduler runs."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring import __version__
from mooring.api.meta import KubeObject
from mooring.api.workloads import DaemonSet, Deployment, Job
from mooring.config import SchedulerConfiguration, written
from mooring.framework.custom_resources import event_name
from mooring.kube import Change, Client, Forbidden, KubeError, NotFound, Reflector
from mooring.live.informers import DEVICE_KINDS, KINDS
from mooring.loading import Catalog
from mooring.recording.anonymize import Anonymizer
from mooring.recording.recording_file import SUFFIX, RecordingWriter
from mooring.recording.records import Header, Kind, PluginFile, RecordingError, redacted
from mooring.scheduler.recorded_engine import Recorder

#: How often the last records are written.
_FLUSH_SECONDS: Final = 1.0
#: Workloads that what-if scales; decisions do not depend on them.
WORKLOAD_KINDS: Final[tuple[type[KubeObject], ...]] = (Deployment, DaemonSet, Job)
#: The kinds besides those of the scheduler that `mooring record` watches, if the cluster has them and they may be read.
OPTIONAL_KINDS: Final[tuple[type[KubeObject], ...]] = (*DEVICE_KINDS, *WORKLOAD_KINDS)


def header_of(
    config: SchedulerConfiguration,
    *,
    source: str,
    seed: int | None = None,
    plugins: tuple[PluginFile, ...] = (),
    max_in_unschedulable: float = 300.0,
    anonymized: bool = False,
) -> Header:
    """Return the header of a recording."""
    document = written(config)
    for extender in document.get("extenders", ()):
        extender.pop("tlsConfig", None)  # it may contain a private key
    return Header(
        source=source,
        mooring=__version__,
        config=document,
        tie_break=config.tie_break,
        release=config.release.version,
        gates=dict(config.release.gate_changes),
        seed=seed,
        max_in_unschedulable=max_in_unschedulable,
        plugins=plugins,
        anonymized=anonymized,
    )


def plugin_files(catalog: Catalog) -> tuple[PluginFile, ...]:
    """Return the plugins of a catalog with the hashes of their files."""
    return tuple(PluginFile(each.name, each.sha256) for each in catalog.found.values())


class LiveRecording:
    """The recording of a `LiveScheduler`. Each process writes its own file, because a replay starts empty."""

    def __init__(
        self,
        folder: str | Path,
        config: SchedulerConfiguration,
        *,
        plugins: tuple[PluginFile, ...] = (),
        seed: int | None = None,
        max_in_unschedulable: float = 300.0,
        clock: Callable[[], float] = time.time,
        anonymize: bool = False,
    ) -> None:
        """Create a file in the folder. Raises RecordingError."""
        self._seed = seed if seed is not None else random.SystemRandom().getrandbits(53)
        self._max_in_unschedulable = max_in_unschedulable
        self._clock = clock
        #: The random numbers of the scheduler.
        self.rng = random.Random(self._seed)
        started = clock()
        header = self.describe(config, plugins=lambda: plugins)
        anonymizer = Anonymizer() if anonymize else None
        if anonymizer is not None:
            header = msgspec.structs.replace(header, anonymized=True)
        self.writer = writer = RecordingWriter(_new_file(Path(folder), started), header, time=started)
        self.inputs = Recorder(
            writer.add if anonymizer is None else lambda record: writer.add(anonymizer.record(record)),
            clock,
            started=started,
        )

    def describe(self, config: SchedulerConfiguration, *, plugins: Callable[[], tuple[PluginFile, ...]]) -> Header:
        """Return the header for a configuration."""
        return header_of(
            config,
            source="mooring run",
            seed=self._seed,
            plugins=plugins(),
            max_in_unschedulable=self._max_in_unschedulable,
        )

    def synced(self) -> None:
        """Record that all objects that existed at the start are recorded."""
        self.writer.add((Kind.SYNCED, self.inputs.step()))

    async def run(self) -> None:
        """Write the last records every second until cancelled."""
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            self.writer.flush_after(self._clock())

    def close(self) -> None:
        """Write the last records."""
        self.writer.close()


def _new_file(folder: Path, now: float) -> Path:
    """Return a new name in a folder, which is created. Raises RecordingError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordingError(f"{folder}: {error.strerror or error}") from None
    stem = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    names = (f"{stem}{'' if number == 0 else f'-{number}'}{SUFFIX}" for number in range(1000))
    return next(path for name in names if not (path := folder / name).exists())


async def is_readable(client: Client, kind: type[KubeObject]) -> bool:
    """Return whether a cluster has a kind and it may be read."""
    try:
        async with contextlib.aclosing(client.pages(kind, limit=1)) as pages:
            await anext(pages)
    except (NotFound, Forbidden):
        return False
    except KubeError:
        pass  # a reflector tries again
    return True


class WatchRecorder:
    """Records the objects of a cluster from watches, with the rights to list and watch them."""

    def __init__(
        self,
        client: Client,
        writer: RecordingWriter,
        *,
        extra: Iterable[type[KubeObject]] = (),
        clock: Callable[[], float] = time.time,
        anonymizer: Anonymizer | None = None,
    ) -> None:
        """``extra`` contains the kinds that plugins read. Those, and OPTIONAL_KINDS, may be missing on the cluster."""
        #: Set when all objects that existed at the start are recorded.
        self.synced = asyncio.Event()
        self._client = client
        self._writer = writer
        self._clock = clock
        self._anonymizer = anonymizer
        self._reflectors: Mapping[type[KubeObject], Reflector[Any]] = {
            kind: Reflector(client, kind, self._changed) for kind in KINDS
        }
        self._optional: Mapping[type[KubeObject], Reflector[Any]] = {
            kind: Reflector(client, kind, self._changed, reports_forbidden=False)
            for kind in dict.fromkeys((*OPTIONAL_KINDS, *extra))
        }

    async def run(self, seconds: float | None = None) -> None:
        """Record until cancelled, or for a number of seconds after the first lists."""
        readable = await asyncio.gather(*(is_readable(self._client, kind) for kind in self._optional))
        optional = [each for each, may in zip(self._optional.items(), readable, strict=True) if may]
        tasks = [
            asyncio.get_running_loop().create_task(reflector.run(), name=f"watch {kind.__name__}")
            for kind, reflector in (*optional, *self._reflectors.items())
        ]
        try:
            for _, reflector in optional:
                await reflector.synced.wait()
            for reflector in self._reflectors.values():
                await reflector.synced.wait()
            self._writer.add((Kind.SYNCED, self._clock()))
            self.synced.set()
            end = None if seconds is None else self._clock() + seconds
            while end is None or self._clock() < end:
                left = _FLUSH_SECONDS if end is None else min(_FLUSH_SECONDS, max(0.0, end - self._clock()))
                await asyncio.sleep(left)
                self._writer.flush_after(self._clock())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._writer.close()

    def missing(self) -> list[str]:
        """Return the optional kinds that could not be read."""
        return [kind.__name__ for kind, reflector in self._optional.items() if not reflector.synced.is_set()]

    def _changed(self, changes: list[Change[Any]]) -> None:
        add, now = self._writer.add, self._clock()
        for old, new in changes:
            item = new if new is not None else old
            if item is None:
                continue
            record = (Kind.PUT if new is not None else Kind.REMOVE, now, event_name(type(item)), redacted(item))
            add(record if self._anonymizer is None else self._anonymizer.record(record))
