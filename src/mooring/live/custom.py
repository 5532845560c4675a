"""Informers for the kinds that plugins declare: custom resources that may not exist yet, and kinds only a plugin reads.

If the cluster does not serve a custom resource, the scheduler logs that once, the lister stays empty, and objects are
read as soon as the kind is served. A plugin that is loaded later has its own classes; an informer whose class no plugin
uses any more is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container, Iterable
from typing import Any

import structlog

from mooring.api.meta import KubeObject
from mooring.framework.custom_resources import CustomResource
from mooring.kube import Backoff, Change, Client, Forbidden, KubeError, NotFound, Reflector, Resource, resource_of

log = structlog.get_logger("mooring.live")

#: How often a kind that is not served, or cannot be read, is looked at again.
_LOOK_SECONDS = 2.0


class CustomInformers:
    """Informers of the additional kinds that plugins read."""

    def __init__(
        self,
        client: Client,
        apply: Callable[[list[Change[Any]]], None],
        *,
        known: Container[type[KubeObject]],
        drop: Callable[[type[KubeObject]], None],
        hint: Callable[[str], str] | None = None,
    ) -> None:
        """``apply`` takes changes, ``known`` are kinds that are read anyway, ``drop`` forgets a kind's objects.

        ``hint`` says what it means that a kind is not served.
        """
        self._hint = hint or _plugin_hint
        self._client = client
        self._apply = apply
        self._known = known
        self._drop = drop
        self._tasks: asyncio.TaskGroup
        self._informers: dict[type[KubeObject], tuple[Informer, asyncio.Task[None]]] = {}

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Where the informers are to run."""
        self._tasks = tasks

    async def watch(self, kinds: Iterable[type[KubeObject]]) -> None:
        """Read these kinds too, from now on; returns when all that exists was seen, or the kind is not served."""
        for kind in kinds:
            if kind not in self._informers and kind not in self._known:
                informer = Informer(self._client, resource_for(kind), self._apply, self._hint)
                task = self._tasks.create_task(informer.run(), name=f"watch {kind.__name__}")
                self._informers[kind] = (informer, task)
        for informer, _ in list(self._informers.values()):
            await informer.settled.wait()

    async def retain(self, kinds: Iterable[type[KubeObject]]) -> None:
        """Stop reading all kinds but these."""
        wanted = set(kinds)
        for kind in [kind for kind in self._informers if kind not in wanted]:
            _, task = self._informers.pop(kind)
            await _ended(task)
            self._drop(kind)

    def lagging(self) -> list[str]:
        """The kinds that are served and have not been read yet, or cannot be now."""
        return [kind.__name__ for kind, (informer, _) in self._informers.items() if informer.lags]


class Informer:
    """The informer of one kind, which runs while the kind is served."""

    def __init__(
        self,
        client: Client,
        resource: Resource[Any],
        apply: Callable[[list[Change[Any]]], None],
        hint: Callable[[str], str],
        *,
        labels: str = "",
        fields: str = "",
    ) -> None:
        self._client = client
        self._hint = hint
        self._resource = resource
        self._labels, self._fields = labels, fields
        self._apply = apply
        self._reflector = self._new()
        self._served = True
        self._said: str = ""
        #: Set once the objects were read, or the kind turned out not to be there.
        self.settled = asyncio.Event()

    @property
    def lags(self) -> bool:
        """Whether there is something that was not read, or cannot be now."""
        return self._served and not (self._reflector.synced.is_set() and self._reflector.last_error is None)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            await self._wait_until_served()
            task = asyncio.get_running_loop().create_task(self._reflector.run())
            try:
                await self._follow(task)
            finally:
                await _ended(task)
            self._apply([Change(old, None) for old in self._reflector.objects.values()])
            self._reflector = self._new()

    def _new(self) -> Reflector[Any]:
        return Reflector(
            self._client,
            self._resource,
            self._apply,
            labels=self._labels,
            fields=self._fields,
            backoff=Backoff(cap=5.0, random=self._client.random),
        )

    async def _wait_until_served(self) -> None:
        while True:
            try:
                self._served = await self._client.serves(self._resource)
            except Forbidden:
                self._served = True  # discovery may be forbidden although reading the kind is allowed
            except KubeError as error:
                self._say(f"cannot ask whether {self._resource} is served: {error}")
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if self._served:
                return
            self._say(
                f"The cluster does not serve {self._resource} in version {self._resource.version}: "
                f"{self._hint(self._resource.kind)}"
            )
            self.settled.set()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _follow(self, task: asyncio.Task[None]) -> None:
        """Return when the kind is no longer served."""
        synced = asyncio.get_running_loop().create_task(self._reflector.synced.wait())
        try:
            while True:
                await asyncio.wait(
                    {task} if synced.done() else {task, synced}, timeout=_LOOK_SECONDS, return_when=_FIRST
                )
                if task.done():
                    task.result()  # what the engine raised must end the scheduler, as for its own kinds
                if synced.done() and not self.settled.is_set():
                    self.settled.set()
                if synced.done() and self._said:
                    log.info("objects are read now", kind=str(self._resource), count=len(self._reflector.objects))
                    self._said = ""
                error = self._reflector.last_error
                if isinstance(error, NotFound) and not await self._still_served():
                    return
                if isinstance(error, Forbidden):
                    self._say(
                        f"not allowed to read {self._resource}: {error}. Apply the role that `mooring plugin manifests "
                        "FILE --rbac` prints"
                    )
        finally:
            synced.cancel()

    async def _still_served(self) -> bool:
        with contextlib.suppress(KubeError):
            return await self._client.serves(self._resource)
        return True

    def _say(self, text: str) -> None:
        """Warn, once for each thing there is to say."""
        if text != self._said:
            self._said = text
            log.warning(text)


def _plugin_hint(kind: str) -> str:
    return (
        f"plugins find no {kind} until its CustomResourceDefinition is applied; "
        "`mooring plugin manifests FILE --crd` prints it"
    )


_FIRST = asyncio.FIRST_COMPLETED


def resource_for(kind: type[KubeObject]) -> Resource[Any]:
    """Where a kind, declared or built in, lives on an API server."""
    """Where a kind, declared or built in, lives on an API server."""
    if not issubclass(kind, CustomResource):
        return resource_of(kind)
    declared = kind.declaration
    return Resource(kind, declared.group, declared.version, declared.kind, declared.plural, declared.namespaced)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Not `await task`: that could not tell its end from our own being cancelled.
    await asyncio.wait({task})
