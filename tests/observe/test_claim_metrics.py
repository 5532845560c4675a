"""The metrics of resource claims have kube-scheduler's names and labels in each release."""

from __future__ import annotations

import pytest

from mooring.observe.claim_metrics import ClaimMetrics
from mooring.observe.scheduler_metrics import SchedulerMetrics
from tests.plugins.device_world import allocated, claim


def text(claims: ClaimMetrics) -> str:
    return SchedulerMetrics(claims=claims).render()[0].decode()


@pytest.mark.parametrize(
    ("shared", "name", "rest"),
    [
        (False, "scheduler_resourceclaim_creates_total", ""),
        (
            True,
            "dynamic_resource_allocation_resourceclaim_creates_total",
            'admin_access="false",owner_api_group="",owner_api_kind="Pod",',
        ),
    ],
    ids=["1.36", "1.37"],
)
def test_created_claims_are_counted_from_zero(shared: bool, name: str, rest: str) -> None:
    metrics = ClaimMetrics(shared=shared)
    assert f'{name}{{{rest}status="success"}} 0.0' in text(metrics)
    metrics.created("failure")
    assert f'{name}{{{rest}status="success"}} 0.0' in text(metrics)
    assert f'{name}{{{rest}status="failure"}} 1.0' in text(metrics)
    assert text(metrics).count("resourceclaim_creates_total{") == 2


def test_without_extended_resources_no_claims_are_created() -> None:
    assert "resourceclaim" not in text(ClaimMetrics(extended_resources=False))


def test_waits_for_binding_conditions_count_once_for_each_device() -> None:
    metrics = ClaimMetrics()
    prepared = claim(status=allocated("gpu-0", "gpu-1", bindingConditions=["ready"]))
    metrics.waited("default-scheduler", [prepared, claim(status=allocated("gpu-2")), claim()], "timeout", 0.3)
    labels = 'driver="gpu.example.com",profile="default-scheduler",status="timeout"'
    shown = text(metrics)
    assert f"scheduler_dra_bindingconditions_allocations_total{{{labels}}} 2.0" in shown
    name = "scheduler_dra_bindingconditions_wait_duration_seconds"
    assert f"{name}_count{{{labels}}} 3.0" in shown
    where = labels.replace(",profile", ',le="0.2",profile')
    assert f"{name}_bucket{{{where}}} 0.0" in shown
    assert f"{name}_bucket{{{where.replace('0.2', '0.4')}}} 3.0" in shown
    assert 'le="819.2"' in shown
