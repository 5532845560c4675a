from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.framework.plugin_errors import HangsError
from mooring.framework.plugin_frames import author_frames
from mooring.loading.deadline import within
from mooring.loading.module_importer import root_of
from tests.waiting import PATIENCE


def fail() -> None:
    raise KeyError("x")


def test_the_result_or_the_exception_of_a_call() -> None:
    assert within(10, lambda: 3) == 3
    with pytest.raises(KeyError):
        within(10, fail)


def test_a_timeout_error_of_the_call_itself_is_not_a_missed_deadline() -> None:
    def call() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        within(10, call)


def test_a_missed_deadline_has_the_line_that_hangs() -> None:
    release = threading.Event()

    def hanging() -> bool:
        return release.wait()

    try:
        with pytest.raises(HangsError, match=r"did not return within 1 s") as caught:
            within(1, hanging, {root_of(__name__)})
    finally:
        release.set()
    innermost = author_frames(caught.value)[-1]
    place = (innermost.filename, innermost.lineno, innermost.name)
    assert place == (__file__, hanging.__code__.co_firstlineno + 1, "hanging")


def test_a_file_that_hangs_when_it_is_imported_is_reported_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.cli.plugin_check._LOAD_SECONDS", 1.5)
    file = tmp_path / "mine.py"
    file.write_text("import time\nwhile True:\n    time.sleep(0.01)\n")
    result = CliRunner().invoke(main, ["plugin", "check", str(file)])
    assert result.exit_code == 1
    assert re.match(rf"{file}:[23]: loading the plugin did not return within 1\.5 s", result.output), result.output


def test_a_call_that_hangs_is_interrupted() -> None:
    ended = threading.Event()

    def hanging() -> None:
        try:
            while True:
                pass
        finally:
            ended.set()

    with pytest.raises(HangsError):
        within(0.05, hanging)
    assert ended.wait(PATIENCE)
