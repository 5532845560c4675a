"""Declarations of kinds."""

from tests.cluster.conftest import Client, make


async def test_what_nothing_is_done_about_is_said(live: Client) -> None:
    """A NetworkPolicy is stored, and its maker is told that this is all."""
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    answer = await live.ask("POST", path, make("networking.k8s.io/v1", "NetworkPolicy", "n", spec={"podSelector": {}}))
    assert answer.status == 201
    assert any("has no controller for NetworkPolicies" in each for each in answer.warnings)
