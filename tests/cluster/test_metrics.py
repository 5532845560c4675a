"""What fake nodes tell of themselves: leases, usage, and that nothing can be run on them."""

import pytest

from tests.cluster.conftest import PODS, Client, make, pod

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


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward", "proxy", "log"])
async def test_nothing_can_be_run_on_a_fake_node(live: Client, subresource: str) -> None:
    """And whoever tries is told so."""
    await _running(live, "plain")
    answer = await live.ask("GET", f"{PODS}/plain/{subresource}")
    assert answer.status == 400
    assert answer.message.startswith('pod "plain" runs on a fake node of Mooring: nothing is executed there')
    assert (await live.ask("GET", f"{PODS}/nobody/{subresource}")).status == 404


async def test_rules_that_are_not_evaluated_are_said(live: Client) -> None:
    """When the definition is made."""
    from tests.cluster.test_custom_resources import DEFINITIONS, definition

    body = definition()
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.n > 0"}]
    answer = await live.ask("POST", DEFINITIONS, body)
    assert answer.status == 201
    assert any("does not evaluate these rules (CEL)" in each for each in answer.warnings)


async def test_nodes_hold_leases(live: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """One each, which goes with the node."""
    monkeypatch.setattr("mooring.cluster.kubelet._RENEW_EVERY", 0.05)
    await live.create("/api/v1/nodes", make("v1", "Node", "late"))
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/late"
    seen: set[str] = set()

    async def renewed() -> bool:
        answer = await live.ask("GET", path)
        if answer.status == 200:
            seen.add(answer.body["spec"]["renewTime"])
        return len(seen) > 1

    await live.wait(renewed)
    await live.delete("/api/v1/nodes/late")

    async def gone() -> bool:
        return (await live.ask("GET", path)).status == 404

    await live.wait(gone)
