"""overcommit: admission up to a multiple of the cluster."""

from __future__ import annotations

import pytest

from tests.batch.cases import conf, gang, jobs_of, node, running, session_of


@pytest.mark.parametrize(
    ("factor", "wanted", "permitted"),
    [
        ("", "12", True),
        ("", "12100m", False),
        ("2", "20", True),
        ("2.5", "26", False),
        ("0.5", "12", True),
        ("junk", "12", True),
    ],
)
def test_the_factor(factor: str, wanted: str, permitted: bool) -> None:
    """Ten cores. A factor below 1 counts as 1.2."""
    arguments = f"{{overcommit-factor: {factor}}}" if factor else ""
    text = conf(("overcommit",), overcommit=arguments)
    session = session_of(text, node("a", "10"), gang("g", 1, minResources={"cpu": wanted}))
    assert session.job_enqueueable(jobs_of(session)["g"]) is permitted
    expected = [] if permitted else ["resource in cluster is overused: overused cpu"]
    assert [note for _, note in session.notes] == expected


def test_what_is_used_and_what_was_admitted_is_not_left() -> None:
    """Twelve cores with the factor: two are used, four are admitted, six are left."""
    objects = [node("a", "10"), running("old", ["a", "a"]), gang("in", 1, phase="Inqueue", minResources={"cpu": "4"})]
    new = [gang(f"new-{number}", 1, minResources={"cpu": "3"}) for number in range(3)]
    session = session_of(conf(("overcommit",)), *objects, *new)
    found = []
    for number in range(3):
        one = jobs_of(session)[f"new-{number}"]
        found.append(session.job_enqueueable(one))
        if found[-1]:
            session.job_enqueued(one)
    assert found == [True, True, False]


def test_jobs_without_a_minimum_are_admitted() -> None:
    session = session_of(conf(("overcommit",)), node("a", "1"), running("old", ["a"] * 3), gang("g", 9))
    assert session.job_enqueueable(jobs_of(session)["g"])
