"""What the handlers of requests work with."""

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
    """The parts of the API server, put together."""

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
        #: The folder where everything is kept, if it is.
        self.data: Path | None = None
        #: Waits until a version is safe; absent where nothing is written down.
        self.durable: Callable[[int], Awaitable[None]] | None = None

    async def settle(self) -> None:
        """Wait until all that was done so far is safe, so that nobody is told of what may be lost."""
        if self.durable is not None and self.store.published < self.store.version:
            await self.durable(self.store.version)
