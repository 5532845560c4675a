"""Keeps up with all objects of a kind: list them, watch them, and list again when the thread is lost.

Whatever happens in between (the server restarts, the watch breaks or expires, a list is cut off), the handler is told
each change once and in order, because every sight of an object is compared with what was known.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from mooring.api import KubeObject
from mooring.kube.api_resources import Resource, resource_of
from mooring.kube.client_errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from mooring.kube.decoding import INITIAL_EVENTS_END, WatchEvent, decode_line
from mooring.kube.object_store import Change, ObjectStore
from mooring.kube.rest import PAGE_SIZE, Client, query
from mooring.kube.retry_backoff import Backoff

ObjectT = TypeVar("ObjectT", bound=KubeObject)
#: A watch is asked to end after so long and up to as long again, so that not all end together.
_WATCH_SECONDS: Final = 300
#: A watch that ends sooner than this without a word was not worth opening: wait before the next.
_SHORT_SECONDS: Final = 1.0
#: After so many lists that expired half-way, one is read in one piece.
_EXPIRED_LISTS: Final = 2

log: Final = structlog.get_logger(__name__)


class Reflector(Generic[ObjectT]):
    """Tells `on_changes` of every change to the selected objects, those that exist at the start included.

    Run `run()` as a task and cancel it to stop. `on_changes` is called in the event loop with a batch of changes; what
    it raises ends `run()`. `synced` is set once everything that existed at the start was told. With `stream_lists` the
    objects come as a stream instead of pages, where the server can do that.
    """

    def __init__(
        self,
        client: Client,
        kind: "type[ObjectT] | Resource[ObjectT]",
        on_changes: Callable[[list[Change[ObjectT]]], None],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        stream_lists: bool = False,
        page_size: int = PAGE_SIZE,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._selection = Selection(resource_of(kind), namespace, labels, fields)
        self._on_changes = on_changes
        self._stream_lists = stream_lists
        self._page_size = page_size
        self._backoff = backoff or Backoff(random=client.random)
        self._clock = clock
        self._known: ObjectStore[ObjectT] = ObjectStore(namespaced=self._selection.resource.namespaced)
        self._version = ""
        self._expired_lists = 0
        #: Set once all that existed at the start was told.
        self.synced = asyncio.Event()
        #: What went wrong last, until something goes well again; for health checks and messages.
        self.last_error: KubeError | None = None

    @property
    def objects(self) -> Mapping[str, ObjectT]:
        """All objects as last told, by `namespace/name` (or name). A live view."""
        return self._known.objects

    @property
    def version(self) -> str:
        """The version up to which changes were told; empty while a list is due."""
        return self._version

    async def run(self) -> None:
        """Keep up until cancelled."""
        while True:
            try:
                if not self._version and not self._stream_lists:
                    await self._list()
                fruitful = await self._follow()
            except KubeError as error:
                await self._recover(error)
            else:
                if not fruitful:
                    await asyncio.sleep(self._backoff.next())

    async def _list(self) -> None:
        selection = self._selection
        limit = self._page_size if self._expired_lists < _EXPIRED_LISTS else 0
        self._known.begin()
        version = ""
        pages = self._client.pages(
            selection.resource,
            namespace=selection.namespace,
            labels=selection.labels,
            fields=selection.fields,
            limit=limit,
        )
        try:
            async with contextlib.aclosing(pages):
                with self._client.collector:
                    async for page in pages:
                        self._tell(self._known.show_all(page.items))
                        version = page.resource_version
        except Gone:
            self._expired_lists += 1
            raise
        self._expired_lists = 0
        self._finish_list(version)

    def _finish_list(self, version: str) -> None:
        self._tell(self._known.end())
        self._version = version
        if not self.synced.is_set():
            log.debug("all objects read", kind=str(self._selection.resource), count=len(self._known.objects))
        self.synced.set()

    async def _follow(self) -> bool:
        """Watch until the server ends it. False if that came too soon and without a word."""
        begun = self._clock()
        heard = False
        listing = not self._version
        if listing:
            self._known.begin()
        seconds = _WATCH_SECONDS + self._client.random.randrange(_WATCH_SECONDS)
        stream = watch(self._client, self._selection, version=self._version, seconds=seconds, initial=listing)
        async with contextlib.aclosing(stream) as batches:
            with self._client.collector if listing else contextlib.nullcontext():
                if listing:
                    async for batch in batches:
                        heard = heard or bool(batch)
                        self._take(batch)
                        if self._version:
                            break
            async for batch in batches:
                if batch:
                    heard = True
                    self._take(batch)
                    self._backoff.reset()
                self.last_error = None
        return heard or self._clock() - begun >= _SHORT_SECONDS

    def _take(self, batch: list[WatchEvent[ObjectT]]) -> None:
        changes: list[Change[ObjectT]] = []
        version = self._version
        for event in batch:
            if event.type == "BOOKMARK":
                if not version and _ends_list(event):
                    self._tell(changes)
                    changes = []
                    self._finish_list(event.version)
                    version = self._version
            elif event.object is None:
                pass
            elif event.type == "DELETED":
                self._known.remove(event.object, changes)
            else:
                self._known.show(event.object, changes)
            if version and event.version:
                version = event.version
        self._tell(changes)
        self._version = version

    def _tell(self, changes: list[Change[ObjectT]]) -> None:
        if changes:
            self._on_changes(changes)

    async def _recover(self, error: KubeError) -> None:
        """Decide where to go on after an error, and wait before doing so."""
        self.last_error = error
        if not self._version and self._stream_lists and isinstance(error, BadRequest | Invalid):
            log.debug("the server does not stream lists; reading them in pages", kind=str(self._selection.resource))
            self._stream_lists = False
            return
        if _loses_the_thread(error):
            self._version = ""
        first = self._backoff.tries == 0
        delay = self._backoff.next()
        if isinstance(error, TooManyRequests):
            delay = max(delay, error.retry_after or 0.0)
        if isinstance(error, Gone) and first:
            # To be expected after a long break, and no reason to wait; unless it happens again at once.
            delay = 0.0
        tell = log.info if isinstance(error, Gone) else log.warning
        tell("keeping up is interrupted", kind=str(self._selection.resource), error=str(error), seconds=round(delay, 2))
        await asyncio.sleep(delay)


def _ends_list(event: WatchEvent[ObjectT]) -> bool:
    return event.object is not None and event.object.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


def _loses_the_thread(error: KubeError) -> bool:
    """Whether the server cannot go on from the version we had, so that only a new list helps."""
    if isinstance(error, Gone):
        return True
    if not isinstance(error, ApiError):
        return False
    if "ResourceVersionTooLarge" in error.causes:
        return True
    return error.status < 500 and not isinstance(error, Unauthorized | Forbidden | NotFound | TooManyRequests)


@dataclass(frozen=True)
class Selection(Generic[ObjectT]):
    """Which objects of a kind are meant: of one namespace or all, chosen by selectors in Kubernetes' syntax."""

    resource: Resource[ObjectT]
    namespace: str = ""
    labels: str = ""
    fields: str = ""


