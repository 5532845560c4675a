"""The objects of a recording at its end, also after a restart of the process that recorded."""

from __future__ import annotations

from pathlib import Path

from mooring.recording.recording_file import RecordingWriter, objects_at_end
from mooring.recording.records import Header, Kind
from mooring.simulation.sources import read
from mooring.testing import make_node, make_pod


def test_objects_at_the_end_of_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.mooring"
    header = Header(source="mooring record")
    first = RecordingWriter(path, header, time=1.0)
    for name in ("deleted", "gone-meanwhile", "stays"):
        first.add((Kind.PUT, 1.0, "Pod", make_pod(name).obj()))
    first.add((Kind.SYNCED, 1.0))
    first.add((Kind.REMOVE, 2.0, "Pod", make_pod("deleted").obj()))
    first.close()
    second = RecordingWriter(path, header, time=3.0)
    second.add((Kind.PUT, 3.0, "Node", make_node("n").obj()))
    second.add((Kind.PUT, 3.0, "Pod", make_pod("stays").node("n").obj()))
    second.add((Kind.SYNCED, 3.0))
    second.add((Kind.PUT, 4.0, "NotKnown", {"metadata": {"name": "x"}}))
    second.close()
    assert {(item.kind, item.name) for item in objects_at_end(path)} == {("Node", "n"), ("Pod", "stays")}
    assert {given.document["metadata"]["name"] for given in read([str(path)])} == {"n", "stays"}
