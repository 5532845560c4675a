"""Reading the files that commands are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli.input_files import fail, read_setup_files, read_text
from mooring.loading import Requested

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_text_may_be_utf_8_or_utf_16(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "file"
    file.write_bytes("Zoë\n".encode(encoding))
    assert read_text(str(file)) == "Zoë\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"a\nb\n\xff\n", "3: not UTF-8 text; save the file as UTF-8")],
)
def test_a_file_that_cannot_be_read_ends_the_command_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        read_text(str(file))
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(str(file))
    assert line.endswith(message)


def test_only_files_can_be_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEAD + "parallelism: 3\n")
    setup, files = read_setup_files(str(file), Requested())
    assert setup.config.parallelism == 3
    assert files is not None
    with file.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        setup, files = read_setup_files("-", Requested())
    assert (setup.config.parallelism, files) == (3, None)


def test_all_errors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fail(["one", "two"])
    assert capsys.readouterr().err == "one\ntwo\n"
