"""The metrics API."""

from tests.cluster.conftest import PODS, Client, pod

METRICS = "/apis/metrics.k8s.io/v1beta1"


async def _running(client: Client, name: str, **annotations: str) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}
    body = pod(name, containers=[container])
    body["metadata"]["annotations"] = {f"mooring.dev/{key}": value for key, value in annotations.items()}
    await client.create(PODS, body)
    await client.bind(name, "node-0")

    async def runs() -> bool:
        return bool((await client.get(f"{PODS}/{name}"))["status"]["phase"] == "Running")

    await client.wait(runs)


async def test_usage_is_what_pods_ask_for_or_what_they_say(live: Client) -> None:
    """By pod, by node, and as `kubectl top` asks for them."""
    await _running(live, "plain")
    await _running(live, "busy", usage="cpu=2,memory=1Gi")
    used = {
        each["metadata"]["name"]: each["containers"][0]["usage"]
        for each in (await live.get(f"{METRICS}/namespaces/default/pods"))["items"]
    }
    assert used == {"plain": {"cpu": "250m", "memory": "65536Ki"}, "busy": {"cpu": "2000m", "memory": "1048576Ki"}}
    node = await live.get(f"{METRICS}/nodes/node-0")
    assert node["usage"] == {"cpu": "2350m", "memory": f"{(64 + 1024 + 100) * 1024}Ki"}
    assert (await live.get(f"{METRICS}/nodes/node-1"))["usage"]["cpu"] == "100m"
    assert len((await live.get(f"{METRICS}/nodes"))["items"]) == 3
    assert (await live.ask("GET", f"{METRICS}/nodes/nobody")).status == 404
    assert (await live.ask("DELETE", f"{METRICS}/nodes/node-0")).status == 405
    names = [each["name"] for each in (await live.get(METRICS))["resources"]]
    assert names == ["nodes", "pods"]
    assert (await live.ask("GET", "/openapi/v3/apis/metrics.k8s.io/v1beta1")).status == 200
    assert (await live.ask("GET", "/openapi/v2")).status == 200
