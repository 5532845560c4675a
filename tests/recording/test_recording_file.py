"""The file of a recording: what is written is read, and a torn or damaged end is cut."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.recording.recording_file import RecordingReader, RecordingWriter
from mooring.recording.records import Header, Kind, ObjectDecoder, RecordingError, redacted
from mooring.testing import make_pod

HEADER = Header(source="mooring run", seed=7)


class Full(io.BufferedReader):
    """A file on a full disk."""

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def written(path: Path, names: list[str], *, time: float = 1.0) -> RecordingWriter:
    writer = RecordingWriter(path, HEADER, time=time)
    for name in names:
        writer.add((Kind.PUT, time, "Pod", make_pod(name).obj()))
        writer.flush()
    writer.close()
    return writer


def names(path: Path) -> list[Any]:
    decode = ObjectDecoder()
    found: list[Any] = []
    for record in RecordingReader(path):
        if record[0] == Kind.PUT:
            item = decode(record[2], record[3])
            assert isinstance(item, Pod)
            found.append(item.name)
        else:
            found.append(Kind(record[0]))
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.mooring"
    writer = written(path, ["a", "b"])
    assert names(path) == [Kind.START, "a", "b"]
    assert RecordingReader(path).start() == (1.0, HEADER)
    assert writer.records == 3
    assert path.stat().st_mode & 0o077 == 0, "only the owner may read the names of all tenants"


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_a_torn_end_is_left_out_and_cut_before_appending(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "a.mooring"
    written(path, ["a", "b"])
    data = path.read_bytes()
    path.write_bytes(data[:-lost])
    reader = RecordingReader(path)
    assert len(list(reader)) == 2
    assert "left out" in reader.problem
    written(path, ["c"], time=2.0)
    assert names(path) == [Kind.START, "a", Kind.START, "c"]
    assert RecordingReader(path).problem == ""


def test_a_damaged_block_ends_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.mooring"
    written(path, ["a", "b"])
    data = bytearray(path.read_bytes())
    data[-3] ^= 255
    path.write_bytes(data)
    assert names(path) == [Kind.START, "a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"apiVersion: v1\n", "not a recording"),
        (b"mooring-recording 9 lzma\n", "the format is '9 lzma'"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.mooring"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        RecordingReader(path)
    with pytest.raises(RecordingError, match=message):
        RecordingWriter(path, HEADER, time=1.0)
    assert path.read_bytes() == content


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"b\.mooring: No such file"):
        RecordingReader(tmp_path / "b.mooring")


def test_a_full_disk_ends_the_recording_but_not_the_scheduler(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.mooring"
    written(path, ["a"])
    writer = RecordingWriter(path, HEADER, time=1.0)
    before, writer._file = writer._file, Full(path.open("rb"))
    writer.add((Kind.TICK, 2.0))
    writer.close()
    before.close()
    assert writer.problem == "No space left on device"
    assert "scheduling continues" in caplog.text


def test_a_value_that_cannot_be_encoded_ends_the_recording_and_keeps_what_was_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.mooring"
    writer = RecordingWriter(path, HEADER, time=1.0)
    writer.add((Kind.PUT, 2.0, "Pod", make_pod("a").obj()))
    writer.add((Kind.PUT, 2.0, "Quota", {"limit": 10**30}))  # a custom resource
    writer.add((Kind.PUT, 3.0, "Pod", make_pod("b").obj()))
    writer.close()
    assert "cannot be encoded" in writer.problem
    assert "scheduling continues" in caplog.text
    assert names(path) == [Kind.START, "a"], "a recording with a gap could not be replayed"
    assert RecordingReader(path).problem == ""


def test_the_applied_manifest_is_not_recorded() -> None:
    pod = make_pod("a").annotation({"kubectl.kubernetes.io/last-applied-configuration": "secret"}).obj()
    assert dict(redacted(pod).annotations) == {}
