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


async def test_every_namespace_has_the_certificate_of_the_server(live: Client) -> None:
    """It comes back if somebody deletes or changes it."""
    await live.create("/api/v1/namespaces", make("v1", "Namespace", "new"))
    path = "/api/v1/namespaces/new/configmaps/kube-root-ca.crt"

    async def right() -> bool:
        answer = await live.ask("GET", path)
        return answer.status == 200 and answer.body["data"] == {"ca.crt": live.cluster.authority}

    await live.wait(right)
    await live.delete(path)
    await live.wait(right)
    await live.patch(path, {"data": {"ca.crt": "wrong"}})
    await live.wait(right)


async def test_extension_api_servers_find_their_settings(client: Client) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    assert (await client.get(path))["data"]["client-ca-file"] == client.cluster.authority
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
    await client.get(f"{roles}/extension-apiserver-authentication-reader")
