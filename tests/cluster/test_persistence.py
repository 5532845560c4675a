"""Data on disk: back after a restart, whole after a kill, one message where it cannot be used."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import textwrap
from pathlib import Path

import aiohttp
import pytest

from mooring.cluster import DataError, EmbeddedCluster
from tests.cluster.conftest import PODS, Client, make, pod
from tests.waiting import PATIENCE

SERVER = textwrap.dedent(
    """
    import asyncio, json, sys
    from pathlib import Path
    from mooring.cluster import EmbeddedCluster

    async def main():
        cluster = EmbeddedCluster(0, Path(sys.argv[1]))
        await cluster.start()
        print(json.dumps([cluster.url, cluster.token, cluster.authority]), flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
    """
)


async def test_everything_is_back_after_a_restart(data: Path) -> None:
    """Objects, versions, custom resources, the token and the certificate; old watches get a 410."""
    from tests.cluster.test_custom_resources import DEFINITIONS, FOOS, definition, foo

    first = EmbeddedCluster(0, data)
    await first.start()
    client = Client(first)
    await client.create(DEFINITIONS, definition())
    await client.create(FOOS, foo(n=1))
    await client.create(PODS, pod("kept"))
    await client.create(PODS, pod("deleted"))
    await client.delete(f"{PODS}/deleted")
    before = await client.get(f"{PODS}/kept")
    version = int((await client.get(PODS))["metadata"]["resourceVersion"])
    await client.close()
    await first.stop()

    second = EmbeddedCluster(0, data)
    await second.start()
    client = Client(second)
    try:
        assert (second.token, second.authority) == (first.token, first.authority)
        assert await client.get(f"{PODS}/kept") == before
        assert (await client.ask("GET", f"{PODS}/deleted")).status == 404
        assert (await client.get(f"{FOOS}/f"))["spec"] == {"n": 1, "s": "a"}
        assert int((await client.create(PODS, pod("new")))["metadata"]["resourceVersion"]) > version
        async with client.watch(f"{PODS}?watch=true&resourceVersion={version - 1}") as stream:
            assert (await stream.event())[0] == "ERROR"
    finally:
        await client.close()
        await second.stop()


def _modes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in (folder, *folder.iterdir())}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
async def test_only_the_owner_can_read_the_data(tmp_path: Path) -> None:
    """It contains the tokens. Files and folders of an earlier version become private too."""
    before = os.umask(0)
    try:
        for folder in (tmp_path / "new" / "data", tmp_path / "old", tmp_path / "shared"):
            if folder.name != "data":
                folder.mkdir(mode=0o777)
                (folder / "cluster.db").touch(mode=0o666)
            if folder.name == "shared":
                (folder / "notes.txt").touch(mode=0o644)
            cluster = EmbeddedCluster(0, folder)
            await cluster.start()
            running = _modes(folder)
            await cluster.stop()
            shared = folder.name == "shared"
            assert running.pop(folder.name) == (0o777 if shared else 0o700)
            assert running.pop("notes.txt", None) == (0o644 if shared else None)
            assert set(running.values()) == {0o600}, running
            assert "cluster.db-wal" in running
    finally:
        os.umask(before)


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="needs root, to make a file of another user")
async def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.db").touch()
    os.chown(tmp_path / "cluster.db", 65534, 65534)
    with pytest.raises(DataError, match="belongs to another user: use another --data-dir"):
        await EmbeddedCluster(0, tmp_path).start()


async def _write(session: aiohttp.ClientSession, url: str, acknowledged: dict[str, str], offset: int) -> None:
    """Create and change objects as fast as the server answers, and note what it acknowledged."""
    path = f"{url}/api/v1/namespaces/default/configmaps"
    number = offset
    while True:
        number += 10
        body = make("v1", "ConfigMap", f"c{number}", data={"n": "0"})
        async with session.post(path, json=body) as response:
            acknowledged[f"c{number}"] = (await response.json())["metadata"]["resourceVersion"]
        body["data"]["n"] = "1"
        async with session.put(f"{path}/c{number}", json=body) as response:
            acknowledged[f"c{number}"] = (await response.json())["metadata"]["resourceVersion"]


@pytest.mark.parametrize("objects", [10, 100])
async def test_nothing_acknowledged_is_lost_by_a_kill(data: Path, objects: int) -> None:
    """SIGKILL in the middle of many writes: what was answered is there, at the version that was answered."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(data), stdout=subprocess.PIPE, env={**os.environ}
    )
    assert server.stdout is not None
    url, token, authority = json.loads(await server.stdout.readline())
    acknowledged: dict[str, str] = {}
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}, connector=connector) as session:
        writers = [asyncio.create_task(_write(session, url, acknowledged, offset)) for offset in range(8)]
        async with asyncio.timeout(PATIENCE):
            while len(acknowledged) < objects:
                await asyncio.sleep(0.01)
        server.send_signal(signal.SIGKILL)
        await server.wait()
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)

    cluster = EmbeddedCluster(0, data, controllers=False)
    await cluster.start()
    try:
        for name, version in acknowledged.items():
            stored = cluster.store.get("configmaps", "default", name)
            assert stored is not None, name
            assert stored.version >= int(version), name
        assert cluster.store.version >= max(map(int, acknowledged.values()))
    finally:
        await cluster.stop()


