"""Locks nodes while device plugins assign devices (`deviceshare.NodeLockEnable`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from mooring.api.meta import format_time
from mooring.api.node import Node
from mooring.batch.node_locks import NodeLock, locked
from mooring.framework.status import SUCCESS, Status
from mooring.kube import Client, Conflict, KubeError
from mooring.logs import get_logger

log = get_logger("mooring.batch")

_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.1


class NodeLocker:
    """Writes the annotations that lock nodes. A patch names the version it is based on, so races are noticed."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._clock = clock
        self._sleep = sleep
        #: The uid of a pod whose bind is in flight -> its node and the locks that it holds.
        self._held: dict[str, tuple[str, list[str]]] = {}

    async def lock(self, uid: str, node_name: str, locks: Sequence[NodeLock]) -> Status:
        """Lock a node for a pod. A lock that does not stay only has to be free: it is not written."""
        held: list[str] = []
        self._held[uid] = node_name, held
        for lock in locks:
            try:
                problem = await self._lock(node_name, lock)
            except KubeError as error:
                problem = str(error)
            if problem:
                return Status.error(f"node {node_name} cannot be locked: {problem}")
            if lock.stays:
                held.append(lock.name)
        return SUCCESS

    async def _lock(self, node_name: str, lock: NodeLock) -> str:
        for _ in range(_TRIES):
            node = await self._client.get(Node, node_name)
            problem = locked(node.annotations, lock.name, self._clock())
            if problem:
                return problem
            if not lock.stays and lock.name not in node.annotations:
                return ""
            since = format_time(self._clock()) if lock.stays else None
            try:
                await self._write(node, lock.name, since)
            except Conflict:
                await self._sleep(_PAUSE_SECONDS)
            else:
                return ""
        return f"it changes too often (annotation {lock.name})"

    async def _write(self, node: Node, name: str, since: str | None) -> None:
        metadata = {"resourceVersion": node.metadata.resource_version, "annotations": {name: since}}
        await self._client.patch(Node, node.name, {"metadata": metadata}, idempotent=False)

    def bound(self, uid: str) -> None:
        """Leave the locks of a pod to the device plugin."""
        self._held.pop(uid, None)

    async def release(self, uid: str) -> None:
        """Remove the locks of a pod that was not bound. If that fails, they expire."""
        node_name, held = self._held.pop(uid, ("", []))
        for name in held:
            try:
                await self._write(await self._client.get(Node, node_name), name, None)
            except KubeError as error:
                log.warning("A node stays locked until its lock expires", node=node_name, lock=name, error=str(error))
