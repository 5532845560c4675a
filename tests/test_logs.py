"""Logs: klog's lines for people, JSON for programs, and how much is told."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mooring.logs import configure_logs, get_logger, lines_together, verbosity


def logged(level: int, *, as_json: bool = False) -> list[str]:
    stream = io.StringIO()
    configure_logs(level, as_json=as_json, stream=stream)
    log = get_logger("mooring.test")
    log.debug("detail", pod="default/web")
    log.info("Successfully bound pod to node", pod="default/web", evaluatedNodes=3)
    log.warning('quoted "text"', error="two\nlines")
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(("level", "lines"), [(0, 1), (1, 2), (3, 2), (4, 3), (5, 3)])
def test_how_much_is_told(level, lines):
    assert len(logged(level)) == lines
    assert verbosity() == level


def test_lines_as_klog_writes_them():
    bound, warning = logged(2)
    head = r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+\] "
    assert re.fullmatch(head + r'"Successfully bound pod to node" pod="default/web" evaluatedNodes=3', bound)
    assert warning.startswith("W")
    assert r'"quoted \"text\""' in warning
    assert warning.endswith(r'error="two\nlines"')


def test_lines_for_programs():
    """The keys are those of Kubernetes' components, whose `ts` is in milliseconds."""
    bound, warning = (json.loads(line) for line in logged(2, as_json=True))
    assert abs(bound.pop("ts") / 1000 - time.time()) < 3600
    assert bound == {
        "level": "info",
        "msg": "Successfully bound pod to node",
        "pod": "default/web",
        "evaluatedNodes": 3,
    }
    assert (warning["level"], warning["msg"], warning["err"]) == ("warning", 'quoted "text"', "two\nlines")


def test_what_json_does_not_know_is_written_as_text():
    stream = io.StringIO()
    configure_logs(2, as_json=True, stream=stream)
    get_logger("mooring.test").info("odd", value=object)
    assert json.loads(stream.getvalue())["value"] == "<class 'object'>"


def test_a_traceback_takes_several_lines_as_in_klog() -> None:
    stream = io.StringIO()
    configure_logs(1, as_json=False, stream=stream)
    traceback = '  File "zone.py", line 48, in score\n    return self.zones["missing"]'
    get_logger("mooring.test").warning("plugin failed", plugin="Zone", traceback=traceback)
    assert stream.getvalue().splitlines()[1:] == [
        '\t  File "zone.py", line 48, in score',
        '\t    return self.zones["missing"]',
        " >",
    ]
    assert stream.getvalue().splitlines()[0].endswith('"plugin failed" plugin="Zone" traceback=<')
    stream = io.StringIO()
    configure_logs(1, as_json=True, stream=stream)
    get_logger("mooring.test").warning("plugin failed", plugin="Zone", traceback=traceback)
    assert json.loads(stream.getvalue())["traceback"] == traceback


def test_the_exception_of_a_bug_is_a_field():
    stream = io.StringIO()
    configure_logs(2, as_json=True, stream=stream)
    try:
        raise ValueError("why")
    except ValueError:
        get_logger("mooring.test").exception("failed", pod="a/b")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["msg"], line["pod"]) == ("error", "failed", "a/b")
    assert "ValueError: why" in line["exception"]


def test_plugins_and_libraries_log_in_the_same_format():
    stream = io.StringIO()
    configure_logs(2, as_json=False, stream=stream)
    logging.getLogger("mooring.plugins.Mine").info("%d nodes", 3)
    logging.getLogger("aiohttp.client").info("a detail of a library")
    logging.getLogger("aiohttp.client").warning("slow")
    assert [line.partition("] ")[2] for line in stream.getvalue().splitlines()] == ['"3 nodes"', '"slow"']


def test_configurations_are_undone_in_order():
    """`mooring up` configures logs, and runs `mooring run`, which configures them again."""
    log, outer, inner = get_logger("mooring.test"), io.StringIO(), io.StringIO()
    undo_outer = configure_logs(0, as_json=False, stream=outer)
    undo_inner = configure_logs(5, as_json=False, stream=inner)
    log.debug("one")
    undo_inner()
    log.info("two")
    log.warning("three")
    undo_outer()
    log.warning("four")
    assert ["one" in inner.getvalue(), inner.getvalue().count("\n")] == [True, 1]
    assert ["three" in outer.getvalue(), outer.getvalue().count("\n")] == [True, 1]
    assert verbosity() == 0


def test_a_program_gets_ordinary_records(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="mooring")
    get_logger("mooring.live").info("Preempted pod", victim="a/b", node="n1")
    record = caplog.records[-1]
    assert record.getMessage() == 'Preempted pod victim="a/b" node="n1"'
    assert (record.name, record.levelname, record.filename) == ("mooring.live", "INFO", "test_logs.py")


