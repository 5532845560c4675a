"""tdm: windows, revocable nodes and evictions within budgets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from mooring.batch.plugins.tdm import _most_evictions, _number, _window
from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, gang, group, job, jobs_of, node, pod, running, session_of, task, tasks_of

ZONE = {"volcano.sh/revocable-zone": "z"}
NOON = datetime(2026, 1, 15, 12, 0)


@pytest.mark.parametrize(
    ("text", "opens", "closes"),
    [
        ("10:00-14:00", (15, 10), (15, 14)),
        ("22:00-6:00", (15, 22), (16, 6)),
        ("00:00-00:00", (15, 0), (16, 0)),
        (" 1:30-2:00 ", (15, 1), (15, 2)),
    ],
)
def test_windows(text: str, opens: tuple[int, int], closes: tuple[int, int]) -> None:
    """A window over midnight ends tomorrow; equal ends mean the whole day."""
    window = _window(text, NOON)
    assert window is not None
    assert [(each.day, each.hour) for each in window] == [opens, closes]


@pytest.mark.parametrize(
    "text", ["", "10:00", "10:00-", "24:00-1:00", "1:60-2:00", "1:0-2:00", "1:00-2:00-3:00", "a-b"]
)
def test_invalid_windows(text: str) -> None:
    assert _window(text, NOON) is None


def world(window: str, *objects: Any) -> Any:
    """Sessions are at noon."""
    arguments = f'{{tdm.revocable-zone.z: "{window}"}}'
    return session_of(conf(("tdm",), tdm=arguments), node("plain"), node("lent", labels=ZONE), *objects)


@pytest.mark.parametrize(
    ("window", "preemptable", "reason"),
    [
        ("10:00-14:00", True, ""),
        ("10:00-14:00", False, "not allow to dispatch to revocable node"),
        ("13:00-14:00", True, "current time beyond revocable zone z:13:00-14:00"),
        ("22:00-13:00", True, "current time beyond revocable zone z:22:00-13:00"),
        ("junk", True, "revocable zone junk format error"),
    ],
    ids=["open", "not revocable", "closed", "over midnight counts from today", "format"],
)
def test_only_revocable_tasks_use_open_zones(window: str, preemptable: bool, reason: str) -> None:
    made = gang("g", 1)
    made[1]["metadata"]["annotations"]["volcano.sh/preemptable"] = str(preemptable).lower()
    session = world(window, made)
    one = tasks_of(session)["g-task-0"]
    (predicate,) = session.all("predicate")
    verdicts = predicate.function(one, SessionNodes(session))
    codes = [0, 0] if verdicts is None else verdicts.codes.tolist()
    assert codes[0] == 0
    assert (verdicts.status(codes[1]).message if codes[1] else "") == reason
    scores = session.total_scores(one, SessionNodes(session))
    assert scores is not None
    assert scores.tolist() == [0.0, 100.0 if not reason else 0.0]


def test_a_zone_that_is_not_configured_is_closed() -> None:
    session = session_of(conf(("tdm",)), node("lent", labels=ZONE), gang("g", 1))
    (predicate,) = session.all("predicate")
    verdicts = predicate.function(tasks_of(session)["g-task-0"], SessionNodes(session))
    assert verdicts.status(int(verdicts.codes[0])).message == "revocable zone z not support"


def test_victims_are_preemptable_tasks_on_ordinary_nodes() -> None:
    old = [group("old", 1), pod("plain-1", "old", on="plain"), pod("lent-1", "old", on="lent")]
    new = gang("new", 2)
    new[1]["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    session = world("10:00-14:00", old, new)
    tasks = tasks_of(session)
    candidates = [tasks["plain-1"], tasks["lent-1"]]
    assert session.preemptable(tasks["new-task-0"], candidates) == [tasks["plain-1"]]
    assert session.preemptable(tasks["new-task-1"], candidates) == [], "a preemptable task preempts nothing"


@pytest.mark.parametrize(("window", "victims"), [("10:00-14:00", []), ("13:00-14:00", ["old-task-0"])])
def test_closed_zones_are_emptied_once_a_period(window: str, victims: list[str]) -> None:
    session = world(window, running("old", ["lent", "lent"]))
    assert [each.name for each in session.victim_tasks([])] == victims
    assert session.victim_tasks([]) == [], "not twice within a period"


@pytest.mark.parametrize(
    ("budget", "running_tasks", "pending", "most"),
    [
        ({}, 3, 0, 1),
        ({"max-unavailable": "2"}, 3, 0, 2),
        ({"max-unavailable": "2"}, 3, 1, 1),
        ({"max-unavailable": "2"}, 1, 5, 0),
        ({"max-unavailable": "50%"}, 3, 0, 2),
        ({"min-available": "1"}, 3, 0, 2),
        ({"min-available": "5"}, 3, 0, 1),
    ],
)
def test_budgets(budget: dict[str, str], running_tasks: int, pending: int, most: int) -> None:
    tasks = [task(f"r{number}", on="a") for number in range(running_tasks)]
    one = job(1, *tasks, *(task(f"p{number}") for number in range(pending)))
    one.budget = one.budget._replace(**{key.replace("-", "_"): value for key, value in budget.items()})
    assert _most_evictions(one) == most


@pytest.mark.parametrize(("text", "number"), [("3", 3), ("50%", 3), ("-1", -1), ("x", 0), ("", 0), ("1.5", 0)])
def test_numbers_and_percentages(text: str, number: int) -> None:
    assert _number(text, 5) == number


def test_orders_and_starvation() -> None:
    flexible = gang("flexible", 1)
    flexible[0]["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    session = world("10:00-14:00", flexible, gang("fixed", 1), running("done", ["plain"]))
    jobs = jobs_of(session)
    assert session.job_less(jobs["fixed"], jobs["flexible"])
    assert [session.job_starving(jobs[name]) for name in ("fixed", "flexible", "done")] == [True, False, False]
