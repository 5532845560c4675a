"""GET requests: tables and metadata."""

from tests.cluster.conftest import PODS, TABLE, Client, pod


async def _pods(client: Client) -> None:
    for name, label, node in (("a", "x", ""), ("b", "y", "n1"), ("c", "x", "n1")):
        body = pod(name, **({"nodeName": node} if node else {}))
        body["metadata"]["labels"] = {"l": label}
        await client.create(PODS, body)


async def test_tables(client: Client) -> None:
    """What `kubectl get` prints, as list and as watch."""
    await _pods(client)
    table = await client.get(PODS, accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]][:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][1]["cells"][:4] == ["b", "0/1", "Pending", "0"]
    assert table["rows"][1]["cells"][6] == "n1"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    async with client.watch(f"{PODS}?watch=true", accept=TABLE) as stream:
        kind, first = await stream.event()
        assert (kind, first["kind"], first["rows"][0]["cells"][0]) == ("ADDED", "Table", "a")
        assert first["columnDefinitions"]
        _, second = await stream.event()
        assert (second["columnDefinitions"], second["rows"][0]["cells"][0]) == ([], "b")


async def test_metadata_only(client: Client) -> None:
    """For clients that need no more."""
    await _pods(client)
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = await client.get(PODS, accept=accept)
    assert found["kind"] == "PartialObjectMetadataList"
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}
