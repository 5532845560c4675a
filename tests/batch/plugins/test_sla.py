"""sla: deadlines order jobs and permit them once they have passed."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.callbacks import ABSTAIN, PERMIT
from tests.batch.cases import conf, gang, jobs_of, node, session_of


def waiting(name: str, text: str = "") -> list[dict[str, Any]]:
    made = gang(name, 1)
    if text:
        made[0]["metadata"]["annotations"] = {"sla-waiting-time": text}
    return made


@pytest.mark.parametrize(
    ("first", "second", "less"),
    [
        ("1h", "2h", True),
        ("2h", "1h", False),
        ("1h", "", True),
        ("", "1h", False),
    ],
)
def test_the_earlier_deadline_comes_first(first: str, second: str, less: bool) -> None:
    session = session_of(conf(("sla",)), node("a"), waiting("x", first), waiting("y", second))
    jobs = jobs_of(session)
    assert session.job_less(jobs["x"], jobs["y"]) is less


@pytest.mark.parametrize(
    ("annotation", "argument", "vote"),
    [
        ("", "", ABSTAIN),
        ("1h", "", PERMIT),
        ("10000h", "", ABSTAIN),
        ("", "1h", PERMIT),
        ("10000h", "1h", ABSTAIN),
        ("", "junk", ABSTAIN),
        ("", "-1h", ABSTAIN),
    ],
)
def test_a_job_is_permitted_once_it_has_waited(annotation: str, argument: str, vote: int) -> None:
    """The session is a month after the job. The job's own limit goes before that of all."""
    given = f'{{sla-waiting-time: "{argument}"}}' if argument else ""
    session = session_of(conf(("sla",), sla=given), node("a"), waiting("g", annotation))
    for kind in ("job_enqueueable", "job_pipelined"):
        (function,) = session.all(kind)
        assert function(jobs_of(session)["g"]) == vote
