"""cdp: pods are protected for a while after they were scheduled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.batch.cases import conf, gang, group, node, pod, session_of, tasks_of

LONG, SHORT = "10000h", "1h"


def scheduled(status: str = "True") -> list[dict[str, str]]:
    return [{"type": "PodScheduled", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]


@pytest.mark.parametrize(
    ("label", "annotation", "phase", "conditions", "victim"),
    [
        ("", "", "Running", scheduled(), True),
        ("", LONG, "Running", scheduled(), False),
        (LONG, "", "Running", scheduled(), False),
        (SHORT, LONG, "Running", scheduled(), True),
        ("", SHORT, "Running", scheduled(), True),
        ("", LONG, "Pending", scheduled(), True),
        ("", LONG, "Running", scheduled("False"), True),
        ("", LONG, "Running", [], True),
        ("", "junk", "Running", scheduled(), True),
    ],
    ids=[
        "none",
        "annotation",
        "label",
        "label first",
        "over",
        "not running",
        "not scheduled",
        "no condition",
        "invalid",
    ],
)
def test_victims(label: str, annotation: str, phase: str, conditions: list[Any], victim: bool) -> None:
    made = pod("p", "old", on="a", phase=phase)
    key = "volcano.sh/cooldown-time"
    if label:
        made["metadata"]["labels"] = {key: label}
    if annotation:
        made["metadata"]["annotations"][key] = annotation
    made["status"]["conditions"] = conditions
    session = session_of(conf(("cdp",)), node("a"), group("old", 1), made, gang("new", 1))
    tasks = tasks_of(session)
    expected = [tasks["p"]] if victim else []
    assert session.preemptable(tasks["new-task-0"], [tasks["p"]]) == expected
    assert session.reclaimable(tasks["new-task-0"], [tasks["p"]]) == expected
