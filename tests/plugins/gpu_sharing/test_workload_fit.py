from __future__ import annotations

import numpy as np
import pytest

from mooring.plugins.gpu_sharing.devices import GpuColumns, GpuRequest
from mooring.plugins.gpu_sharing.fragmentation import TypicalPod
from mooring.plugins.gpu_sharing.workload_fit import StrandedGpus, WorkloadFit, model_pressure
from tests.plugins.gpu_sharing.nodes import MODELS, empty_nodes, gpu_nodes

#: Pods with 650 and 320 thousandths fill a GPU, those with 470 need each other.
SIZES = [TypicalPod(cpu=1000, count=1, milli=milli, weight=weight) for milli, weight in ((650, 2), (470, 4), (320, 2))]


def scores(typical: list[TypicalPod], nodes: GpuColumns, pod: GpuRequest) -> list[int]:
    return WorkloadFit(empty_nodes(10), typical)(nodes, pod)[0].tolist()


def test_pods_are_paired_with_what_fills_the_gpu() -> None:
    nodes = gpu_nodes((16000, [350]), (16000, [530]), (16000, [1000]))
    small, medium, large = (GpuRequest(cpu=1000, count=1, milli=milli) for milli in (320, 470, 650))
    assert np.argmax(scores(SIZES, nodes, small)) == 0
    assert np.argmax(scores(SIZES, gpu_nodes((16000, [680]), (16000, [530]), (16000, [1000])), medium)) == 1
    assert np.argmax(scores(SIZES, gpu_nodes((16000, [650]), (16000, [940])), large)) == 0


def test_the_gpu_of_a_sharing_pod_is_the_one_that_it_fills() -> None:
    nodes = gpu_nodes((16000, [1000, 680, 350]))
    _, gpu = WorkloadFit(empty_nodes(10), SIZES)(nodes, GpuRequest(cpu=1000, count=1, milli=320))
    assert gpu is not None
    assert gpu.tolist() == [2]


def test_a_node_keeps_cpu_for_all_its_gpus() -> None:
    """Both nodes still have CPU for a typical pod, which is all that FGD sees."""
    typical = [TypicalPod(cpu=4000, count=1, milli=1000)]
    nodes = gpu_nodes((16000, [1000] * 4), (40000, [1000] * 4))
    assert np.argmax(scores(typical, nodes, GpuRequest(cpu=8000))) == 1


def test_stranded_gpus_grow_as_cpu_runs_out() -> None:
    stranded = StrandedGpus([TypicalPod(cpu=4000, count=1, milli=1000)], MODELS)
    nodes = gpu_nodes((16000, [1000] * 4), (8000, [1000] * 4), (4000, [1000] * 4), (3999, [1000] * 4))
    lost = stranded(nodes.cpu, nodes.left, nodes.model)
    assert lost[:3].tolist() == [0, 1000, 1500]
    assert lost[3] == pytest.approx(4000 + 1500.125)


def test_without_expected_gpu_pods_all_gpus_are_stranded() -> None:
    nodes = empty_nodes(2)
    assert StrandedGpus([TypicalPod(cpu=1)], MODELS)(nodes.cpu, nodes.left, nodes.model).tolist() == [2000, 2000]


def test_pods_leave_a_model_to_those_that_need_it() -> None:
    typical = [
        TypicalPod(cpu=1000, count=1, milli=1000, models="T4", weight=1),
        TypicalPod(cpu=1000, count=1, milli=1000, weight=3),
    ]
    both = gpu_nodes(*[(16000, [1000, 1000])] * 20)
    both.model[:10] = MODELS.index("G2")
    any_model = GpuRequest(cpu=1000, count=1, milli=1000)
    found = WorkloadFit(both, typical)(both, any_model)[0]
    assert found[:10].min() > found[10:].max()


def test_pressure_is_the_share_that_restricted_pods_use() -> None:
    typical = [
        TypicalPod(cpu=1, count=1, milli=1000, models="T4", weight=1),
        TypicalPod(cpu=1, count=1, milli=1000, weight=3),
    ]
    assert model_pressure(typical, MODELS, np.array([30, 10])).tolist() == [0, 1]
    assert model_pressure([], MODELS, np.array([30, 10])).tolist() == [0, 0]
