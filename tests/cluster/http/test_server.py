"""The HTTP server."""

import pytest

from tests.cluster.conftest import PODS, Client


@pytest.mark.parametrize(
    "path", ["/api/v1/podz", "/apis/nope/v1/x", "/api/v1/namespaces/default/nodes", f"{PODS}/a/foo"]
)
async def test_paths_that_do_not_exist(client: Client, path: str) -> None:
    """Are told so in Kubernetes' words."""
    answer = await client.ask("GET", path)
    assert (answer.status, answer.message) == (404, "the server could not find the requested resource")


async def test_the_server_listens_on_loopback_only_and_wants_a_token(client: Client) -> None:
    """Health is open to everybody."""
    assert client.cluster.url.startswith("https://127.0.0.1:")
    answer = await client.ask("GET", "/api/v1/pods", token="wrong")
    assert (answer.status, answer.body["reason"]) == (401, "Unauthorized")
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await client.ask("GET", path, token="wrong")).body == "ok"
