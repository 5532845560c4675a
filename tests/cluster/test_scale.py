"""The scale subresource."""

from tests.cluster.conftest import MERGE_PATCH, Client, make, template

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


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
