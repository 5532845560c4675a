"""Deployments."""

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


async def test_deployments_roll_out_and_back(live: Client) -> None:
    """A new template makes a new set; the old one stays for a way back."""
    await live.create(DEPLOYMENTS, _deployment())
    first = await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert [each["type"] for each in first["status"]["conditions"]] == ["Available", "Progressing"]
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}
    await live.patch(f"{DEPLOYMENTS}/d", image)
    second = await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert second["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    sizes = sorted(each["spec"]["replicas"] for each in await items(live, REPLICA_SETS))
    assert sizes == [0, 3]
    assert {each["spec"]["containers"][0]["image"] for each in await items(live, PODS)} == {"new"}
    back = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}}
    await live.patch(f"{DEPLOYMENTS}/d", back)
    third = await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert third["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert len(await items(live, REPLICA_SETS)) == 2


async def test_a_roll_out_keeps_pods_serving(live: Client) -> None:
    """Never fewer than allowed, never more than the surge."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    await live.create(DEPLOYMENTS, _deployment(replicas=4, strategy=rolling))
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    seen: list[tuple[int, int]] = []

    def note(document: dict[str, Any]) -> bool:
        seen.append((document["status"].get("availableReplicas", 0), document["status"].get("replicas", 0)))
        return _rolled_out(document)

    await live.patch(
        f"{DEPLOYMENTS}/d", {"spec": {"template": {"spec": {"priorityClassName": "system-node-critical"}}}}
    )
    await until(live, f"{DEPLOYMENTS}/d", note)
    assert min(available for available, _ in seen) >= 3
    assert max(replicas for _, replicas in seen) <= 5


async def test_recreate_stops_before_it_starts(live: Client) -> None:
    """Old pods are all gone before the first new one is there."""
    await live.create(DEPLOYMENTS, _deployment(replicas=2, strategy={"type": "Recreate"}))
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    version = (await live.get(PODS))["metadata"]["resourceVersion"]
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}
    await live.patch(f"{DEPLOYMENTS}/d", image)
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    kinds: list[tuple[str, str]] = []
    async with live.watch(f"{PODS}?watch=true&resourceVersion={version}") as stream:
        while len([1 for kind, _ in kinds if kind == "ADDED"]) < 2:
            kind, each = await stream.event()
            kinds.append((kind, each["spec"]["containers"][0]["image"]))
    gone = [index for index, event in enumerate(kinds) if event == ("DELETED", "busybox")]
    made = [index for index, event in enumerate(kinds) if event == ("ADDED", "new")]
    assert len(gone) == 2
    assert max(gone) < min(made)


async def test_deployments_adopt_and_release_replica_sets(live: Client) -> None:
    """A ReplicaSet that a deleted Deployment left behind belongs to the next one; no pod is restarted."""
    await live.create(DEPLOYMENTS, _deployment())
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    pods = {each["metadata"]["uid"] for each in await items(live, PODS)}
    (before,) = await items(live, REPLICA_SETS)
    await live.delete(f"{DEPLOYMENTS}/d", {"propagationPolicy": "Orphan"})
    path = f"{REPLICA_SETS}/{before['metadata']['name']}"
    await until(live, path, lambda each: "ownerReferences" not in each["metadata"])
    created = await live.create(DEPLOYMENTS, _deployment())
    adopted = await until(live, path, lambda each: each["metadata"].get("ownerReferences"))
    assert adopted["metadata"]["ownerReferences"][0]["uid"] == created["metadata"]["uid"]
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert {each["metadata"]["uid"] for each in await items(live, PODS)} == pods
    assert len(await items(live, REPLICA_SETS)) == 1
    await live.patch(path, {"metadata": {"labels": {"a": "other"}}})
    await until(live, path, lambda each: "ownerReferences" not in each["metadata"])
    # The released ReplicaSet has the name that the next one would have.
    after = await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    assert after["status"]["collisionCount"] == 1


async def test_a_write_to_the_status_keeps_metadata(client: Client) -> None:
    """Of workloads except the labels of Deployments, and not of custom resources."""
    from tests.cluster.test_custom_resources import DEFINITIONS, FOOS, definition, foo

    await client.create(DEPLOYMENTS, _deployment())
    await client.create(DEFINITIONS, definition())
    await client.create(FOOS, foo(n=1))
    change = {"metadata": {"annotations": {"x": "y"}, "labels": {"l": "m"}}, "status": {"replicas": 7}}
    deployment = await client.patch(f"{DEPLOYMENTS}/d/status", change)
    assert deployment["metadata"]["annotations"] == {"x": "y"}
    assert "labels" not in deployment["metadata"]
    assert deployment["status"]["replicas"] == 7
    custom = await client.patch(f"{FOOS}/f/status", change)
    assert not {"annotations", "labels"} & set(custom["metadata"])
