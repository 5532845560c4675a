"""ControllerRevisions, as DaemonSets create them."""

from tests.cluster.conftest import MERGE_PATCH, STRATEGIC_PATCH, Client, make
from tests.cluster.kinds.test_daemon_set import (
    DAEMON_SETS,
    NEW_IMAGE,
    REVISIONS,
    daemon_set,
    is_rolled_out,
    revisions_of,
    until_daemons,
)


async def test_the_history_is_limited(live: Client) -> None:
    await live.create(DAEMON_SETS, daemon_set(revisionHistoryLimit=1))
    await until_daemons(live, f"{DAEMON_SETS}/d", is_rolled_out)
    for image in ("two", "three", "four"):
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
        await live.patch(f"{DAEMON_SETS}/d", change, STRATEGIC_PATCH)
        await until_daemons(live, f"{DAEMON_SETS}/d", is_rolled_out)
    assert sorted(await revisions_of(live)) == [3, 4]


async def test_revisions_are_objects_of_the_api(live: Client) -> None:
    """As in Kubernetes' own test of their lifecycle."""
    await live.create(DAEMON_SETS, daemon_set())
    await until_daemons(live, f"{DAEMON_SETS}/d", is_rolled_out)
    first = (await revisions_of(live))[1]
    patched = await live.patch(f"{REVISIONS}/{first['metadata']['name']}", {"metadata": {"labels": {"x": "y"}}})
    assert patched["metadata"]["labels"]["x"] == "y"
    changed = await live.ask("PATCH", f"{REVISIONS}/{first['metadata']['name']}", {"data": {}}, content=MERGE_PATCH)
    assert changed.status == 200
    changed = await live.ask(
        "PATCH", f"{REVISIONS}/{first['metadata']['name']}", {"data": {"a": "b"}}, content=MERGE_PATCH
    )
    assert changed.status == 422
    body = {**make("apps/v1", "ControllerRevision", "copy"), "data": first["data"], "revision": 2}
    body["metadata"] |= {key: first["metadata"][key] for key in ("labels", "ownerReferences")}
    await live.create(REVISIONS, body)
    assert sorted(await revisions_of(live)) == [1, 2]
    await live.delete(f"{REVISIONS}/{first['metadata']['name']}")
    await live.patch(f"{DAEMON_SETS}/d", NEW_IMAGE, STRATEGIC_PATCH)
    await until_daemons(live, f"{DAEMON_SETS}/d", is_rolled_out)
    assert sorted(await revisions_of(live)) == [2, 3]
    await live.delete(
        f"{REVISIONS}?labelSelector=controller-revision-hash={first['metadata']['labels']['controller-revision-hash']}"
    )
    assert sorted(await revisions_of(live)) == [3]
