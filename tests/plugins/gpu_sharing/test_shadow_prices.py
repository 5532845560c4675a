from __future__ import annotations

import numpy as np
import pytest

from mooring.plugins.gpu_sharing.fragmentation import TypicalPod
from mooring.plugins.gpu_sharing.shadow_prices import RoomValues, expected_kinds
from tests.plugins.gpu_sharing.nodes import MODELS, empty_nodes, gpu_nodes

GPUS = np.array([100, 50])


def excess(values: RoomValues, cpu: int, left: list[int], model: str = "T4") -> float:
    nodes = gpu_nodes((cpu, left), model=model)
    return float(values(nodes.cpu, nodes.left, nodes.model)[0])


def test_kinds_merge_pods_with_equal_gpu_requests_and_request_the_given_gpus() -> None:
    typical = [
        TypicalPod(cpu=1000, count=1, milli=500, weight=3),
        TypicalPod(cpu=5000, count=1, milli=500, weight=1),
        TypicalPod(cpu=4000, count=2, milli=1000, weight=1),
        TypicalPod(cpu=9000, weight=7),
        TypicalPod(cpu=1, count=1, milli=1000, models="unknown"),
    ]
    half, pair = expected_kinds(typical, MODELS, 40.0)
    assert (half.cpu, half.gpus, pair.gpus) == (2000, 0.5, 2.0)
    assert half.demand * half.gpus + pair.demand * pair.gpus == pytest.approx(40.0)


def test_room_that_fits_scarce_partners_has_value() -> None:
    # 600 and 400 fill a GPU; alone, a pod with 600 wastes 400.
    typical = [TypicalPod(cpu=1, count=1, milli=600, weight=2), TypicalPod(cpu=1, count=1, milli=400, weight=1)]
    values = RoomValues(expected_kinds(typical, MODELS, 200.0), GPUS)
    assert values.whole.tolist() == pytest.approx([0.6, 0.6])
    full_cpu = 10**6
    assert excess(values, full_cpu, [1000]) == pytest.approx(0)
    assert excess(values, full_cpu, [600]) == pytest.approx(0.6 - 0.36)
    assert excess(values, full_cpu, [400]) == pytest.approx(-0.24)
    assert excess(values, full_cpu, [599]) == pytest.approx(-0.6 * 0.599)


def test_a_scarce_model_is_worth_more() -> None:
    typical = [
        TypicalPod(cpu=1, count=1, milli=1000, models="T4", weight=2),
        TypicalPod(cpu=1, count=1, milli=1000, weight=2),
    ]
    values = RoomValues(expected_kinds(typical, MODELS, 140.0), GPUS)
    assert values.whole.tolist() == pytest.approx([0.0, 1.0])


def test_room_without_cpu_has_no_value() -> None:
    typical = [TypicalPod(cpu=4000, count=1, milli=1000)]
    values = RoomValues(expected_kinds(typical, MODELS, 300.0), GPUS)
    assert excess(values, 8000, [1000, 1000]) == pytest.approx(0)
    assert excess(values, 0, [1000, 1000]) == pytest.approx(-2)
    assert -1.5 < excess(values, 4000, [1000, 1000]) < -0.5


def test_without_expected_pods_room_has_no_value() -> None:
    values = RoomValues(expected_kinds([], MODELS, 100.0), GPUS)
    nodes = empty_nodes(2)
    assert values(nodes.cpu, nodes.left, nodes.model).tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_prices_bound_what_any_packing_uses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice(np.arange(50, 1000, 10), size=8, replace=False)
    typical = [TypicalPod(cpu=0, count=1, milli=int(size), weight=int(rng.integers(1, 9))) for size in sizes]
    kinds = expected_kinds(typical, MODELS, 160.0)
    values = RoomValues(kinds, GPUS)
    bound = float(values.prices @ [kind.demand for kind in kinds] + values.whole @ GPUS)
    room = np.full(150, 1000)
    for kind in sorted(kinds, key=lambda kind: -kind.milli):
        for _ in range(int(kind.demand)):
            fits = np.flatnonzero(room >= kind.milli)
            if len(fits):
                room[fits[room[fits].argmin()]] -= kind.milli
    used = 150 - room.sum() / 1000
    assert 0.85 * bound < used <= bound + 0.001
    assert bound <= 150.001
