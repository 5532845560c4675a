"""The examples of the protocol, which were run through the authors' functions."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.plugins.gpu_sharing.devices import GpuRequest
from mooring.plugins.gpu_sharing.fragmentation import Fragmentation, StateCache, TypicalPod, typical_pods
from tests.plugins.gpu_sharing.nodes import MODELS, gpu_nodes

TYPICAL = [
    TypicalPod(cpu=4000, count=1, milli=1000, weight=5),
    TypicalPod(cpu=2000, count=1, milli=500, weight=3),
    TypicalPod(cpu=8000, count=2, milli=1000, weight=1),
    TypicalPod(cpu=1000, weight=1),
]


def fragmentation(cpu: int, left: list[int], typical: list[TypicalPod] = TYPICAL) -> float:
    nodes = gpu_nodes((cpu, left))
    return float(Fragmentation(typical, MODELS)(nodes.cpu, nodes.left, nodes.model)[0])


@pytest.mark.parametrize(
    ("cpu", "left", "lost"),
    [
        (8000, [400, 1000], 600),
        (6000, [100, 1000], 300),
        (6000, [400, 700], 890),
        (6000, [400, 0], 400),
        (3000, [400, 1000], 1100),
        (8000, [0, 0], 0),
    ],
)
def test_the_fragmentation_of_a_node(cpu: int, left: list[int], lost: float) -> None:
    assert fragmentation(cpu, left) == pytest.approx(lost)


def test_a_model_that_a_pod_does_not_allow_is_lost_to_it() -> None:
    typical = [
        TypicalPod(cpu=4000, count=1, milli=1000, models="G2", weight=1),
        TypicalPod(cpu=4000, count=1, milli=1000, weight=3),
    ]
    assert fragmentation(8000, [400, 1000], typical) == pytest.approx(650)


def test_without_typical_pods_with_gpus_everything_is_lost() -> None:
    assert fragmentation(8000, [400, 1000], [TypicalPod(cpu=1)]) == 1400


def test_typical_pods_are_the_most_frequent_ones() -> None:
    pods = [GpuRequest(cpu=1)] * 60 + [GpuRequest(cpu=2, count=1, milli=500)] * 36 + [GpuRequest(cpu=3)] * 4
    assert typical_pods(pods) == [TypicalPod(cpu=1, weight=60), TypicalPod(cpu=2, count=1, milli=500, weight=36)]
    assert len(typical_pods(pods, coverage=1.0)) == 3


def test_the_cache_evaluates_each_state_once_whatever_the_order_of_gpus() -> None:
    calls = []

    def total(cpu: np.ndarray, left: np.ndarray, model: np.ndarray) -> np.ndarray:
        calls.append(len(cpu))
        return np.asarray(left.sum(axis=1) + cpu, dtype=np.float64)

    nodes = gpu_nodes((1, [400, 1000]), (1, [1000, 400]), (2, [400, 1000]))
    cached = StateCache(total)
    assert cached(nodes.cpu, nodes.left, nodes.model).tolist() == [1401, 1401, 1402]
    assert cached(nodes.cpu, nodes.left, nodes.model).tolist() == [1401, 1401, 1402]
    assert calls == [2]
