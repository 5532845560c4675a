"""Claims in the embedded cluster: created from templates, released with their pods, deleted at the end."""

from typing import Any

from mooring.api.devices import CLAIM_FINALIZER
from tests.cluster.conftest import PODS, Client, make, pod
from tests.cluster.reconciling import until

GROUP = "/apis/resource.k8s.io/v1/namespaces/default"
CLAIMS = f"{GROUP}/resourceclaims"


async def _gone(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 404


async def _claim_of(client: Client, name: str) -> str:
    """The name of the claim that was created for a pod."""
    found = await until(client, f"{PODS}/{name}", lambda each: each["status"].get("resourceClaimStatuses"))
    (status,) = found["status"]["resourceClaimStatuses"]
    assert status["name"] == "gpu"
    created: str = status["resourceClaimName"]
    return created


async def _start(client: Client, name: str) -> dict[str, Any]:
    """Create a pod with a claim, and allocate and reserve it as a scheduler does."""
    made = pod(name)
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    created = await client.create(PODS, made)
    claim = await _claim_of(client, name)
    await client.patch(f"{CLAIMS}/{claim}", {"metadata": {"finalizers": [CLAIM_FINALIZER]}})
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    users = [{"resource": "pods", "name": name, "uid": created["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    await client.patch(f"{CLAIMS}/{claim}/status", {"status": status})
    found: dict[str, Any] = await client.get(f"{CLAIMS}/{claim}")
    return found


async def test_claims_follow_their_pods(live: Client) -> None:
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    template = make("resource.k8s.io/v1", "ResourceClaimTemplate", "t", spec={"spec": {"devices": devices}})
    await live.create(f"{GROUP}/resourceclaimtemplates", template)
    claim = await _start(live, "first")
    assert claim["metadata"]["name"].startswith("first-gpu-")
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert claim["metadata"]["ownerReferences"][0]["name"] == "first"
    await live.patch(f"{PODS}/first/status", {"status": {"phase": "Succeeded"}})
    await live.wait(lambda: _gone(live, f"{CLAIMS}/{claim['metadata']['name']}"))

    second = await _start(live, "second")
    await live.delete(f"{PODS}/second")
    await live.wait(lambda: _gone(live, f"{CLAIMS}/{second['metadata']['name']}"))