async def test_watches_hear_only_of_what_is_safe(data: Path) -> None:
    """A change that a crash could undo is told to nobody."""
    cluster = EmbeddedCluster(0, data, controllers=False)
    await cluster.start()
    try:
        heard: list[int] = []
        cluster.store.subscribe(lambda _, change: heard.append(change.version))
        cluster.store.put("configmaps", "default", "x", make("v1", "ConfigMap", "x"))
        assert heard == []
        await cluster.api.flush()
        assert heard == [cluster.store.version]
    finally:
        await cluster.stop()


async def test_two_clusters_cannot_share_a_folder(data: Path) -> None:
    """The second one says so in one sentence."""
    first = EmbeddedCluster(0, data, controllers=False)
    await first.start()
    try:
        with pytest.raises(DataError, match="is another embedded cluster using it"):
            await EmbeddedCluster(0, data).start()
    finally:
        await first.stop()


async def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """Is named, with the reason."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DataError, match="cannot be used as data folder"):
        await EmbeddedCluster(0, file).start()
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "cluster.db").write_text("this is no database, whatever its name says, and long enough to be sure")
    with pytest.raises(DataError, match="is it no data of Mooring's"):
        await EmbeddedCluster(0, folder).start()


async def test_controllers_do_not_trip_over_what_is_not_safe_yet(data: Path) -> None:
    """A ReplicaSet that makes pods in two goes, the second before the first is on disk, makes none twice."""
    cluster = EmbeddedCluster(0, data)
    await cluster.start()
    client = Client(cluster)
    path = "/apis/apps/v1/namespaces/default/replicasets"
    container = {"name": "c", "image": "x"}
    spec = {
        "replicas": 510,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
    }
    most = 0

    def count(storage: str, change: object) -> None:
        nonlocal most
        most = max(most, cluster.store.count("pods"))

    cluster.store.subscribe_immediately(count)
    try:
        await client.create(path, make("apps/v1", "ReplicaSet", "r", spec=spec))

        async def settled() -> bool:
            return bool((await client.get(f"{path}/r"))["status"].get("replicas") == 510)

        await client.wait(settled)
        assert most == 510
    finally:
        await client.close()
        await cluster.stop()


async def test_the_cluster_recovers_after_a_full_disk(data: Path) -> None:
    """Requests fail while the disk is full. When it has space again, nothing that was acknowledged is missing."""
    cluster = EmbeddedCluster(0, data, controllers=False)
    await cluster.start()
    client = Client(cluster)
    path = "/api/v1/namespaces/default/configmaps"
    journal = cluster.api.journal
    assert journal is not None
    acknowledged = []

    async def create(number: int) -> bool:
        answer = await client.ask("POST", path, make("v1", "ConfigMap", f"c{number}", data={"x": "x" * 20_000}))
        if answer.status == 201:
            acknowledged.append(f"c{number}")
        else:
            assert (answer.status, answer.body["reason"]) == (503, "ServiceUnavailable"), answer.body
            assert "database or disk is full; the embedded cluster tries again" in answer.message
            assert answer.body["details"]["retryAfterSeconds"] == 1
        return answer.status == 201

    try:
        connection = journal._open_connection()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        number = 0
        while await create(number):
            number += 1
        assert acknowledged
        assert (await client.ask("GET", path)).status == 503
        connection.execute("PRAGMA max_page_count = 1000000")
        await client.wait(lambda: create(number + 1))
        names = {each["metadata"]["name"] for each in (await client.get(path))["items"]}
        assert names >= set(acknowledged)
    finally:
        await client.close()
        await cluster.stop()
    again = EmbeddedCluster(0, data, controllers=False)
    await again.start()
    try:
        assert all(again.store.get("configmaps", "default", name) for name in acknowledged)
    finally:
        await again.stop()
