"""Logs: klog's lines for people, JSON for programs, and how much is told."""

from __future__ import annotations

import io
import json
import re
import time

import pytest
import structlog

from mooring.observe.logs import configure_logs, verbosity


def logged(level: int, *, as_json: bool = False) -> list[str]:
    stream = io.StringIO()
    configure_logs(level, as_json=as_json, stream=stream)
    log = structlog.get_logger("test")
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
    structlog.get_logger("test").info("odd", value=object)
    assert json.loads(stream.getvalue())["value"] == "<class 'object'>"
