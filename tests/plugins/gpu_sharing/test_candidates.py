from __future__ import annotations

import numpy as np

from mooring.plugins.gpu_sharing.candidates import INFEASIBLE, CandidateCache
from mooring.plugins.gpu_sharing.devices import GpuRequest
from mooring.plugins.gpu_sharing.fragmentation import TypicalPod
from mooring.plugins.gpu_sharing.policies import BestFit
from mooring.plugins.gpu_sharing.workload_fit import WorkloadFit
from tests.plugins.gpu_sharing.nodes import empty_nodes


def test_cached_candidates_equal_fresh_ones_as_nodes_change() -> None:
    rng = np.random.default_rng(7)
    kinds = [GpuRequest(cpu=c, count=1, milli=m) for c, m in ((500, 300), (1500, 600), (900, 1000))] + [
        GpuRequest(cpu=700),
        GpuRequest(cpu=1000, count=2, milli=1000),
    ]
    typical = [TypicalPod(cpu=kind.cpu, count=kind.count, milli=kind.milli, weight=2) for kind in kinds]
    nodes = empty_nodes(12, cpu=6000, gpus=3)
    policy = WorkloadFit(nodes, typical)
    cache = CandidateCache(nodes, policy)
    for _ in range(60):
        pod = kinds[int(rng.integers(len(kinds)))]
        found, fresh = cache.of(pod), CandidateCache(nodes, policy).of(pod)
        assert found.scores.tolist() == fresh.scores.tolist()
        if found.scores.max() == INFEASIBLE:
            continue
        row = int(found.scores.argmax())
        assert not pod.shares or found.gpu[row] == fresh.gpu[row]
        gpus = [int(found.gpu[row])] if pod.shares else np.flatnonzero(nodes.left[row] == 1000)[: pod.count].tolist()
        nodes.place(row, pod, gpus)
        cache.changed(row)


def test_a_sharing_pod_gets_the_tightest_gpu_unless_the_policy_names_one() -> None:
    nodes = empty_nodes(1)
    pod = GpuRequest(cpu=1, count=1, milli=400)
    nodes.place(0, pod, [1])
    assert CandidateCache(nodes, BestFit()).of(pod).gpu.tolist() == [1]
