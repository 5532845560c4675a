"""The metrics of pod groups."""

from __future__ import annotations

from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from tests.scheduler.test_pod_group_cycle import TOPOLOGY, World, default_config, group, in_rack, member, racks
from tests.scheduler.test_pod_group_preemption import low


def test_attempts_placements_and_preemptions_are_counted() -> None:
    world = World(release=TOPOLOGY)
    metrics = SchedulerMetrics(entities=True)
    observer = Observer(metrics=metrics)
    world.engine = Engine(default_config(TOPOLOGY), clock=lambda: world.now, observer=observer)
    racks(world, "2", "4", "4")
    world.add(in_rack(3, "a"), *(member(f"a{index}", of="a") for index in range(3)))
    world.run()
    world.add(low("victim", "r0-0", cpu="2"), low("other", "r1-0", cpu="4"), low("third", "r2-0", cpu="4"))
    world.add(group(1, "b"), member("b0", cpu="4", of="b"))
    world.run()
    text = metrics.render()[0].decode()
    for line in (
        'scheduler_podgroup_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0',
        'scheduler_podgroup_schedule_attempts_total{profile="default-scheduler",result="waiting_on_preemption"} 1.0',
        'podgroup_scheduling_attempt_duration_seconds_count{profile="default-scheduler",result="scheduled"} 1.0',
        "scheduler_podgroup_scheduling_algorithm_duration_seconds_count 2.0",
        'scheduler_generated_placements_total{profile="default-scheduler"} 4.0',
        'scheduler_placement_evaluations_total{profile="default-scheduler",result="feasible"} 2.0',
        'scheduler_placement_evaluations_total{profile="default-scheduler",result="infeasible"} 2.0',
        'scheduler_workload_preemption_attempts_total{result="Success"} 1.0',
        "scheduler_workload_preemption_victims_count 1.0",
        'scheduler_preemption_evaluation_duration_seconds_count{preemptor="podgroup",result="Success"} 1.0',
    ):
        assert line in text, line


def test_nothing_is_shown_without_groups() -> None:
    text = SchedulerMetrics().render()[0].decode()
    assert "podgroup" not in text
    assert "workload" not in text
