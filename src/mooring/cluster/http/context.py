"""The parts of the API server that request handlers use."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mooring.cluster.access.reviews import Reviews
from mooring.cluster.access.tokens import Tokens
from mooring.cluster.custom.definitions import CustomResources
from mooring.cluster.discovery import Discovery
from mooring.cluster.kinds import KINDS
from mooring.cluster.listing import Lists
from mooring.cluster.openapi import OpenApi
from mooring.cluster.registry import Registry
from mooring.cluster.resource_table import ResourceTable
from mooring.cluster.store import Store
from mooring.cluster.watching import Watches


class Api:
    """The parts of the API server."""

    def __init__(self, store: Store, *, token: str, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.clock = clock
        self.table = ResourceTable(KINDS)
        self.registry = Registry(store, self.table, clock=clock)
        self.watches = Watches(store)
        self.lists = Lists(store, clock)
        self.discovery = Discovery(self.table)
        self.openapi = OpenApi(self.table)
        self.tokens = Tokens(token, clock)
        self.reviews = Reviews(store, self.tokens)
        self.custom = CustomResources(self.registry, self.openapi, self.watches)
        #: The data folder, if there is one.
        self.data: Path | None = None
        #: Waits until a version is on disk; None without a data folder.
        self.durable: Callable[[int], Awaitable[None]] | None = None

    async def flush(self) -> None:
        """Wait until all changes are on disk, so that no client sees a change that could be lost."""
        if self.durable is not None and self.store.published < self.store.version:
            await self.durable(self.store.version)