LIBRARY = """
import contextlib
import mooring
from mooring.framework import Plugin
from mooring.logs import get_logger
from mooring.testing import make_node, make_pod, run_plugin

class Broken(Plugin):
    def filter(self, state, pod, node):
        raise KeyError("missing")

with contextlib.suppress(Exception):
    run_plugin(Broken, make_pod("p").obj(), nodes=[make_node("n1").capacity(cpu="1", pods="9").obj()])
for write in (get_logger("mooring.live").error, get_logger("mooring.scheduler").info):
    write("an event", node="n1")
"""


def test_the_library_and_the_test_kit_are_silent_by_default():
    done = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_all_modules_log_through_standard_logging():
    files = [path for folder in ("src", "examples") for path in Path(folder).rglob("*.py")]
    assert [str(path) for path in files if re.search(r"^\s*(import|from) structlog", path.read_text(), re.M)] == []


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("text", "most"),
    [("a" * 10**6, 9000), ("\ud800", 400), ("\x1b[2J\r\x00", 400), ("\u202e", 400), ('"\\\n' * 10**5, 30_000)],
)
def test_values_that_users_choose_cannot_break_a_log(text, most, as_json, capsys):
    stream = io.StringIO()
    configure_logs(0, as_json=as_json, stream=stream)
    get_logger("mooring.test").warning("an object is invalid", name=text)
    (line,) = stream.getvalue().splitlines()
    line.encode()
    assert len(line) < most
    assert as_json or line.isprintable()
    assert capsys.readouterr().err == ""


def test_other_handlers_and_filters_get_the_records_too():
    stream, records = io.StringIO(), []
    configure_logs(2, as_json=False, stream=stream)
    root, log = logging.getLogger("mooring"), get_logger("mooring.test")
    other = logging.Handler()
    other.emit = records.append
    root.addHandler(other)
    try:
        log.info("one", pod="a")
    finally:
        root.removeHandler(other)
    log.info("two", pod="b")
    assert [record.msg.text for record in records] == ["one"]
    assert [line.rpartition("] ")[2] for line in stream.getvalue().splitlines()] == ['"one" pod="a"', '"two" pod="b"']


def test_no_record_is_made_if_nothing_but_the_command_line_reads_it():
    code = (
        "import logging; from mooring.logs import configure_logs, get_logger; configure_logs(2, as_json=False); "
        "logging.Logger.makeRecord = None; get_logger('mooring.test').info('one', pod='a')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.rpartition("] ")[2]) == (0, '"one" pod="a"\n')


class _Writes(io.StringIO):
    def __init__(self):
        super().__init__()
        self.written = []

    def write(self, text):
        self.written.append(text.count("\n"))
        return super().write(text)


@contextlib.contextmanager
def no_other_handlers():
    """Remove the handlers of pytest, so that lines are written without records."""
    root = logging.getLogger()
    others, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = others


def test_lines_of_a_block_are_written_together_and_in_order():
    stream, log = _Writes(), get_logger("mooring.test")
    with no_other_handlers():
        configure_logs(2, as_json=False, stream=stream)
        with contextlib.suppress(ZeroDivisionError), lines_together():
            log.info("one")
            with lines_together():
                log.info("two")
            assert stream.written == []
            raise ZeroDivisionError
        log.info("three")
        assert stream.written == [2, 1]
        with lines_together():
            log.info("four")
            logging.getLogger("library").warning("five")  # a record
            log.info("six")
        with lines_together():
            pass
    assert re.findall(r"(\w+)\"?\n", stream.getvalue()) == ["one", "two", "three", "four", "five", "six"]


def test_lines_that_cannot_be_written_together_are_reported(capsys):
    stream, log = io.StringIO(), get_logger("mooring.test")
    with no_other_handlers():
        configure_logs(2, as_json=False, stream=stream)
        with lines_together():
            log.info("lost")
            stream.close()
    assert "lost" in capsys.readouterr().err


def test_lines_name_their_process_after_a_fork():
    log, (reading, writing) = get_logger("mooring.test"), os.pipe()
    with os.fdopen(writing, "w") as stream:
        configure_logs(2, as_json=False, stream=stream)
        log.info("parent")
        child = os.fork()
        if not child:
            log.info("child")
            os._exit(0)
        os.waitpid(child, 0)
    with os.fdopen(reading) as lines:
        found = re.findall(r"(\d+)\] ", lines.read())
    assert found == [str(os.getpid()), str(child)]
