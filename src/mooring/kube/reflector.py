"""The reflector: lists and watches the objects of a kind, and lists them again when the watch cannot be resumed.

The handler receives each change once and in order, even if the server restarts, the watch breaks or expires, or a list
is cut off, because every observed object is compared with the stored one.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mooring.api import KubeObject
from mooring.kube.api_resources import Resource, resource_of
from mooring.kube.client_errors import (
    ApiError,
    BadAnswer,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from mooring.kube.decoding import INITIAL_EVENTS_END, WatchEvent, decode_lines
from mooring.kube.object_store import Change, ObjectStore, is_newer
from mooring.kube.rest import PAGE_SIZE, Client, query
from mooring.kube.retry_backoff import Backoff
from mooring.logs import get_logger
from mooring.unexpected_errors import error_text, report_unexpected, shortened

ObjectT = TypeVar("ObjectT", bound=KubeObject)
#: The minimum duration of a watch in seconds. A random time up to the same length is added, so that watches do not
#: end at the same time.
_WATCH_SECONDS: Final = 300
#: After a watch that ends sooner than this without an event, wait before the next one.
_SHORT_SECONDS: Final = 1.0
#: The maximum size of a watch event, and of the data that arrives with it. etcd limits objects to 1.5 MiB.
_MAX_LINE: Final = 64 << 20
#: After this many lists in a row that are older than what was observed before, the list counts: etcd was restored from
#: a backup. With the backoff this takes minutes, much longer than an API server lags behind the others.
_OLD_LISTS: Final = 12
#: How many objects of a list are handled before other tasks run.
_SLICE: Final = 500
#: After this many lists that expired between pages, a list is read without pages.
_EXPIRED_LISTS: Final = 2

log: Final = get_logger(__name__)


class WentBack(BadAnswer):
    """A list or watch is older than what was observed before. API servers that lag behind can answer so."""


class Reflector(Generic[ObjectT]):
    """A reflector that calls `on_changes` with every change of the selected objects, including those at the start.

    Run `run()` as a task and cancel it to stop. `on_changes` is called in the event loop with a batch of changes; its
    exceptions are reported. `synced` is set after all objects of the first list were reported. With `stream_lists`,
    lists are streamed instead of read in pages, if the server supports it.
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
        reports_forbidden: bool = True,
        throttle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """With ``reports_forbidden=False``, the caller reports missing permissions.

        ``throttle`` is awaited after each batch of events. While it waits, no events are read from the connection.
        """
        self._client = client
        self._reports_forbidden = reports_forbidden
        self._throttle = throttle
        self._selection = Selection(resource_of(kind), namespace, labels, fields)
        self._on_changes = on_changes
        self._stream_lists = stream_lists
        self._page_size = page_size
        self._backoff = backoff or Backoff(random=client.random)
        self._clock = clock
        self._known: ObjectStore[ObjectT] = ObjectStore(namespaced=self._selection.resource.namespaced)
        self._version = ""
        #: The newest resource version that was observed, and the number of older lists since.
        self._newest = ""
        self._old_lists = 0
        self._expired_lists = 0
        #: Set after all objects of the first list were reported.
        self.synced = asyncio.Event()
        #: The last error, until a request succeeds; for health checks and messages.
        self.last_error: KubeError | None = None

    @property
    def objects(self) -> Mapping[str, ObjectT]:
        """The objects by `namespace/name` (or name), as reported. A live view."""
        return self._known.objects

    @property
    def version(self) -> str:
        """The resource version of the last reported change; empty if a list is needed."""
        return self._version

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._version and not self._stream_lists:
                    await self._list()
                fruitful = await self._follow()
            except KubeError as error:
                await self._recover(error)
            except Exception as error:
                report_unexpected("an informer failed; listing again", error, kind=str(self._selection.resource))
                self._version = ""
                self.last_error = BadAnswer(error_text(error))
                await asyncio.sleep(self._backoff.next())
            else:
                if not fruitful:
                    await asyncio.sleep(self._backoff.next())

    async def _list(self) -> None:
        selection = self._selection
        limit = self._page_size if self._expired_lists < _EXPIRED_LISTS else 0
        self._known.begin(accept_older=self._old_lists >= _OLD_LISTS)
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
                with self._client.relaxed_gc:
                    async for page in pages:
                        self._check_age(page.resource_version)
                        for start in range(0, len(page.items), _SLICE):
                            self._notify(self._known.store_all(page.items[start : start + _SLICE]))
                            await asyncio.sleep(0)  # other tasks run, and the next page is received
                        version = page.resource_version
        except Gone:
            self._expired_lists += 1
            raise
        self._expired_lists = 0
        self._finish_list(version)

    def _check_age(self, version: str) -> None:
        """Raise WentBack if a list is older than what was observed before, as that of a server that lags behind.

        Its objects would be changes back in time: pods on nodes would disappear, and others would get their place.
        """
        if not _is_older(version, self._newest):
            return
        self._old_lists += 1
        error = WentBack(f"the list has the version {shortened(version, 60)}, but {self._newest} was observed before")
        if self._old_lists == _OLD_LISTS:
            log.warning("the API server went back in time; was etcd restored?", kind=str(self._selection.resource))
            self._newest = ""  # the next list counts
        raise error

    def _finish_list(self, version: str) -> None:
        self._check_age(version)
        self._old_lists = 0
        self._notify(self._known.end())
        self._version = self._newest = version
        if not self.synced.is_set():
            log.debug("list complete", kind=str(self._selection.resource), count=len(self._known.objects))
        self.synced.set()

    async def _follow(self) -> bool:
        """Watch until the server ends the watch. Return False if it ended too soon without an event."""
        begun = self._clock()
        heard = False
        listing = not self._version
        if listing:
            self._known.begin(accept_older=self._old_lists >= _OLD_LISTS)
        seconds = _WATCH_SECONDS + self._client.random.randrange(_WATCH_SECONDS)
        stream = watch(self._client, self._selection, version=self._version, seconds=seconds, initial=listing)
        async with contextlib.aclosing(stream) as batches:
            with self._client.relaxed_gc if listing else contextlib.nullcontext():
                if listing:
                    async for batch in batches:
                        heard = heard or bool(batch)
                        self._handle_batch(batch)
                        if self._version:
                            break
            async for batch in batches:
                if batch:
                    heard = True
                    self._handle_batch(batch)
                    self._backoff.reset()
                    if self._throttle is not None:
                        await self._throttle()
                if self.last_error is not None:
                    self.last_error = None
                    self._client.failures.succeeded(str(self._selection.resource))
        return heard or self._clock() - begun >= _SHORT_SECONDS

    def _handle_batch(self, batch: list[WatchEvent[ObjectT]]) -> None:
        changes: list[Change[ObjectT]] = []
        version = self._version
        for kind, found, observed in batch:
            if version and _is_older(observed, version):
                # The events before are valid. A new list tells what happened.
                self._notify(changes)
                self._version = self._newest = version
                raise WentBack(f"a watch went back from the version {version} to {shortened(observed, 60)}")
            if kind == "BOOKMARK":
                if not version and _ends_list(found):
                    self._notify(changes)
                    changes = []
                    self._finish_list(observed)
                    version = self._version
            elif found is None:
                pass
            elif kind == "DELETED":
                self._known.remove(found, changes)
            else:
                self._known.store(found, changes)
            if version and observed:
                version = observed
        self._notify(changes)
        self._version = version
        self._newest = version or self._newest

    def _notify(self, changes: list[Change[ObjectT]]) -> None:
        if changes:
            self._on_changes(changes)

    async def _recover(self, error: KubeError) -> None:
        """Decide how to continue after an error, and wait."""
        self.last_error = error
        if not self._version and self._stream_lists and isinstance(error, BadRequest | Invalid):
            log.debug("the server does not stream lists; reading them in pages", kind=str(self._selection.resource))
            self._stream_lists = False
            return
        if _requires_relist(error):
            self._version = ""
        first = self._backoff.tries == 0
        delay = self._backoff.next()
        if isinstance(error, TooManyRequests):
            delay = max(delay, error.retry_after or 0.0)
        if isinstance(error, Gone) and first:
            # Normal after a long interruption, so wait only if it happens twice in a row.
            delay = 0.0
        if self._reports_forbidden or not isinstance(error, Forbidden):
            self._client.failures.failed(str(self._selection.resource), error)
        await asyncio.sleep(delay)


