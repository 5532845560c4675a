"""The garbage collector."""

from typing import Any

from tests.cluster.conftest import PODS, Client, make, template
from tests.cluster.reconciling import items, until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


SELECTOR = {"matchLabels": {"a": "b"}}


def _deployment(**spec: Any) -> dict[str, Any]:
    return make(
        "apps/v1", "Deployment", "d", spec={"replicas": 3, "selector": SELECTOR, "template": template(a="b"), **spec}
    )


def _rolled_out(document: dict[str, Any]) -> bool:
    status, wanted = document["status"], document["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == document["metadata"]["generation"]
        and status.get("updatedReplicas", 0)
        == status.get("replicas", 0)
        == status.get("availableReplicas", 0)
        == wanted
    )


async def _exactly(client: Client, count: int) -> bool:
    return len(await items(client, PODS)) == count


async def test_what_is_owned_goes_with_its_owner(live: Client) -> None:
    """In the background by default, first when so asked, not at all when orphaned."""
    await live.create(DEPLOYMENTS, _deployment())
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    await live.delete(f"{DEPLOYMENTS}/d")
    await live.wait(lambda: _exactly(live, 0))
    assert await items(live, REPLICA_SETS) == []

    await live.create(DEPLOYMENTS, _deployment())
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    marked = await live.delete(f"{DEPLOYMENTS}/d", options)
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    await live.wait(lambda: _gone(live, f"{DEPLOYMENTS}/d"))
    assert await items(live, PODS) == []

    await live.create(DEPLOYMENTS, _deployment())
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    await live.delete(f"{DEPLOYMENTS}/d", {**options, "propagationPolicy": "Orphan"})
    await live.wait(lambda: _gone(live, f"{DEPLOYMENTS}/d"))
    orphaned = await items(live, REPLICA_SETS)
    assert len(orphaned) == 1
    assert "ownerReferences" not in orphaned[0]["metadata"]
    assert len(await items(live, PODS)) == 3


async def _gone(client: Client, path: str) -> bool:
    return (await client.ask("GET", path)).status == 404
