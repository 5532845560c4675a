"""The examples of the protocol for each policy."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.plugins.gpu_sharing.devices import GpuRequest, kind_bit
from mooring.plugins.gpu_sharing.fragmentation import Fragmentation
from mooring.plugins.gpu_sharing.policies import POLICIES, Policy, Setting
from tests.plugins.gpu_sharing.nodes import MODELS, gpu_nodes
from tests.plugins.gpu_sharing.test_fragmentation import TYPICAL

SHARING = GpuRequest(cpu=2000, count=1, milli=300)
WHOLE_GPU = GpuRequest(cpu=2000, count=1, milli=1000)
NODES = gpu_nodes((8000, [400, 1000]), tags=[kind_bit(SHARING)])


def policy(name: str) -> Policy:
    return POLICIES[name](Setting(NODES, TYPICAL, Fragmentation(TYPICAL, MODELS), np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("name", "pod", "score", "gpu"),
    [
        ("FGD", SHARING, 57, 0),
        ("BestFit", SHARING, 90, None),
        ("GpuPacking", SHARING, 96, None),
        ("DotProd", SHARING, 99, None),
        ("GpuClustering", SHARING, 95, None),
        ("FGD", WHOLE_GPU, 54, None),
        ("GpuPacking", WHOLE_GPU, 49, None),
        ("BestFit", WHOLE_GPU, 95, None),
        ("GpuClustering", WHOLE_GPU, 20, None),
        ("FGD", GpuRequest(cpu=5000), 37, None),
        ("GpuPacking", GpuRequest(cpu=5000), 0, None),
        ("GpuClustering", GpuRequest(cpu=5000), 0, None),
    ],
)
def test_scores(name: str, pod: GpuRequest, score: int, gpu: int | None) -> None:
    scores, gpus = policy(name)(NODES, pod)
    assert scores.tolist() == [score]
    assert (None if gpus is None else int(gpus[0])) == gpu


def test_packing_scores_by_what_is_in_use() -> None:
    nodes = gpu_nodes((8000, [1000, 1000]), (8000, [1000, 0]), (8000, [1000, 300]))
    assert policy("GpuPacking")(nodes, SHARING)[0].tolist() == [31, 49, 97]


def test_clustering_prefers_nodes_of_the_same_kind() -> None:
    own, other = kind_bit(SHARING), kind_bit(WHOLE_GPU)
    nodes = gpu_nodes(*[(8000, [0, 0])] * 4, tags=[own, own | other, 0, other])
    assert policy("GpuClustering")(nodes, SHARING)[0].tolist() == [100, 75, 50, 25]


def test_random_draws_a_node_and_a_gpu_that_fits() -> None:
    nodes = gpu_nodes(*[(8000, [100, 1000])] * 5)
    draw = policy("Random")
    chosen = set()
    for _ in range(50):
        scores, gpus = draw(nodes, SHARING)
        assert sorted(scores.tolist()) == [0, 0, 0, 0, 100]
        assert gpus is not None
        assert gpus.tolist() == [1] * 5
        chosen.add(int(scores.argmax()))
    assert chosen == set(range(5))
