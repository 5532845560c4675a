"""PodDisruptionBudgets and evictions."""

from typing import Any

from tests.cluster.conftest import PODS, Client, make, pod, template
from tests.cluster.reconciling import until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


SELECTOR = {"matchLabels": {"a": "b"}}


def _deployment(**spec: Any) -> dict[str, Any]:
    return make(
        "apps/v1", "Deployment", "d", spec={"replicas": 3, "selector": SELECTOR, "template": template(a="b"), **spec}
    )


async def test_budgets_say_how_many_may_go(live: Client) -> None:
    """Percentages are of what the controllers want, and evictions through the API respect it all."""
    await live.create(DEPLOYMENTS, _deployment(replicas=4))
    await live.create(
        BUDGETS, make("policy/v1", "PodDisruptionBudget", "x", spec={"maxUnavailable": "50%", "selector": SELECTOR})
    )
    budget = await until(live, f"{BUDGETS}/x", lambda each: each["status"].get("currentHealthy") == 4)
    status = budget["status"]
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (4, 2, 2)
    assert status["conditions"][0]["reason"] == "SufficientPods"


async def _running(client: Client, name: str) -> None:
    body = pod(name, nodeName="n1")
    body["metadata"]["labels"] = {"a": "b"}
    await client.create(PODS, body)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await client.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})


async def test_evictions_respect_the_budget(client: Client) -> None:
    """One is allowed, the next is not, and the budget counts it down."""
    for name in ("a", "b"):
        await _running(client, name)
    budget = make(
        "policy/v1", "PodDisruptionBudget", "x", spec={"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    )
    await client.create(BUDGETS, budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    answer = await client.ask("POST", f"{PODS}/a/eviction", eviction)
    assert (answer.status, answer.body["details"]["causes"][0]["message"]) == (
        429,
        "The disruption budget x is still being processed by the server.",
    )
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    await client.patch(f"{BUDGETS}/x/status", {"status": status})
    assert (await client.ask("POST", f"{PODS}/a/eviction", eviction)).status == 201
    evicted = await client.get(f"{PODS}/a")
    assert evicted["metadata"]["deletionTimestamp"]
    assert evicted["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    answer = await client.ask("POST", f"{PODS}/b/eviction", {**eviction, "metadata": {"name": "b"}})
    assert answer.status == 429
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
