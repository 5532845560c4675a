"""ClaimMetrics: kube-scheduler's metrics of created resource claims, and of waits for binding conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mooring.api.devices import ResourceClaim
from mooring.observe import metric_families
from mooring.observe.histograms import Histograms, exponential

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class ClaimMetrics:
    """The metrics of DynamicResources."""

    def __init__(self, *, shared: bool = False, extended_resources: bool = True) -> None:
        """With ``shared``, created claims are counted as in the controller manager, as since 1.37.

        Claims are created only for extended resources; without these, created claims are not counted.
        """
        self._shared = shared
        self._created: dict[str, int] = {"success": 0, "failure": 0} if extended_resources else {}
        self._allocations: Counter[tuple[str, str, str]] = Counter()
        self._waits = Histograms(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time that pods wait for binding conditions at PreBind, in seconds.",
            ("profile", "driver", "status"),
            exponential(0.1, 2, 14),
        )

    def created(self, status: str) -> None:
        """Count a request to create a claim, by success or failure."""
        self._created[status] = self._created.get(status, 0) + 1

    def waited(self, profile: str, claims: Sequence[ResourceClaim], status: str, seconds: float) -> None:
        """Record a wait for binding conditions. As upstream does, the duration counts once for each device."""
        for claim in claims:
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                self._waits.child(profile, result.driver, status).observe(seconds)
                if result.binding_conditions:
                    self._allocations[profile, result.driver, status] += 1

    def families(self) -> Iterator[Metric]:
        """Yield the metric families for a scrape."""
        name, labels = "scheduler_resourceclaim_creates", ["status"]
        rest: tuple[str, ...] = ()
        if self._shared:
            name, rest = "dynamic_resource_allocation_resourceclaim_creates", ("false", "", "Pod")
            labels += ["admin_access", "owner_api_group", "owner_api_kind"]
        created = metric_families.CounterMetricFamily(
            name, "Requests to create resource claims, by status.", labels=labels
        )
        for status, count in self._created.items():
            created.add_metric((status, *rest), count)
        yield created
        allocations = metric_families.CounterMetricFamily(
            "scheduler_dra_bindingconditions_allocations",
            "Allocated devices with binding conditions, by the outcome of the wait at PreBind.",
            labels=("profile", "driver", "status"),
        )
        for values, count in self._allocations.items():
            allocations.add_metric(values, count)
        yield allocations
        yield self._waits.family()
