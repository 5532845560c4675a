"""Pods."""

from typing import Any

import pytest

from tests.cluster.conftest import JSON_PATCH, MERGE_PATCH, PODS, STRATEGIC_PATCH, Client, make, pod


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


async def test_classes_fill_in_pods(client: Client) -> None:
    """Priority, runtime and limits of a namespace."""
    version = "scheduling.k8s.io/v1"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await client.create(
        classes, make(version, "PriorityClass", "d", value=7, globalDefault=True, preemptionPolicy="Never")
    )
    answer = await client.ask("POST", classes, make(version, "PriorityClass", "e", value=8, globalDefault=True))
    assert "already marked as default. Only one default can exist" in answer.message
    runtime = make("node.k8s.io/v1", "RuntimeClass", "rc", handler="h", overhead={"podFixed": {"cpu": "250m"}})
    await client.create("/apis/node.k8s.io/v1/runtimeclasses", {**runtime, "scheduling": {"nodeSelector": {"a": "b"}}})
    limits = {"limits": [{"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}]}
    await client.create("/api/v1/namespaces/default/limitranges", make("v1", "LimitRange", "l", spec=limits))
    created = await client.create(PODS, pod("p", runtimeClassName="rc"))
    spec = created["spec"]
    assert (spec["priority"], spec["priorityClassName"], spec["preemptionPolicy"]) == (7, "d", "Never")
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"a": "b"})
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert created["status"]["qosClass"] == "Burstable"
    large = pod("q", containers=[{"name": "c", "image": "x", "resources": {"limits": {"cpu": "3"}}}])
    answer = await client.ask("POST", PODS, large)
    assert answer.message == 'pods "q" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
