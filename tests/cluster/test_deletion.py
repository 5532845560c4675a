"""Deletion of objects."""

from tests.cluster.conftest import MERGE_PATCH, PODS, Client, make, pod

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_deletion_waits_for_finalizers(client: Client) -> None:
    """The object stays, marked, until the last one is gone; none may be added meanwhile."""
    body = {**make("v1", "ConfigMap", "a"), "metadata": {"name": "a", "finalizers": ["ex.io/f"]}}
    await client.create(CONFIG_MAPS, body)
    marked = await client.delete(f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"]
    answer = await client.ask(
        "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["ex.io/f", "ex.io/g"]}}, content=MERGE_PATCH
    )
    assert answer.status == 422
    await client.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": []}})
    assert (await client.ask("GET", f"{CONFIG_MAPS}/a")).status == 404


async def test_pods_are_deleted_gracefully(client: Client) -> None:
    """One that runs somewhere gets time; one that does not is gone at once."""
    await client.create(PODS, pod("bound", nodeName="n", terminationGracePeriodSeconds=7))
    await client.create(PODS, pod("free"))
    marked = await client.delete(f"{PODS}/bound")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert (await client.ask("GET", f"{PODS}/bound")).status == 200
    await client.delete(f"{PODS}/bound?gracePeriodSeconds=0")
    assert (await client.ask("GET", f"{PODS}/bound")).status == 404
    await client.delete(f"{PODS}/free")
    assert (await client.ask("GET", f"{PODS}/free")).status == 404


async def test_deletion_can_be_conditional(client: Client) -> None:
    """On the object being the one that was meant."""
    await client.create(CONFIG_MAPS, make("v1", "ConfigMap", "a"))
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}}
    answer = await client.ask("DELETE", f"{CONFIG_MAPS}/a", options)
    assert answer.status == 409
    deleted = await client.delete(f"{CONFIG_MAPS}/a")
    assert (deleted["status"], deleted["details"]["name"]) == ("Success", "a")


async def test_whole_collections_are_deleted_by_selector(client: Client) -> None:
    """What is not chosen stays."""
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        body = {**make("v1", "ConfigMap", name), "metadata": {"name": name, "labels": {"l": label}}}
        await client.create(CONFIG_MAPS, body)
    await client.delete(f"{CONFIG_MAPS}?labelSelector=l%3Dx")
    assert [each["metadata"]["name"] for each in (await client.get(CONFIG_MAPS))["items"]] == ["b"]
