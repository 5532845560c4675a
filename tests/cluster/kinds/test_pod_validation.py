"""Validation of pods."""

from tests.cluster.conftest import MERGE_PATCH, PODS, Client, pod


async def test_pods_keep_their_spec(client: Client) -> None:
    """Images may change and tolerations be added; a gated pod may become pickier; the rest is refused."""
    await client.create(PODS, pod("a", schedulingGates=[{"name": "g"}]))
    await client.patch(f"{PODS}/a", {"spec": {"nodeSelector": {"x": "y"}}})
    await client.patch(f"{PODS}/a", {"spec": {"schedulingGates": []}})
    tolerations = [{"key": "k", "operator": "Exists"}]
    assert len((await client.patch(f"{PODS}/a", {"spec": {"tolerations": tolerations}}))["spec"]["tolerations"]) == 3
    for change, message in (
        ({"nodeSelector": {"x": "z"}}, "pod updates may not change fields other than"),
        ({"containers": []}, "pod updates may not add or remove containers"),
        ({"schedulingGates": [{"name": "new"}]}, "only deletion is allowed, but found new scheduling gate 'new'"),
    ):
        answer = await client.ask("PATCH", f"{PODS}/a", {"spec": change}, content=MERGE_PATCH)
        assert (answer.status, message in answer.message) == (422, True), answer.body
