from __future__ import annotations

import pytest

from mooring.plugins.gpu_sharing.devices import GpuRequest, kind_bit, tightest_gpus
from tests.plugins.gpu_sharing.nodes import gpu_nodes

HALF = GpuRequest(cpu=1000, count=1, milli=500)


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        (GpuRequest(cpu=1000), [True, True, True]),
        (GpuRequest(cpu=5000), [True, False, True]),
        (GpuRequest(cpu=0, memory=1 << 21), [False, False, False]),
        (HALF, [True, True, False]),
        (GpuRequest(cpu=0, count=1, milli=1000), [True, False, False]),
        (GpuRequest(cpu=0, count=2, milli=1000), [False, False, False]),
        (GpuRequest(cpu=0, count=2, milli=500), [True, False, False]),
        (GpuRequest(cpu=0, count=1, milli=100, models="G2"), [False, False, False]),
        (GpuRequest(cpu=0, count=1, milli=100, models="G2|T4"), [True, True, True]),
    ],
)
def test_a_pod_fits_where_cpu_memory_gpus_and_model_do(pod: GpuRequest, fits: list[bool]) -> None:
    nodes = gpu_nodes((8000, [600, 1000]), (4000, [500, 0]), (8000, [400, 499]))
    assert nodes.feasible(pod).tolist() == fits


def test_the_tightest_gpus_are_chosen_and_whole_ones_in_order() -> None:
    left = gpu_nodes((0, [600, 1000, 500, 1000])).left
    assert tightest_gpus(left, HALF).tolist() == [[2]]
    assert tightest_gpus(left, GpuRequest(cpu=0, count=2, milli=500)).tolist() == [[2, 0]]
    assert tightest_gpus(left, GpuRequest(cpu=0, count=2, milli=1000)).tolist() == [[1, 3]]


def test_a_removed_pod_leaves_its_room() -> None:
    nodes = gpu_nodes((8000, [1000, 1000]))
    nodes.place(0, HALF, [1])
    assert (nodes.cpu[0], nodes.left[0].tolist(), nodes.tags[0]) == (7000, [1000, 500], kind_bit(HALF))
    nodes.remove(0, HALF, [1])
    assert (nodes.cpu[0], nodes.left[0].tolist()) == (8000, [1000, 1000])
