"""The observer, which records when each pod is bound, with the same lightweight watch for every contender."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec

from bench.live.server import Server

#: Requests only the metadata of pods.
_ACCEPT: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#: A pod enters this selection when it is bound.
_BOUND: Final = "spec.nodeName!="


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Event(msgspec.Struct):
    type: str
    object: _Object


_DECODER: Final = msgspec.json.Decoder(_Event)


class WatchError(Exception):
    """An error: the watch ended before all pods were observed."""


class Observer:
    """A recorder of bind times. `times` has the time of each pod by namespace and name."""

    def __init__(self, version: str = "0", clock: Callable[[], float] = time.monotonic) -> None:
        #: The resource version of the last event.
        self.version = version
        #: The number of times the server closed the watch, as it does with slow clients.
        self.reopened = 0
        self._clock = clock
        self._rest = b""
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self.times: dict[tuple[str, str], float] = {}

    def feed(self, data: bytes) -> None:
        """Process a part of the response. It may end within a line."""
        now = self._clock()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = _DECODER.decode(line)
            if event.type == "ERROR":
                raise WatchError(f"the watch ended: {line[:300].decode(errors='replace')}")
            meta = event.object.metadata
            self.version = meta.resource_version
            if event.type == "ADDED":
                self.times.setdefault((meta.namespace, meta.name), now)
        self._changed.set()

    def reopen(self) -> None:
        """Discard an incomplete line, because the watch restarts after the last complete event."""
        self._rest = b""
        self.reopened += 1

    def fail(self, error: Exception) -> None:
        """Mark the watch as ended and wake the waiting tasks."""
        self._failure = error
        self._changed.set()

    async def wait(self, count: int, *, patience: float) -> bool:
        """Wait until a number of pods are bound. Return False if no pod is bound for `patience` seconds."""
        while (before := len(self.times)) < count:
            try:
                async with asyncio.timeout(patience):
                    await self._next()
            except TimeoutError:
                if len(self.times) == before:
                    return False
        return True

    async def wait_for(self, namespace: str, name: str, *, patience: float) -> float:
        """Wait until a pod is bound, and return the time."""
        async with asyncio.timeout(patience):
            while (found := self.times.get((namespace, name))) is None:
                await self._next()
        return found

    async def _next(self) -> None:
        if self._failure is not None:
            raise WatchError(f"the watch ended: {self._failure}") from self._failure
        self._changed.clear()
        await self._changed.wait()


@asynccontextmanager
async def observing(server: Server) -> AsyncIterator[Observer]:
    """Start the watch. Pods that are already bound are not counted."""
    observer = Observer(await server.version("/api/v1/pods"))
    opened = asyncio.Event()
    task = asyncio.create_task(_watch(server, observer, opened))
    await opened.wait()
    try:
        yield observer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _watch(server: Server, observer: Observer, opened: asyncio.Event) -> None:
    try:
        while True:
            query = {"watch": "1", "fieldSelector": _BOUND, "resourceVersion": observer.version}
            async with server.session.get("/api/v1/pods", params=query, headers={"Accept": _ACCEPT}) as answer:
                answer.raise_for_status()
                opened.set()
                async for data in answer.content.iter_any():
                    observer.feed(data)
            observer.reopen()
    except (OSError, aiohttp.ClientError, WatchError, msgspec.DecodeError) as error:
        observer.fail(error)
    finally:
        opened.set()
