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
