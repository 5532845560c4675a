"""Requests that are not for objects or lists."""

import pytest

from tests.cluster.conftest import PODS, Client, pod


async def test_logs_do_not_exist(client: Client) -> None:
    """Nothing is executed, and the message says so."""
    await client.create(PODS, pod("a"))
    answer = await client.ask("GET", f"{PODS}/a/log")
    assert (answer.status, "nothing is executed there, so there are no logs" in answer.message) == (400, True)


async def test_version(client: Client) -> None:
    """The one whose API is spoken."""
    assert (await client.get("/version"))["gitVersion"] == "v1.36.4"


async def _running(client: Client, name: str, **annotations: str) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}
    body = pod(name, containers=[container])
    body["metadata"]["annotations"] = {f"mooring.dev/{key}": value for key, value in annotations.items()}
    await client.create(PODS, body)
    await client.bind(name, "node-0")

    async def runs() -> bool:
        return bool((await client.get(f"{PODS}/{name}"))["status"]["phase"] == "Running")

    await client.wait(runs)


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward", "proxy", "log"])
async def test_nothing_can_be_run_on_a_fake_node(live: Client, subresource: str) -> None:
    """And whoever tries is told so."""
    await _running(live, "plain")
    answer = await live.ask("GET", f"{PODS}/plain/{subresource}")
    assert answer.status == 400
    assert answer.message.startswith('pod "plain" runs on a fake node of Mooring: nothing is executed there')
    assert (await live.ask("GET", f"{PODS}/nobody/{subresource}")).status == 404
