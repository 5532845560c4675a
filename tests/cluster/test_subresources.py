"""Binding, eviction, scale, status, namespaces' finalizers and what has no answer."""

from typing import Any

import pytest

from tests.cluster.conftest import JSON_PATCH, MERGE_PATCH, PODS, STRATEGIC_PATCH, Client, make, pod, template

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def test_a_binding_puts_a_pod_on_a_node(client: Client) -> None:
    """With the condition that says so, and the annotations of the binding."""
    await client.create(PODS, pod("a"))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "annotations": {"x": "y"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    answer = await client.ask("POST", f"{PODS}/a/binding", body)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    bound = await client.get(f"{PODS}/a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"x": "y"}
    assert [(each["type"], each["status"]) for each in bound["status"]["conditions"]] == [("PodScheduled", "True")]


@pytest.mark.parametrize(
    ("spec", "uid", "message"),
    [
        ({"nodeName": "n0"}, "", 'pods/binding "a": pod a is already assigned to node "n0"'),
        ({"schedulingGates": [{"name": "g"}]}, "", 'pods/binding "a": pod a has non-empty .spec.schedulingGates'),
        ({}, "another", "Precondition failed: UID in precondition: another"),
    ],
)
async def test_bindings_that_come_too_late(client: Client, spec: dict[str, Any], uid: str, message: str) -> None:
    """Are conflicts."""
    await client.create(PODS, pod("a", **spec))
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "uid": uid}, "target": {"name": "n1"}}
    answer = await client.ask("POST", f"{PODS}/a/binding", body)
    assert answer.status == 409
    assert message in answer.message


async def test_a_pod_that_goes_is_not_bound(client: Client) -> None:
    """It would start only to be killed."""
    body = pod("a")
    body["metadata"]["finalizers"] = ["ex.io/f"]
    await client.create(PODS, body)
    await client.delete(f"{PODS}/a")
    answer = await client.bind("a", "n1")
    assert (answer.status, "is being deleted, cannot be assigned to a host" in answer.message) == (409, True)


async def test_nominations_end_with_the_binding(client: Client) -> None:
    """And cannot begin after it."""
    await client.create(PODS, pod("a"))
    await client.patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "n1"}})
    await client.bind("a", "n1")
    assert "nominatedNodeName" not in (await client.get(f"{PODS}/a"))["status"]
    answer = await client.ask("PATCH", f"{PODS}/a/status", {"status": {"nominatedNodeName": "n2"}}, content=MERGE_PATCH)
    assert (answer.status, "may not be set on pods that are already bound" in answer.message) == (422, True)


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


async def test_scale(client: Client) -> None:
    """Read, patched and put; a negative number is refused."""
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
    await client.create(DEPLOYMENTS, make("apps/v1", "Deployment", "d", spec=spec))
    scale = await client.get(f"{DEPLOYMENTS}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0, "selector": "a=b"},
    )
    assert (await client.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}}))["spec"] == {"replicas": 5}
    answer = await client.ask("PUT", f"{DEPLOYMENTS}/d/scale", {**scale, "spec": {"replicas": 1}})
    assert answer.status == 409
    answer = await client.ask("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -1}}, content=MERGE_PATCH)
    assert (answer.status, "must be greater than or equal to 0" in answer.message) == (422, True)
    assert (await client.get(f"{DEPLOYMENTS}/d"))["spec"]["replicas"] == 5


async def test_logs_do_not_exist(client: Client) -> None:
    """Nothing is executed, and the message says so."""
    await client.create(PODS, pod("a"))
    answer = await client.ask("GET", f"{PODS}/a/log")
    assert (answer.status, "nothing is executed there, so there are no logs" in answer.message) == (400, True)


async def test_pods_keep_their_spec(client: Client) -> None:
    """Images may change and tolerations be added; a gated pod may become pickier; the rest is refused."""
    await client.create(PODS, pod("a", schedulingGates=[{"name": "g"}]))
    await client.patch(f"{PODS}/a", {"spec": {"nodeSelector": {"x": "y"}}})
    await client.patch(f"{PODS}/a", {"spec": {"schedulingGates": []}})
    tolerations = [{"key": "k", "operator": "Exists"}]
    assert len((await client.patch(f"{PODS}/a", {"spec": {"tolerations": tolerations}}))["spec"]["tolerations"]) == 3
    for change, message in (
        ({"nodeSelector": {"x": "z"}}, "pod updates may not change fields other than"),
        ({"containers": []}, "pod updates may not add or remove containers"),
        ({"schedulingGates": [{"name": "new"}]}, "only deletion is allowed, but found new scheduling gate 'new'"),
    ):
        answer = await client.ask("PATCH", f"{PODS}/a", {"spec": change}, content=MERGE_PATCH)
        assert (answer.status, message in answer.message) == (422, True), answer.body


async def test_label_keys_become_part_of_the_selectors(client: Client) -> None:
    """As the scheduler expects to find them."""
    body = pod(
        "a",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
                "matchLabelKeys": ["hash", "absent"],
            }
        ],
    )
    body["metadata"]["labels"] = {"app": "x", "hash": "123"}
    created = await client.create(PODS, body)
    selector = created["spec"]["topologySpreadConstraints"][0]["labelSelector"]
    assert selector["matchExpressions"] == [{"key": "hash", "operator": "In", "values": ["123"]}]


async def test_pods_are_resized_in_place(live: Client) -> None:
    """By their subresource, and nothing else about them."""
    asked = {"cpu": "100m", "memory": "64Mi"}
    await live.create(PODS, pod("p", containers=[{"name": "c", "image": "x", "resources": {"requests": asked}}]))
    resized = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    assert (await live.ask("PATCH", f"{PODS}/p", resized, content=STRATEGIC_PATCH)).status == 422
    answer = await live.ask("PATCH", f"{PODS}/p/resize", resized, content=STRATEGIC_PATCH)
    assert answer.status == 200, answer.body
    assert answer.body["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2", "memory": "64Mi"}}
    assert answer.body["metadata"]["generation"] == 2
    other = {"spec": {"containers": [{"name": "c", "image": "y"}]}}
    refused = await live.ask("PATCH", f"{PODS}/p/resize", other, content=STRATEGIC_PATCH)
    assert (refused.status, "are mutable" in refused.message) == (422, True)


async def test_ephemeral_containers_are_added(live: Client) -> None:
    """As `kubectl debug` does; they stay."""
    await live.create(PODS, pod("p"))
    added = {"spec": {"ephemeralContainers": [{"name": "d", "image": "x"}]}}
    answer = await live.ask("PATCH", f"{PODS}/p/ephemeralcontainers", added, content=STRATEGIC_PATCH)
    assert answer.status == 200, answer.body
    assert answer.body["spec"]["ephemeralContainers"][0]["name"] == "d"
    gone = [{"op": "remove", "path": "/spec/ephemeralContainers"}]
    refused = await live.ask("PATCH", f"{PODS}/p/ephemeralcontainers", gone, content=JSON_PATCH)
    assert refused.status == 422
