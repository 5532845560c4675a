"""ReplicaSets and ReplicationControllers."""

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
