"""What test/e2e/schedulingbase of Volcano 1.15.1 checks about decisions.

| Upstream's case | Test |
|---|---|
| drf works (skipped upstream) | `drf` |
| Schedule Job; Schedule Multiple Jobs | `one job`, `several jobs` |
| Gang scheduling | `gang` |
| Gang scheduling: Full Occupied | `gang: full` |
| Gang scheduling: best-effort and other pods | `gang: best-effort pods` |
| Schedule BestEffort Job | `best-effort task` |
| Statement | `statement` |
| support binpack policy | `binpack` |
| Queue Fair Share (skipped upstream) | `fair share` |
| sla permits job to be inqueue; sla adjusts job order | `sla admits`, `sla orders` |
| Schedule v1.Job type, with error case | tests/controllers/test_pod_groups.py; tests/apiserver (validation) |
| PodGroup's count with a Deployment, phase when a Job completes or fails | tests/controllers/test_pod_groups.py |
| Volume Binding | tests/golden (decisions, sessions with volumes), tests/plugins/test_volume_binding.py |
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.batch.suites.suite_world import (
    PREEMPTABLE,
    WITHOUT_ENQUEUE,
    Case,
    Step,
    SuiteWorld,
    conf,
    delete,
    job,
    later,
    on_nodes,
    phases,
    play,
    pod,
    runs,
    task,
)


def created(name: str, count: int) -> Step:
    """Check how many pods of a job exist, with or without a node."""

    def step(world: SuiteWorld) -> None:
        world.settle()
        assert world.created(name) == count

    return step


def unschedulable(name: str) -> Step:
    def step(world: SuiteWorld) -> None:
        world.settle()
        assert world.condition(name) == "NotEnoughResources"

    return step


def waits(annotation: str) -> dict[str, str]:
    return {"sla-waiting-time": annotation}


CASES: Final = {
    "one job": Case([job("j1", 4, least=2), runs(j1=4)]),
    "several jobs": Case(
        [job("j1", 4, least=2), job("j2", 4, least=2), job("j3", 4, least=2), runs(j1=4, j2=4, j3=4)], cores="3"
    ),
    "gang": Case(
        [pod("other-0", "n0", "1"), pod("other-1", "n1", "1"), pod("other-2", "n2", "1"), job("j1", 3, least=3),
         runs(j1=0), unschedulable("j1"), lambda world: [world.delete_pod(f"other-{each}") for each in range(3)],
         runs(j1=3), phases(j1="Running")],
        conf=conf(WITHOUT_ENQUEUE),
    ),
    "gang: full": Case(
        [job("j1", 4), runs(j1=4), job("j2", 4), runs(j1=4, j2=0), phases(j1="Running", j2="Pending")]
    ),
    "gang: best-effort pods": Case([job("j1", tasks=[task("first", 2), task("second", 2, "")]), runs(j1=4)]),
    "best-effort task": Case(
        [job("j1", least=4, tasks=[task("first", 4), task("second", 2, "")]), runs(j1_first=4, j1_second=2)]
    ),
    "statement": Case(
        [job("j1", 4), runs(j1=4), job("j2", 4), runs(j1=4, j2=0), unschedulable("j2")], conf=conf(WITHOUT_ENQUEUE)
    ),
    "binpack": Case(
        [pod("other", "n2", "1"), job("j1", 6, "500m"), runs(j1=6), on_nodes("j1", "n2")],
        cores="4", conf=conf().replace("{name: nodeorder}", "{name: nodeorder, enableNodeOrder: false}"),
    ),
    "drf": Case(
        [job("first", 4, least=1, labels=PREEMPTABLE), runs(first=4), job("second", 4, "500m", least=1),
         runs(first=3, second=2)],
        conf=conf("allocate, backfill, preempt").replace(
            "{name: drf, enablePreemptable: false}", "{name: drf}"
        ).replace("{name: priority}", "{name: priority, enablePreemptable: false}"),
    ),
    "fair share": Case(
        [job("all", 8, "500m", least=1), runs(all=8),
         *(job(f"q{queue}-{each}", 2, "500m", queue=f"q{queue}") for each in range(4) for queue in (1, 2)),
         delete("all"), runs(q1=4, q2=4)],
        conf=conf(WITHOUT_ENQUEUE), queues={"q1": {}, "q2": {}},
    ),
    "sla admits": Case(
        [job("j1", 8, annotations=waits("1m")), created("j1", 0), later(61.0), created("j1", 8), runs(j1=0)]
    ),
    "sla orders": Case(
        [job("big", 8, annotations=waits("1m")), later(61.0), created("big", 8),
         job("slow", 4, annotations=waits("1h")),
         job("fast", 4, annotations=waits("30m")), created("slow", 0), created("fast", 0), delete("big"),
         runs(fast=4, slow=0), created("slow", 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_schedulingbase(name: str) -> None:
    play(CASES[name])
