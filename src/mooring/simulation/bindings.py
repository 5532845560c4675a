"""Bindings: the binding cycles of an offline run. A binding succeeds at once, unless the pod waits at Permit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine


class Bindings:
    """The binding cycles of an engine that wait at Permit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, tuple[asyncio.Task[FailedAttempt | None], AssumedPod]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def waiting(self) -> list[str]:
        """The pods (namespace/name) that wait at Permit."""
        return [assumed.pod.key for _, assumed in self._waiting.values()]

    def hold(self, assumed: AssumedPod) -> None:
        """Start the binding cycle of a pod that waits at Permit."""
        task = asyncio.get_running_loop().create_task(self._engine.bind(assumed))
        self._waiting[assumed.pod.uid] = (task, assumed)

    async def finished(self) -> AsyncIterator[tuple[AssumedPod, FailedAttempt | None]]:
        """Yield the pods that Permit has allowed or rejected, with None or the failure, until no more are decided."""
        waiting = self._engine.profiles.waiting_pods
        while decided := [uid for uid in self._waiting if (pod := waiting.get(uid)) is None or pod.verdict is not None]:
            for uid in decided:
                task, assumed = self._waiting.pop(uid)
                yield assumed, await task

    def cancel(self) -> None:
        """Cancel the binding cycles that still wait."""
        for task, _ in self._waiting.values():
            task.cancel()
