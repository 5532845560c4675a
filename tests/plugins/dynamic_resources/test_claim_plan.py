"""Claim plans: names, tolerations, constraints and rendered messages."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import fit
from mooring.api.devices import DeviceAttribute, DeviceConstraint
from mooring.plugins.dynamic_resources.claim_plan import AllocationError, ConstraintPlan, attribute_value
from mooring.releases import V1_37
from tests.plugins.device_world import claim, exactly, gpu_slice, plans, pools

LIST = {
    "name": "l",
    "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}],
}


def test_names() -> None:
    (plan,) = plans(claim(exactly(name="r"), LIST))
    assert [(each.name, each.base_name, each.bare_name) for (each,) in plan.requests] == [
        ("r", "r", "r"),
        ("l/s", "l", "s"),
    ]
    assert plan.is_list == (False, True)


@pytest.mark.parametrize(
    ("tolerations", "tolerated"),
    [
        ([], False),
        ([{"operator": "Exists"}], True),
        ([{"key": "k", "value": "v"}], True),
        ([{"key": "k", "operator": "Equal", "value": "w"}], False),
        ([{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_tolerations(tolerations: Any, tolerated: bool) -> None:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "ignored", "effect": "None"}]
    (pool,) = pools(gpu_slice(devices=[{"name": "d", "taints": taints}]))
    (plan,) = plans(claim(exactly(tolerations=tolerations)))
    assert plan.requests[0][0].tolerates(pool.contents[0]) is tolerated


@pytest.mark.parametrize(("requests", "covered"), [([], True), (["l"], True), (["l/s"], True), (["s"], False)])
def test_constraints_cover_requests(requests: list[str], covered: bool) -> None:
    (plan,) = plans(claim(LIST))
    constraint = ConstraintPlan(fit({"requests": requests, "matchAttribute": "a/b"}, DeviceConstraint), V1_37)
    assert constraint.covers(plan.requests[0][0]) is covered


def test_attributes_of_different_types_differ() -> None:
    values = [
        attribute_value(fit(each, DeviceAttribute))
        for each in ({"int": 1}, {"bool": True}, {"string": "1"}, {"ints": [1]})
    ]
    assert len(set(values)) == 4
    assert values[3] is None


def test_messages_name_the_claim_and_the_device() -> None:
    error = AllocationError("claim \0c: cannot add device \0d", 1, (0, 1))
    claims = [claim(), claim(name="second")]
    assert (
        error.render(claims, lambda place: f"pool{place[0]}/d{place[1]}")
        == "claim default/second: cannot add device pool0/d1"
    )


def test_the_first_mismatch_is_found() -> None:
    (pool,) = pools(gpu_slice())
    (plan,) = plans(claim(exactly(selectors=[{"cel": {"expression": "true"}}, {"cel": {"expression": "false"}}])))
    assert plan.requests[0][0].first_mismatch(pool.contents[0]) == "claim \0c: selector #1 does not match: false"
