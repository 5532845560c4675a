"""Helpers for tests of controllers."""

from typing import Any

from tests.cluster.conftest import PODS, Client


async def items(client: Client, path: str) -> list[dict[str, Any]]:
    return list((await client.get(path))["items"])


async def bind_all(client: Client) -> None:
    """A scheduler that puts everything on one node."""
    for each in await items(client, f"{PODS}?fieldSelector=spec.nodeName%3D"):
        await client.bind(each["metadata"]["name"], "node-0")


async def until(client: Client, path: str, holds: Any, *, bind: bool = True) -> Any:
    """Wait until an object is as it should be; meanwhile every pod is bound."""

    async def nested_field() -> Any:
        if bind:
            await bind_all(client)
        answer = await client.ask("GET", path)
        return answer.body if answer.status == 200 and holds(answer.body) else None

    return await client.wait(nested_field)