def _ends_list(bookmark: KubeObject | None) -> bool:
    return bookmark is not None and bookmark.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


def _is_older(version: str, than: str) -> bool:
    """Return whether a resource version is older than another. Those that are not numbers cannot be compared."""
    if version >= than and len(version) == len(than):
        return False  # the usual case, whether or not both are numbers
    return version.isdecimal() and than.isdecimal() and is_newer(than, version)


def _requires_relist(error: KubeError) -> bool:
    """Return whether the watch cannot be resumed and a new list is needed."""
    if isinstance(error, Gone | WentBack):
        return True
    if not isinstance(error, ApiError):
        return False
    if "ResourceVersionTooLarge" in error.causes:
        return True
    return error.status < 500 and not isinstance(error, Unauthorized | Forbidden | NotFound | TooManyRequests)


@dataclass(frozen=True)
class Selection(Generic[ObjectT]):
    """A selection of objects of a kind: in one namespace or all, by label and field selectors."""

    resource: Resource[ObjectT]
    namespace: str = ""
    labels: str = ""
    fields: str = ""


async def watch(
    client: Client, selection: Selection[ObjectT], *, version: str, seconds: int, initial: bool = False
) -> AsyncGenerator[list[WatchEvent[ObjectT]], None]:
    """Yield batches of changes after `version` until the server ends the watch, normally after `seconds`.

    The first batch is empty and means that the watch is open. With `initial`, all existing objects follow, and then a
    bookmark. Raises the error of the server (usually Gone), ConnectionFailed, or OutcomeUnknown if the connection
    broke. Close the generator after use.
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
        # The text after the last line break is incomplete. At the end it is dropped: the server sends it again.
        rest, parts, size = b"", [], 0
        async for chunk in chunks.iter_any():
            parts.append(chunk)
            size += len(chunk)
            if size > _MAX_LINE:
                raise BadAnswer(f"a watch of {selection.resource} sent a line of more than {_MAX_LINE >> 20} MiB")
            if b"\n" not in chunk:
                continue
            lines = b"".join(parts).split(b"\n")
            rest = lines.pop()
            parts, size = [rest], len(rest)
            batch, ended = decode_lines(lines, selection.resource, client.on_invalid)
            if batch:
                yield batch
            if ended is not None:
                raise ended
        rest = b"".join(parts)
        if rest.strip() and not rest.lstrip().startswith(b"{"):
            raise BadAnswer(f"a watch of {selection.resource} is not a stream of JSON but {rest[:60]!r}")
