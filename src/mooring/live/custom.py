"""Informers for the kinds that plugins declare: custom resources, which may not exist yet, and additional kinds.

If the cluster does not serve a custom resource, the scheduler logs that once, and the lister stays empty until the kind
is served. A plugin that is reloaded has its own classes; an informer whose class is no longer used is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.meta import KubeObject
from mooring.framework.custom_resources import CustomResource
from mooring.kube import (
    RESOURCES,
    Backoff,
    Change,
    Client,
    Forbidden,
    KubeError,
    NotFound,
    Reflector,
    Resource,
    resource_of,
)
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

log = get_logger("mooring.live")
_PLUGIN_ROLE = "mooring plugin manifests FILE --rbac"

#: How often to check again a kind that is not served or cannot be read, and one that only another server would serve.
_LOOK_SECONDS = 2.0
_LOOK_BUILT_IN_SECONDS = 30.0


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
        throttle: Callable[[], Awaitable[None]] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        """``apply`` applies changes, ``known`` are kinds that have another informer, ``drop`` removes a kind's objects.

        ``hint`` returns the consequence if a kind is not served. ``throttle`` is that of `Reflector`. ``versions`` has
        the versions of built-in kinds that are not read in their usual version.
        """
        self._throttle = throttle
        self._versions = versions or {}
        self._hint = hint or _plugin_hint
        self._client = client
        self._apply = apply
        self._known = known
        self._drop = drop
        self._tasks: asyncio.TaskGroup
        self._informers: dict[type[KubeObject], tuple[Informer, asyncio.Task[None]]] = {}
        #: The warnings about kinds that are not served. Kinds of one API have the same warning.
        self._warned: set[str] = set()

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Set the task group in which the informers run."""
        self._tasks = tasks

    async def watch(self, kinds: Iterable[type[KubeObject]]) -> None:
        """Start informers for these kinds; return when all are synced or not served."""
        for kind in kinds:
            if kind not in self._informers and kind not in self._known:
                role = _PLUGIN_ROLE if self._hint is _plugin_hint else ""
                informer = Informer(
                    self._client,
                    self._resource(kind),
                    self._apply,
                    self._hint,
                    role_command=role,
                    throttle=self._throttle,
                    warned=self._warned,
                )
                task = self._tasks.create_task(informer.run(), name=f"watch {kind.__name__}")
                self._informers[kind] = (informer, task)
        for informer, _ in list(self._informers.values()):
            await informer.ready.wait()

    def _resource(self, kind: type[KubeObject]) -> Resource[Any]:
        resource = resource_for(kind)
        version = self._versions.get(resource.kind) if kind in _BUILT_IN else None
        return resource if version is None else replace(resource, version=version)

    async def retain(self, kinds: Iterable[type[KubeObject]]) -> None:
        """Stop the informers of all kinds except these."""
        wanted = set(kinds)
        for kind in [kind for kind in self._informers if kind not in wanted]:
            _, task = self._informers.pop(kind)
            await _ended(task)
            self._drop(kind)

    def lagging(self) -> list[str]:
        """Return the kinds that are served but not synced, or that cannot be read."""
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
        role_command: str = "",
        throttle: Callable[[], Awaitable[None]] | None = None,
        warned: set[str] | None = None,
    ) -> None:
        """``role_command`` prints the role that allows reading the kind, if it is not `mooring rbac`.

        ``warned`` has the warnings that other informers logged, which are not logged again.
        """
        self._client = client
        self._hint = hint
        self._role_command = role_command
        self._throttle = throttle
        self._resource = resource
        self._labels, self._fields = labels, fields
        self._apply = apply
        self._reflector = self._new()
        self._served = True
        self._reported: str = ""
        self._warned = warned if warned is not None else set()
        #: Set when the objects were listed, or the kind is not served.
        self.ready = asyncio.Event()

    @property
    def lags(self) -> bool:
        """Whether the kind is served but not synced, or cannot be read."""
        return self._served and not (self._reflector.synced.is_set() and self._reflector.last_error is None)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._run_while_served()
            except Exception as error:
                report_unexpected("an informer failed", error, kind=str(self._resource))
                await asyncio.sleep(_LOOK_SECONDS)
            self._apply([Change(old, None) for old in self._reflector.objects.values()])
            self._reflector = self._new()

    async def _run_while_served(self) -> None:
        await self._wait_until_served()
        task = asyncio.get_running_loop().create_task(self._reflector.run())
        try:
            await self._follow(task)
        finally:
            await _ended(task)

    def _new(self) -> Reflector[Any]:
        return Reflector(
            self._client,
            self._resource,
            self._apply,
            labels=self._labels,
            fields=self._fields,
            backoff=Backoff(cap=5.0, random=self._client.random),
            reports_forbidden=not self._role_command,
            throttle=self._throttle,
        )

    async def _wait_until_served(self) -> None:
        failed = False
        while True:
            try:
                self._served = await self._client.serves(self._resource)
            except Forbidden:
                self._served = True  # discovery may be forbidden although reading the kind is allowed
            except KubeError as error:
                failed = True
                self._client.failures.failed(str(self._resource), error)
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if failed:
                failed = False
                self._client.failures.succeeded(str(self._resource))
            if self._served:
                return
            self._report(self._warning())
            self.ready.set()
            await asyncio.sleep(_LOOK_BUILT_IN_SECONDS if self._resource.model in _BUILT_IN else _LOOK_SECONDS)

    def _warning(self) -> str:
        resource = self._resource
        if resource.model in _DEVICES:
            return f"The cluster does not serve {resource.api_version}: {_NO_CLAIMS}"
        return f"The cluster does not serve {resource} in version {resource.version}: {self._hint(resource.kind)}"

    async def _follow(self, task: asyncio.Task[None]) -> None:
        """Wait until the kind is no longer served."""
        synced = asyncio.get_running_loop().create_task(self._reflector.synced.wait())
        try:
            while True:
                await asyncio.wait(
                    {task} if synced.done() else {task, synced}, timeout=_LOOK_SECONDS, return_when=_FIRST
                )
                if task.done():
                    task.result()
                if synced.done() and not self.ready.is_set():
                    self.ready.set()
                if synced.done() and self._reported:
                    log.info("objects are read now", kind=str(self._resource), count=len(self._reflector.objects))
                    self._warned.discard(self._reported)
                    self._reported = ""
                error = self._reflector.last_error
                if isinstance(error, NotFound) and not await self._still_served():
                    return
                if isinstance(error, Forbidden) and self._role_command:
                    role = f"Apply the role that `{self._role_command}` prints"
                    self._report(f"not allowed to read {self._resource}: {error}. {role}")
        finally:
            synced.cancel()

    async def _still_served(self) -> bool:
        with contextlib.suppress(KubeError):
            return await self._client.serves(self._resource)
        return True

    def _report(self, text: str) -> None:
        """Log a warning once."""
        if text == self._reported:
            return
        self._reported = text
        if text in self._warned:
            log.debug(text, kind=str(self._resource))
            return
        self._warned.add(text)
        log.warning(text)


