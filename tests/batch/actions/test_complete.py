"""Gangs that a fault left bound in part come before all others."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mooring.batch.actions.complete import complete
from mooring.batch.run import run_actions
from tests.batch.cases import conf, gang, group, node, opened, pod, queue


def half_bound(name: str, size: int, bound: int, on: str, **rest: Any) -> list[dict[str, Any]]:
    members = [pod(f"{name}-task-{number}", name, on=on if number < bound else "") for number in range(size)]
    return [group(name, size, **rest), *members]


def placed(text: str, *objects: Any) -> Counter[str]:
    _, session, _ = opened(text, *objects)
    complete(session)
    run_actions(session)
    return Counter(task.job.split("/")[1] for task in session.bindings)


def test_room_is_kept_for_what_is_missing() -> None:
    """Without that, drf would give all of it to the gang that has nothing yet."""
    objects = [node("a", "8"), gang("fresh", 4), half_bound("broken", 6, 2, "a")]
    assert placed(conf(), *objects) == {"broken": 4}
    _, session, _ = opened(conf(), *objects)
    run_actions(session)
    assert Counter(task.job for task in session.bindings) == {"default/fresh": 4}


def test_not_even_its_own_queue_stands_in_the_way() -> None:
    """It was let in once; and the process may have died before that was written."""
    queues = [queue("small", 1), queue("large", 9)]
    broken = half_bound("broken", 5, 2, "a", queue="small", phase="Pending")
    objects = [node("a", "10"), *queues, gang("fresh", 10, 1, queue="large"), broken]
    assert placed(conf(), *objects)["broken"] == 3


def test_what_does_not_fit_stays_as_it_is() -> None:
    objects = [node("a", "4"), gang("fresh", 2), half_bound("broken", 6, 2, "a")]
    assert placed(conf(), *objects) == {"fresh": 2}
