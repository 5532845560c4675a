"""GroupMetrics: kube-scheduler's metrics of PodGroups: attempts, placements, and preemption for groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mooring.observe import metric_families
from mooring.observe.histograms import Histograms, exponential

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_SECONDS = exponential(0.001, 2, 15)
_LONG_SECONDS = exponential(0.001, 2, 16)
_NUMBERS = exponential(1, 2, 11)
#: The value of the label "preemptor".
_GROUP = "podgroup"


class GroupMetrics:
    """The metrics of groups. None of them appears before the first group is scheduled."""

    def __init__(self) -> None:
        self._durations = Histograms(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Duration of the scheduling attempts of pod groups, in seconds.",
            ("result", "profile"),
            _SECONDS,
        )
        self._algorithm = Histograms(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Duration of the scheduling algorithm of pod groups, in seconds.",
            (),
            _SECONDS,
        )
        self._placement_durations = Histograms(
            "scheduler_placement_evaluation_duration_seconds",
            "Duration of the evaluation of a placement, in seconds; placements that are tried at once share the time.",
            ("result", "profile"),
            _SECONDS,
        )
        self._victims = Histograms(
            "scheduler_workload_preemption_victims", "Number of victims of a preemption for a group.", (), _NUMBERS
        )
        self._disruptions = Histograms(
            "scheduler_preemption_workload_disruptions",
            "Number of groups, or of pods of groups, that a preemption disrupts.",
            ("preemptor",),
            _NUMBERS,
        )
        self._evaluation = Histograms(
            "scheduler_preemption_evaluation_duration_seconds",
            "Duration of the search for victims, in seconds.",
            ("preemptor", "result"),
            _LONG_SECONDS,
        )
        self._execution = Histograms(
            "scheduler_preemption_execution_duration_seconds",
            "Duration of the eviction of victims, in seconds.",
            ("preemptor", "result"),
            _LONG_SECONDS,
        )
        self._attempts: Counter[tuple[str, ...]] = Counter()
        self._generated: Counter[tuple[str, ...]] = Counter()
        self._evaluations: Counter[tuple[str, ...]] = Counter()
        self._preemptions: Counter[tuple[str, ...]] = Counter()
        self._violations: Counter[tuple[str, ...]] = Counter()

    def attempted(self, profile: str, result: str, seconds: float, algorithm_seconds: float) -> None:
        """Record an attempt: scheduled, unschedulable, waiting_on_preemption or error."""
        self._durations.child(result, profile).observe(seconds)
        self._attempts[result, profile] += 1
        self._algorithm.child().observe(algorithm_seconds)

    def tried(self, profile: str, feasible: int, infeasible: int, seconds: float) -> None:
        """Record the placements that a group was tried in, and how long that took."""
        self._generated[profile,] += feasible + infeasible
        for result, count in (("feasible", feasible), ("infeasible", infeasible)):
            for _ in range(count):
                self._placement_durations.child(result, profile).observe(seconds / (feasible + infeasible))
            if count:
                self._evaluations[result, profile] += count

    def preempted(self, result: str, victims: int, groups: int, violations: int, seconds: float) -> None:
        """Record a search for victims; ``result`` is the title of its status code."""
        self._preemptions[result,] += 1
        self._evaluation.child(_GROUP, result).observe(seconds)
        if victims:
            self._victims.child().observe(victims)
        if groups:
            self._disruptions.child(_GROUP).observe(groups)
        if violations:
            self._violations[_GROUP,] += violations

    def evicted(self, *, success: bool, seconds: float) -> None:
        """Record the eviction of the victims of a group."""
        self._execution.child(_GROUP, "success" if success else "error").observe(seconds)

    def families(self) -> Iterator[Metric]:
        """Yield the metric families for a scrape."""
        for histograms in (
            self._durations,
            self._algorithm,
            self._placement_durations,
            self._victims,
            self._disruptions,
            self._evaluation,
            self._execution,
        ):
            yield histograms.family()
        for name, text, labels, counts in (
            ("podgroup_schedule_attempts", "Scheduling attempts of pod groups.", ("result", "profile"), self._attempts),
            ("generated_placements", "Placements generated for pod groups.", ("profile",), self._generated),
            ("placement_evaluations", "Placements that were tried.", ("result", "profile"), self._evaluations),
            ("workload_preemption_attempts", "Preemption attempts of groups.", ("result",), self._preemptions),
            ("preemption_pdb_violations", "Evictions that violate a budget.", ("preemptor",), self._violations),
        ):
            family = metric_families.CounterMetricFamily(f"scheduler_{name}", text, labels=labels)
            for values, count in counts.items():
                family.add_metric(values, count)
            yield family
