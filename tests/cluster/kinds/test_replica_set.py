"""ReplicaSets and ReplicationControllers."""

import pytest

from tests.cluster.conftest import PODS, Client, make, pod, template
from tests.cluster.reconciling import items, until

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


SELECTOR = {"matchLabels": {"a": "b"}}


async def test_replica_sets_have_as_many_pods_as_they_want(live: Client) -> None:
    """Up and down, with orphans adopted."""
    body = pod("orphan")
    body["metadata"]["labels"] = {"a": "b"}
    await live.create(PODS, body)
    spec = {"replicas": 3, "selector": SELECTOR, "template": template(a="b")}
    await live.create(REPLICA_SETS, make("apps/v1", "ReplicaSet", "r", spec=spec))
    await until(live, f"{REPLICA_SETS}/r", lambda each: each["status"].get("readyReplicas") == 3)
    pods = await items(live, PODS)
    assert len(pods) == 3
    assert "orphan" in {each["metadata"]["name"] for each in pods}
    assert {each["metadata"]["ownerReferences"][0]["name"] for each in pods} == {"r"}
    await live.patch(f"{REPLICA_SETS}/r", {"spec": {"replicas": 1}})
    await until(live, f"{REPLICA_SETS}/r", lambda each: each["status"] == {**each["status"], "replicas": 1})
    await live.wait(lambda: _exactly(live, 1))


async def _exactly(client: Client, count: int) -> bool:
    return len(await items(client, PODS)) == count


async def test_a_pod_that_no_longer_matches_is_released_and_replaced(live: Client) -> None:
    spec = {"replicas": 1, "selector": SELECTOR, "template": template(a="b")}
    await live.create(REPLICA_SETS, make("apps/v1", "ReplicaSet", "r", spec=spec))
    await until(live, f"{REPLICA_SETS}/r", lambda each: each["status"].get("readyReplicas") == 1)
    (pod_before,) = await items(live, PODS)
    name = pod_before["metadata"]["name"]
    await live.patch(f"{PODS}/{name}", {"metadata": {"labels": {"a": "other"}}})
    released = await until(live, f"{PODS}/{name}", lambda each: "ownerReferences" not in each["metadata"])
    assert not released["metadata"].get("deletionTimestamp")
    await live.wait(lambda: _exactly(live, 2))
    await live.patch(f"{PODS}/{name}", {"metadata": {"labels": {"a": "b"}}})
    await until(live, f"{REPLICA_SETS}/r", lambda each: each["status"].get("readyReplicas") == 1)
    await live.wait(lambda: _exactly(live, 1))


@pytest.mark.parametrize(
    ("path", "version", "kind", "selector"),
    [
        (REPLICA_SETS, "apps/v1", "ReplicaSet", SELECTOR),
        ("/api/v1/namespaces/default/replicationcontrollers", "v1", "ReplicationController", {"a": "b"}),
    ],
)
async def test_rejected_pods_are_reported(
    live: Client, path: str, version: str, kind: str, selector: dict[str, object]
) -> None:
    """In a condition, as long as pods are rejected."""
    limits = make("v1", "LimitRange", "l", spec={"limits": [{"type": "Container", "min": {"cpu": "1"}}]})
    await live.create("/api/v1/namespaces/default/limitranges", limits)
    low = {"requests": {"cpu": "100m"}}
    pods = template(a="b")
    pods["spec"]["containers"][0]["resources"] = low
    await live.create(path, make(version, kind, "r", spec={"replicas": 1, "selector": selector, "template": pods}))
    failed = await until(live, f"{path}/r", lambda each: each["status"].get("conditions"))
    (condition,) = failed["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert "minimum cpu usage per Container is 1, but request is 100m" in condition["message"]
    await live.delete("/api/v1/namespaces/default/limitranges/l")
    await live.patch(f"{path}/r", {"metadata": {"annotations": {"again": "1"}}})
    await until(live, f"{path}/r", lambda each: each["status"].get("readyReplicas") == 1)
    assert "conditions" not in (await live.get(f"{path}/r"))["status"]
