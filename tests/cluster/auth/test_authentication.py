"""Tokens."""

import pytest

from tests.cluster.conftest import PODS, Client, make, pod


async def test_tokens_of_service_accounts(live: Client) -> None:
    """Are issued on request, tell who they belong to, and allow what the account may."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    await live.wait(lambda: _ok(live, path))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await live.create(f"{path}/token", request))["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = (await live.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
    assert (status["authenticated"], status["user"]["username"]) == (True, "system:serviceaccount:default:default")
    assert (await live.ask("GET", PODS, token=token)).status == 403
    review["spec"] = {"token": "nonsense"}
    status = (await live.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
    assert "authenticated" not in status


async def _ok(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 200


@pytest.mark.parametrize("bound", [False, True])
async def test_a_token_ends_with_its_account(client: Client, bound: bool) -> None:
    """Or with the object that it is bound to, and a new object with the same name does not revive it."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    pods = "/api/v1/namespaces/default/pods"
    await client.create(accounts, make("v1", "ServiceAccount", "robot"))
    await client.create(pods, pod("p"))
    spec = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}} if bound else {}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token = (await client.create(f"{accounts}/robot/token", request))["status"]["token"]
    assert (await client.ask("GET", "/version", token=token)).status == 200
    if bound:
        await client.delete(f"{pods}/p")
        await client.create(pods, pod("p"))
    else:
        await client.delete(f"{accounts}/robot")
        await client.create(accounts, make("v1", "ServiceAccount", "robot"))
    assert (await client.ask("GET", "/version", token=token)).status == 401