async def watch(
    client: Client, selection: Selection[ObjectT], *, version: str, seconds: int, initial: bool = False
) -> AsyncGenerator[list[WatchEvent[ObjectT]], None]:
    """Follow changes after `version`, in batches, until the server ends it, which it should do after `seconds`.

    The first batch is empty: the server follows, though nothing may change for long. With `initial`, all objects there
    are come next, and then a bookmark that says so. Raises what the server ends it
    with (Gone above all), ConnectionFailed, and OutcomeUnknown where the connection broke. Close it when done.
    """
    target = selection.resource.path(namespace=selection.namespace) + query(
        watch="true",
        allowWatchBookmarks="true",
        resourceVersion=version,
        timeoutSeconds=seconds,
        labelSelector=selection.labels,
        fieldSelector=selection.fields,
        **({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"} if initial else {}),
    )
    await client.admit()
    async with client.stream(target) as chunks:
        yield []
        rest = b""
        async for chunk in chunks.iter_any():
            lines = (rest + chunk).split(b"\n")
            # What follows the last line break is not complete yet. At the end it is dropped: it will be sent again.
            rest = lines.pop()
            batch: list[WatchEvent[ObjectT]] = []
            for line in lines:
                if not line.strip():
                    continue
                event = decode_line(line, selection.resource)
                if isinstance(event, ApiError):
                    if batch:
                        yield batch
                    raise event
                batch.append(event)
            if batch:
                yield batch
