"""Recordings of a running scheduler, and of a cluster from watches; replays of both."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from mooring.api.pod import Pod
from mooring.cluster.request_context import system_context
from mooring.config import default_config
from mooring.kube import Client, load_access
from mooring.live import LiveScheduler
from mooring.live.recording import LiveRecording, WatchRecorder, header_of
from mooring.recording.recording_file import RecordingWriter
from mooring.recording.tables import rows
from mooring.simulation.replay import Replay
from tests.live.embedded import Embedded
from tests.waiting import PATIENCE, until


def create_pod(embedded: Embedded, name: str, *, cpu: str = "100m", **spec: Any) -> None:
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": cpu}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"value":"hunter2"}'},
        },
        "spec": {"containers": [container], **spec},
    }
    embedded.cluster.api.registry.create(embedded.cluster.api.mapper.of("pods"), "default", pod, system_context())


async def test_a_recording_of_a_scheduler_is_repeated_decision_by_decision(embedded: Embedded, tmp_path: Path) -> None:
    """Ties, rejected pods that an event requeues, preemption and a gate."""
    config = default_config()
    recording = LiveRecording(tmp_path / "records", config)
    scheduler = LiveScheduler(
        config, load_access(kubeconfig=embedded.kubeconfig), whole_process=False, recording=recording
    )
    task = asyncio.create_task(scheduler.run())
    await asyncio.wait_for(scheduler.ready.wait(), PATIENCE)
    for number in range(30):
        create_pod(embedded, f"tie-{number}")
    create_pod(embedded, "gated", schedulingGates=[{"name": "example.com/wait"}])
    create_pod(embedded, "huge", cpu="1000")
    create_pod(embedded, "elsewhere", nodeSelector={"disk": "ssd"})
    for number in range(3):
        create_pod(embedded, f"filler-{number}", cpu="28", terminationGracePeriodSeconds=0)
    for number in range(30):
        await embedded.node_of(f"tie-{number}")
    for number in range(3):
        await embedded.node_of(f"filler-{number}")
    create_pod(embedded, "important", cpu="28", priorityClassName="system-cluster-critical")
    await embedded.message_of("huge")
    await embedded.message_of("elsewhere")
    await embedded.node_of("important")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert recording.writer.problem == ""
    result = await Replay(recording.writer.path, plugins={}, files=()).run()
    assert result.differences == []
    assert result.placed == 34
    assert result.failed >= 3
    decided = rows(recording.writer.path, "decisions")
    assert {row["pod"] for row in decided if row["victims"]} == {"default/important"}
    assert len({row["node"] for row in decided if row["pod"].startswith("default/tie-")}) > 1


async def test_a_cluster_is_recorded_from_watches_without_values_of_variables(
    embedded: Embedded, tmp_path: Path
) -> None:
    create_pod(embedded, "present")
    path = tmp_path / "cluster.mooring"
    writer = RecordingWriter(path, header_of(default_config(), source="mooring record"), time=time.time())
    async with Client(load_access(kubeconfig=embedded.kubeconfig)) as client:
        recorder = WatchRecorder(client, writer)
        task = asyncio.create_task(recorder.run())
        await asyncio.wait_for(recorder.synced.wait(), PATIENCE)
        before = writer.records
        create_pod(embedded, "later")
        await client.delete(Pod, "present", namespace="default", grace_seconds=0)
        await until(lambda: writer.records >= before + 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = [(row["event"], row.get("name")) for row in rows(path, "events") if row.get("kind") == "Pod"]
    assert ("put", "present") in found
    assert ("put", "later") in found
    assert ("remove", "present") in found
    assert b"hunter2" not in b"".join(_blocks(path))


def _blocks(path: Path) -> list[bytes]:
    import zlib

    data = path.read_bytes()
    place = data.index(b"\n") + 1
    found = []
    while place < len(data):
        length = int.from_bytes(data[place : place + 4], "little")
        found.append(zlib.decompress(data[place + 8 : place + 8 + length]))
        place += 8 + length
    return found