def _plugin_hint(kind: str) -> str:
    if kind in _BUILT_IN_NAMES:
        return f"plugins find no {kind}. Upgrade the API server, or enable this API"
    return (
        f"plugins find no {kind} until its CustomResourceDefinition is applied; "
        "`mooring plugin manifests FILE --crd` prints it"
    )


_FIRST = asyncio.FIRST_COMPLETED
_NO_CLAIMS = "pods with resource claims stay pending. API servers have this API since Kubernetes 1.34"
_DEVICES = frozenset((DeviceClass, ResourceClaim, ResourceSlice))
#: Kinds that need no CustomResourceDefinition.
_BUILT_IN = frozenset(model for model, each in RESOURCES.items() if each.group.endswith("k8s.io"))
_BUILT_IN_NAMES = frozenset(RESOURCES[model].kind for model in _BUILT_IN)


def resource_for(kind: type[KubeObject]) -> Resource[Any]:
    """Return the API resource of a kind, declared or built in."""
    if not issubclass(kind, CustomResource):
        return resource_of(kind)
    declared = kind.declaration
    return Resource(kind, declared.group, declared.version, declared.kind, declared.plural, declared.namespaced)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Not `await task`: that cannot distinguish the end of the task from our own cancellation.
    await asyncio.wait({task})
