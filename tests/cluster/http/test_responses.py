"""Content negotiation."""

from tests.cluster.conftest import PODS, Client


async def test_formats_that_are_not_spoken(client: Client) -> None:
    """Protobuf alone is refused; with JSON as second choice, JSON it is."""
    protobuf = "application/vnd.kubernetes.protobuf"
    assert (await client.ask("GET", PODS, accept=protobuf)).status == 406
    assert (await client.ask("GET", PODS, accept=f"{protobuf},application/json")).status == 200
