"""Tokens."""

from tests.cluster.conftest import PODS, Client


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
