"""The event recorder."""

from typing import Any

from tests.cluster.conftest import Client, make, template
from tests.cluster.reconciling import items, until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


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


async def test_controllers_write_events(live: Client) -> None:
    """In the form of both groups."""
    await live.create(DEPLOYMENTS, _deployment(replicas=1))
    await until(live, f"{DEPLOYMENTS}/d", _rolled_out)
    events = await items(live, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind%3DDeployment")
    assert [each["reason"] for each in events] == ["ScalingReplicaSet"]
    same = await items(
        live, "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.kind%3DDeployment"
    )
    assert same[0]["note"] == events[0]["message"]
    assert same[0]["apiVersion"] == "events.k8s.io/v1"
