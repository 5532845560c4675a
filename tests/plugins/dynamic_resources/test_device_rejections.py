"""Why devices were not allocated: the reason for each device of a few nodes, limited in size."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from mooring.framework import CycleState
from mooring.framework.device_allocations import DEVICE_REJECTIONS, DeviceRejection
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.device_rejections import RejectedDevices
from mooring.testing import PluginHarness, make_node, make_pod
from tests.plugins.device_world import allocated, claim, exactly, gpu_class, gpu_slice

POD = make_pod("p").resource_claim("gpu", "c").obj()
LARGE = "device.attributes['gpu.example.com'].model == 'large'"


def rejections(*objects: Any, nodes: int = 1) -> list[DeviceRejection]:
    world = PluginHarness(
        DynamicResources, nodes=[make_node(f"n{n}").obj() for n in range(nodes)], objects=[gpu_class(), *objects]
    )
    state = CycleState()
    assert world.pre_filter(state, POD)[0].is_success
    statuses = world.filter(state, POD, world.nodes()).values()
    rows = [row for row, status in enumerate(statuses) if not status.is_success]
    return list(state.read(DEVICE_REJECTIONS).on(np.array(rows, dtype=np.intp)))


def models(*values: str) -> list[dict[str, Any]]:
    return [{"name": f"gpu-{n}", "attributes": {"model": {"string": each}}} for n, each in enumerate(values)]


def request(expression: str, count: int = 1, **fields: Any) -> dict[str, Any]:
    return exactly(count, selectors=[{"cel": {"expression": expression}}], **fields)


@pytest.mark.parametrize(
    ("objects", "reasons"),
    [
        (
            [claim(request(LARGE, 2)), gpu_slice("n0", models("small", "large"))],
            {
                "gpu-0": f"claim default/c: selector #0 does not match: {LARGE}",
                "gpu-1": "it matches, but not enough devices do, or the constraints or counters exclude it",
            },
        ),
        (
            [claim(request("device.attributes['a'].b == 1")), gpu_class("gpu", "false"), gpu_slice("n0", 1)],
            {"gpu-0": "class gpu: selector #0 does not match: false"},
        ),
        (
            [claim(), gpu_slice("n0", 1), claim(name="other", status=allocated("gpu-0"))],
            {"gpu-0": "it is allocated"},
        ),
        (
            [claim(), gpu_slice("n0", [{"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoSchedule"}]}])],
            {"gpu-0": "the taint broken:NoSchedule is not tolerated"},
        ),
        (
            [
                claim(exactly(capacity={"requests": {"memory": "80Gi"}})),
                gpu_slice("n0", [{"name": "gpu-0", "capacity": {"memory": {"value": "40Gi"}}}]),
            ],
            {"gpu-0": "its free capacity does not suffice"},
        ),
        (
            [claim(), gpu_slice("n0", 1, pool={"name": "p", "resourceSliceCount": 2})],
            {"p": "the pool is being updated"},
        ),
    ],
)
def test_each_device_has_a_reason(objects: Any, reasons: dict[str, str]) -> None:
    found = {each.devices[0].rpartition("/")[2]: each for each in rejections(*objects)}
    assert {device: each.reason for device, each in found.items()} == reasons
    assert {(each.node, each.claim, each.request) for each in found.values()} == {("n0", "default/c", "r")}


def test_devices_with_the_same_reason_are_one_entry() -> None:
    (found,) = rejections(claim(request(LARGE)), gpu_slice("n0", models(*["small"] * 8)))
    assert found.count == 8
    assert found.devices == tuple(f"gpu.example.com/n0/gpu-{n}" for n in range(5))


def test_few_nodes_are_examined_and_only_nodes_whose_devices_differ() -> None:
    equal = [gpu_slice(f"n{n}", models("small")) for n in range(1, 4)]
    assert [each.node for each in rejections(claim(request(LARGE)), *equal, nodes=4)] == ["n1"]
    different = [gpu_slice(f"n{n}", models(f"m{n}")) for n in range(1, 6)]
    assert [each.node for each in rejections(claim(request(LARGE)), *different, nodes=6)] == ["n1", "n2", "n3"]


def test_the_output_and_the_work_are_limited() -> None:
    long = f"'{'x' * 5000}' == ''"
    many = [request(long if n == 0 else LARGE, name=f"r{n}") for n in range(32)]
    found = rejections(claim(*many), gpu_slice("n0", models(*["small"] * 128)))
    assert len(found) <= 12
    assert all(len(each.reason) <= 300 for each in found)
    assert sum(each.count for each in found) <= 500


def test_a_busy_machine_has_the_same_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = RejectedDevices._reason

    def interrupted(*given: Any) -> str:
        time.sleep(0.1)  # another process runs meanwhile
        return reason(*given)

    monkeypatch.setattr(RejectedDevices, "_reason", interrupted)
    (found,) = rejections(claim(request(LARGE)), gpu_slice("n0", models("small", "small")))
    assert found.count == 2
