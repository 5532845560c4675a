"""Namespaces."""

from tests.cluster.conftest import Client, make, pod


async def _gone(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 404


async def test_namespaces_go_with_all_that_is_in_them(live: Client) -> None:
    """Nothing can be created there meanwhile, and each new one has a service account."""
    await live.create("/api/v1/namespaces", make("v1", "Namespace", "x"))
    await live.wait(lambda: _there(live, "/api/v1/namespaces/x/serviceaccounts/default"))
    held = {**make("v1", "ConfigMap", "c"), "metadata": {"name": "c", "finalizers": ["ex.io/f"]}}
    await live.create("/api/v1/namespaces/x/configmaps", held)
    await live.create("/api/v1/namespaces/x/pods", pod("p"))
    marked = await live.delete("/api/v1/namespaces/x")
    assert marked["status"]["phase"] == "Terminating"
    answer = await live.ask("POST", "/api/v1/namespaces/x/pods", pod("q"))
    assert answer.message == (
        'pods "q" is forbidden: unable to create new content in namespace x because it is being terminated'
    )
    await live.wait(lambda: _gone(live, "/api/v1/namespaces/x/pods/p"))
    assert await _there(live, "/api/v1/namespaces/x")
    await live.patch("/api/v1/namespaces/x/configmaps/c", {"metadata": {"finalizers": None}})
    await live.wait(lambda: _gone(live, "/api/v1/namespaces/x"))


async def _there(client: Client, path: str) -> bool:
    return not await _gone(client, path)
