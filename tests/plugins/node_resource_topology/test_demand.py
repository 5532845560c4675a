"""Which pods use exclusive resources."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.node_resource_topology.demand import is_exclusive
from mooring.testing import PodBuilder, make_pod

NIC = "vendor.com/nic"


def asking(*containers: dict[str, Any]) -> PodBuilder:
    pod = make_pod("p")
    for each in containers:
        pod = pod.req(each)
    return pod.guaranteed()


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod("p").req({NIC: 1}), True),
        (make_pod("p").req(cpu="2"), False),
        (asking({"cpu": "2", "memory": "0"}), False),
        (asking({"cpu": "2", "memory": "1"}), True),
        (make_pod("p"), False),
    ],
)
def test_exclusive_resources(pod: PodBuilder, expected: bool) -> None:
    assert is_exclusive(pod.obj()) is expected
