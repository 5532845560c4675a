"""An embedded cluster for each test, and a client that speaks plain HTTP to it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mooring.cluster import EmbeddedCluster
from tests.waiting import PATIENCE, until

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS = "/api/v1/namespaces/default/pods"


class Answer:
    """Status, body and warnings of an answer."""

    def __init__(self, status: int, body: Any, warnings: list[str]) -> None:
        self.status = status
        self.body = body
        self.warnings = warnings

    @property
    def message(self) -> str:
        return str(self.body["message"])


class Client:
    """Asks an embedded cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        context = ssl.create_default_context(cadata=cluster.authority)
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": "tests/1"}, connector=aiohttp.TCPConnector(ssl=context)
        )

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        token: str | None = None,
        headers: dict[str, str] | None = None,
        accept: str = "application/json",
    ) -> Answer:
        given = {"Accept": accept, "Authorization": f"Bearer {token or self.cluster.token}", **(headers or {})}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            given["Content-Type"] = content
        async with self._session.request(method, self.cluster.url + path, data=data, headers=given) as response:
            text = await response.read()
            return Answer(
                response.status,
                json.loads(text) if text[:1] in {b"{", b"["} else text.decode(errors="surrogateescape"),
                response.headers.getall("Warning", []),
            )

    async def get(self, path: str, **options: Any) -> Any:
        """The body of a GET that must succeed."""
        answer = await self.ask("GET", path, **options)
        assert answer.status == 200, answer.body
        return answer.body

    async def create(self, path: str, body: Any) -> Any:
        """The body of a POST that must succeed."""
        answer = await self.ask("POST", path, body)
        assert answer.status == 201, answer.body
        return answer.body

    async def patch(self, path: str, body: Any, content: str = MERGE_PATCH) -> Any:
        """The body of a PATCH that must succeed."""
        answer = await self.ask("PATCH", path, body, content=content)
        assert answer.status in {200, 201}, answer.body
        return answer.body

    async def delete(self, path: str, body: Any = None) -> Any:
        """The body of a DELETE that must succeed."""
        answer = await self.ask("DELETE", path, body)
        assert answer.status == 200, answer.body
        return answer.body

    async def bind(self, pod: str, node: str, namespace: str = "default") -> Answer:
        """Put a pod on a node."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": node}}
        return await self.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body)

    async def wait(self, what: Callable[[], Awaitable[Any]]) -> Any:
        """Ask again and again until the answer is true."""
        return await until(what)

    def watch(self, path: str, **options: Any) -> "Stream":
        """A watch, to be used in `async with`."""
        return Stream(self, path, options)

    async def close(self) -> None:
        await self._session.close()


class Stream:
    """The events of a watch, one at a time."""

    def __init__(self, client: Client, path: str, options: dict[str, Any]) -> None:
        self._client = client
        self._path = path
        self._accept = options.get("accept", "application/json")

    async def __aenter__(self) -> "Stream":
        headers = {"Authorization": f"Bearer {self._client.cluster.token}", "Accept": self._accept}
        self._response = await self._client._session.get(self._client.cluster.url + self._path, headers=headers)
        assert self._response.status == 200, await self._response.text()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._response.close()

    async def event(self) -> tuple[str, Any]:
        """Type and object of the next event."""
        async with asyncio.timeout(PATIENCE):
            line = await self._response.content.readline()
        if not line:
            return "END", None
        event = json.loads(line)
        return event["type"], event["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        """Types and names of the next events."""
        events = [await self.event() for _ in range(count)]
        return [(kind, each["metadata"]["name"]) for kind, each in events]


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def make(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """Any object."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def template(**labels: str) -> dict[str, Any]:
    """A pod template."""
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}


async def _client(cluster: EmbeddedCluster) -> AsyncIterator[Client]:
    await cluster.start()
    client = Client(cluster)
    try:
        yield client
    finally:
        await client.close()
        await cluster.stop()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A cluster in which nothing happens by itself."""
    async for each in _client(EmbeddedCluster(controllers=False)):
        yield each


@pytest.fixture
async def live() -> AsyncIterator[Client]:
    """A cluster with controllers and fake kubelets, and three nodes."""
    cluster = EmbeddedCluster()
    async for each in _client(cluster):
        cluster.add_nodes(3)
        yield each


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder for a cluster's data."""
    return tmp_path / "data"
