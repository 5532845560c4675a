"""LiveShadow: watches a cluster and judges the decisions of its scheduler. It writes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.kube import Change, Client, Reflector
from mooring.live.batch.batch_settings import BatchSettings
from mooring.live.batch.device_config_reader import DeviceConfigReader
from mooring.live.batch.session_shadow import SessionShadow
from mooring.live.informers import KINDS, UNFINISHED
from mooring.live.recording import is_readable
from mooring.scheduler.shadow import Judgement, Shadow
from mooring.unexpected_errors import report_unexpected

#: How long a change waits until it is judged, so that the changes after it are known.
_DELAY_SECONDS: Final = 2.0
#: How often changes are judged.
_STEP_SECONDS: Final = 0.2


class LiveShadow:
    """A shadow of the scheduler of a cluster."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        client: Client,
        *,
        batch: BatchSettings | None = None,
        plugins: Mapping[str, type[Plugin]] | None = None,
        report: Callable[[Judgement], None],
        delay: float = _DELAY_SECONDS,
    ) -> None:
        """With ``batch``, sessions of Volcano are judged too. Raises ConfigError."""
        self._client = client
        self._delay = delay
        #: The judge.
        self.shadow = (
            Shadow(config, plugins=plugins, report=report, clock=time.time)
            if batch is None
            else SessionShadow(config, batch, plugins=plugins, report=report, clock=time.time)
        )
        #: Set when all objects that existed at the start are known.
        self.synced = asyncio.Event()
        required = [kind for kind in KINDS if kind is not Pod]
        self._required: Mapping[type[KubeObject], Reflector[Any]] = {
            kind: Reflector(client, kind, self._changed) for kind in required
        }
        self._optional: Mapping[type[KubeObject], Reflector[Any]] = {
            kind: Reflector(client, kind, self._changed, reports_forbidden=False)
            for kind in self.shadow.kinds
            if kind not in KINDS
        }
        fields = "" if self.shadow.needs_finished_pods else UNFINISHED
        self._pods = Reflector(client, Pod, self._changed, fields=fields)

    def _changed(self, changes: list[Change[Any]]) -> None:
        now = time.monotonic()
        for old, new in changes:
            try:
                if self.synced.is_set():
                    self.shadow.changed(old, new, now)
                else:
                    self.shadow.start_with(old, new)
            except Exception as error:
                report_unexpected("an object cannot be applied and is ignored", error)

    async def run(self, *, seconds: float | None = None, pods: int | None = None) -> None:
        """Judge until cancelled, for a number of seconds, or until a number of placements are judged."""
        tasks: list[asyncio.Task[None]] = []

        def start(kind: type[KubeObject], reflector: Reflector[Any]) -> None:
            tasks.append(asyncio.get_running_loop().create_task(reflector.run(), name=f"watch {kind.__name__}"))

        try:
            if isinstance(self.shadow, SessionShadow):
                shadow = self.shadow
                await DeviceConfigReader(self._client, lambda: shadow.conf, shadow.use_device_config).read()
            for kind, reflector in self._optional.items():
                if await is_readable(self._client, kind):
                    start(kind, reflector)
                    await reflector.synced.wait()
            for kind, reflector in self._required.items():
                start(kind, reflector)
            start(Pod, self._pods)
            for reflector in (*self._required.values(), self._pods):
                await reflector.synced.wait()
            self.synced.set()
            end = None if seconds is None else time.monotonic() + seconds
            while (end is None or time.monotonic() < end) and (pods is None or self.shadow.judged < pods):
                await asyncio.sleep(_STEP_SECONDS)
                self.shadow.judge(time.monotonic() - self._delay)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.shadow.judge(float("inf"))
