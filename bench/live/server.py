"""A client of the measured API server that creates and counts objects. It is not part of any contender."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from tests.e2e.controlplane import ControlPlane

_CONNECTIONS: Final = 32
_JSON: Final = {"Content-Type": "application/json"}
_STRATEGIC: Final = {"Content-Type": "application/strategic-merge-patch+json"}
#: The verbs of writes in the metrics of the API server.
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
T = TypeVar("T")


class ServerError(Exception):
    """The API server rejected a request of the benchmark."""


class Server:
    """An administrator's connections to the API server of a control plane."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def create(self, path: str, bodies: Iterable[bytes]) -> int:
        """Create many objects quickly. Return their number."""
        return await self.for_each(bodies, lambda body: self.create_one(path, body))

    async def for_each(self, items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> int:
        """Process many items with several connections. Return their number."""
        waiting = iter(items)
        done = 0

        async def worker() -> None:
            nonlocal done
            for item in waiting:
                await work(item)
                done += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(worker())
        return done

    async def create_one(self, path: str, body: bytes) -> bytes:
        """Create an object and return the answer."""
        return await self._write("POST", path, body, _JSON)

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        """Change parts of an object (strategic merge patch)."""
        await self._write("PATCH", path, msgspec.json.encode(body), _STRATEGIC)

    async def _write(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        async with self.session.request(method, path, data=body, headers=headers) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise ServerError(f"{method} {path}: {answer.status} {text[:500].decode(errors='replace')}")
            return text

    async def get(self, path: str) -> Any:
        """Read an object or a list."""
        async with self.session.get(path) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise ServerError(f"GET {path}: {answer.status} {text[:500].decode(errors='replace')}")
            return msgspec.json.decode(text)

    async def count(self, path: str) -> int:
        """Return the number of objects without reading them."""
        page = await self.get(f"{path}?limit=1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    async def writes(self) -> int:
        """Return how many writes the server has answered, those of leases excluded."""
        async with self.session.get("/metrics") as answer:
            lines = (await answer.text()).splitlines()
        counted = (line for line in lines if line.startswith("apiserver_request_total{"))
        return sum(int(float(line.rpartition(" ")[2])) for line in counted if _is_write(line))

    async def version(self, path: str) -> str:
        """Return the current resource version of a collection."""
        page = await self.get(f"{path}?limit=1")
        return str(page["metadata"]["resourceVersion"])


def _is_write(line: str) -> bool:
    """Return whether a line of apiserver_request_total counts writes of objects that schedulers write."""
    return any(f'verb="{verb}"' in line for verb in _WRITES) and 'resource="leases"' not in line


@asynccontextmanager
async def connected(plane: ControlPlane) -> AsyncIterator[Server]:
    """Connect to a control plane as its administrator."""
    context = ssl.create_default_context(cafile=str(plane.ca))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    connector = aiohttp.TCPConnector(ssl=context, limit=2 * _CONNECTIONS)
    headers = {"Authorization": f"Bearer {plane.users['admin'].token}"}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=300)
    async with aiohttp.ClientSession(plane.server, connector=connector, headers=headers, timeout=timeout) as session:
        yield Server(session)
