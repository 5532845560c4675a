"""Parts of a job: which pods belong to them, and when they are ready."""

from __future__ import annotations

import pytest

from mooring.api.volcano import SubGroupPolicy
from mooring.batch.sub_job import label_values, match_index
from mooring.batch.task import ALLOCATED, PIPELINED
from tests.batch.cases import job, task

POLICY = {"name": "worker", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}


@pytest.mark.parametrize(("keys", "values"), [((), ()), (("part",), ()), (("part", "other"), ())])
def test_a_pod_without_the_labels_belongs_to_no_part(keys: tuple[str, ...], values: tuple[str, ...]) -> None:
    assert label_values(SubGroupPolicy(name="worker", match_label_keys=keys), task()) == values


@pytest.mark.parametrize(
    ("values", "index"), [(("3", "x"), 3), (("x",), 0), ((), 0), (("9" * 5000,), 0), (("\u0663",), 0)]
)
def test_parts_are_ordered_by_number(values: tuple[str, ...], index: int) -> None:
    assert match_index(values) == index


def test_tasks_that_no_policy_selects_are_one_part() -> None:
    tasks = [task(f"t{number}") for number in range(3)]
    made = job(2, *tasks, subGroupPolicy=[POLICY])
    (part,) = made.sub_jobs.values()
    assert (part.policy, part.min_available, len(part.tasks)) == ("", 1, 3)
    assert not made.parts_valid
    assert made.part_of(tasks[0]) is part


def test_a_part_counts_its_tasks() -> None:
    tasks = [task(f"t{number}") for number in range(3)]
    made = job(2, *tasks, networkTopology={"mode": "hard", "highestTierAllowed": 1})
    (part,) = made.sub_jobs.values()
    assert (part.missing, part.is_ready, part.is_pipelined) == (2, False, False)
    made.set_status(tasks[0], ALLOCATED)
    made.set_status(tasks[1], PIPELINED)
    assert (part.missing, part.is_ready, part.is_pipelined) == (0, False, True)
    made.set_status(tasks[1], ALLOCATED)
    assert part.is_ready
    made.remove(tasks[0])
    assert (part.missing, part.is_ready) == (1, False)
