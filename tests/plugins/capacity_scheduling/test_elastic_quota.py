"""Amounts of resources: what a pod is charged, and limits."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.capacity_scheduling.elastic_quota import UNLIMITED, over, request_of
from mooring.testing import PodBuilder, make_pod

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (make_pod("p").req(cpu="1").req(cpu="500m", memory="1Gi"), {"cpu": 1500, "memory": 1 << 30}),
        (make_pod("p").req(cpu="1").init(cpu="2").init(cpu="3"), {"cpu": 3000}),
        (make_pod("p").req(cpu="4").init({GPU: 1, "cpu": "1"}), {"cpu": 4000, GPU: 1}),
        (make_pod("p").req(cpu="1").overhead(cpu="100m"), {"cpu": 1100}),
        (make_pod("p").req({"cpu": "1", "pods": 3, "unknown": 4}), {"cpu": 1000}),
        (make_pod("p").req(cpu="1").pod_req(cpu="9"), {"cpu": 1000}),
    ],
)
def test_what_a_pod_is_charged(what: PodBuilder, expected: dict[str, int]) -> None:
    assert request_of(what.obj()) == expected


@pytest.mark.parametrize(
    ("asked", "used", "limit", "otherwise", "expected"),
    [
        ({"cpu": 1}, {"cpu": 1}, {"cpu": 2}, 0, False),
        ({"cpu": 2}, {"cpu": 1}, {"cpu": 2}, 0, True),
        ({}, {"memory": 1}, {"cpu": 2}, 0, True),
        ({}, {"ephemeral-storage": 1}, {}, UNLIMITED, True),
        ({GPU: 1}, {}, {}, 0, True),
        ({GPU: 1}, {}, {}, UNLIMITED, False),
        ({GPU: 0}, {GPU: 1}, {}, 0, True),
        ({}, {GPU: 9}, {GPU: 1}, 0, False),
        ({GPU: 1}, {GPU: 1}, {GPU: 1}, UNLIMITED, True),
    ],
)
def test_over(asked: Any, used: Any, limit: Any, otherwise: int, expected: bool) -> None:
    """Other resources count where the request names them."""
    assert over(asked, used, limit, otherwise) is expected
