"""Replays of small workloads whose measures are known."""

from __future__ import annotations

import pytest

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.loading import Catalog, Setup
from mooring.simulation.tuning.replay import PRICE, Measures, Replay
from mooring.simulation.tuning.workload import Arrival, Workload
from mooring.testing import make_node, make_pod


def pod(name: str, cpu: str, priority: int = 0) -> Pod:
    return make_pod(name).req(cpu=cpu).priority(priority).obj()


def replay(arrivals: list[tuple[float, float, Pod]], *nodes: KubeObject) -> Measures:
    given = list(nodes) or [make_node("a").capacity(cpu="4", memory="8Gi", pods=10).obj()]
    workload = Workload("w", given, [Arrival(*each) for each in arrivals])
    return Replay(workload, Setup(default_config(), Catalog())).run()


def test_waiting_and_utilization() -> None:
    # The first pod fills the node for 100 s. The second waits for it, and runs until the end at 200 s.
    found = replay([(0, 100, pod("first", "4")), (10, 1000, pod("second", "4")), (200, 1, pod("last", "1"))])
    assert found.waiting == pytest.approx(90 / 3, abs=4)  # within the backoff
    assert found.utilization == pytest.approx(100, abs=3)
    assert found.unscheduled == pytest.approx(100 / 3, abs=0.1)
    assert found.pods == 3


def test_the_end_of_a_workload_without_times() -> None:
    found = replay([(0, float("inf"), pod(name, "1")) for name in "xyz"])
    assert (found.utilization, found.waiting, found.unscheduled) == (75.0, 0.0, 0.0)


def test_cost_spread_and_fragmentation() -> None:
    nodes = [
        make_node(name).capacity(cpu="4", memory="8Gi", pods=10).annotation({PRICE: price}).obj()
        for name, price in (("a", "2.5"), ("b", "none"), ("c", "7"))
    ]
    first = make_pod("first").req(cpu="3").node_selector({"kubernetes.io/hostname": "a"}).obj()
    named = [
        make_node(node.metadata.name)
        .capacity(cpu="4", memory="8Gi", pods=10)
        .annotation(node.metadata.annotations)
        .label({"kubernetes.io/hostname": node.metadata.name})
        .obj()
        for node in nodes
    ]
    found = replay([(0, 1000, first), (100, 10, pod("last", "1"))], *named)
    assert found.cost == pytest.approx(2.5, abs=0.05)  # only a has a pod until the end
    assert found.spread == pytest.approx(100 * (2 * 0.75**2 / 9) ** 0.5, abs=0.5)
    # Half of the pods, those with 3 cores, cannot use the free core of a, which is 1 of 12.
    assert found.fragmentation == pytest.approx(100 / 12 / 2, abs=0.2)


def test_preemption_evicts() -> None:
    found = replay([(0, 1000, pod("low", "4")), (10, 1000, pod("high", "4", 10)), (20, 1, pod("last", "1"))])
    assert found.evicted == pytest.approx(100 / 3, abs=0.1)
