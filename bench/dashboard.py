"""`python -m bench.dashboard`: the time of each request of the dashboard, with 5,000 nodes and 50,000 pods."""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable

import msgspec

from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.dashboard.cluster_view import ClusterView
from mooring.dashboard.pod_view import PodView
from mooring.dashboard.queue_view import QueueView
from mooring.observe.decision_records import DecisionRecords
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from mooring.testing import make_node, make_pod


def cluster(nodes: int, pods: int) -> Engine:
    """Return an engine with pods on its nodes, and 1 % of the pods pending for three reasons."""
    engine = Engine(default_config(), rng=random.Random(0), observer=Observer(records=DecisionRecords()))
    for number in range(nodes):
        node = make_node(f"node-{number}").zone(f"zone-{number % 3}")
        engine.put(node.capacity({"cpu": 32, "memory": "128Gi", "pods": 110}).obj())
    for number in range(pods):
        pod = make_pod(f"web-{number}").req(cpu="500m", memory="1Gi").node(f"node-{number % nodes}")
        engine.put(pod.obj())
    for number in range(pods // 100):
        engine.put(_pending(number))
    while engine.schedule_one() is not None:
        pass
    return engine


def _pending(number: int) -> Pod:
    pod = make_pod(f"pending-{number}").req(cpu="64" if number % 3 else "1")
    if number % 3 == 0:
        pod = pod.node_selector({"disk": "nvme"})
    return pod.obj()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=20)
    given = parser.parse_args()
    engine = cluster(given.nodes, given.pods)
    view, queue, pods = ClusterView(engine), QueueView(engine), PodView(engine)
    view.changes()
    everything = {"structure": engine.cache.table.structure, "rows": None}
    requests: dict[str, Callable[[], object]] = {
        "Cluster: all nodes": lambda: view.columns("", "cpu"),
        "Cluster: update of all nodes": lambda: view.values(everything, "cpu"),
        "Cluster: update of 100 nodes": lambda: view.values({**everything, "rows": list(range(100))}, "cpu"),
        "Cluster: one node": lambda: view.node("node-7"),
        "Cluster: scores for a pod": lambda: pods.scores("default/web-7", ""),
        "Queue": lambda: asyncio.run(queue.overview()),
        "Pod: search": lambda: asyncio.run(pods.search("web-77")),
        "Pod: matrix of a placed pod": lambda: pods.matrix("default/web-7"),
        "Pod: matrix of a pending pod": lambda: pods.matrix("default/pending-1"),
    }
    print(f"{given.nodes:,} nodes, {given.pods:,} pods")
    print(f"{'':34}{'median':>10}{'worst':>10}{'size':>12}")
    for name, request in requests.items():
        times = []
        for _ in range(given.repeat):
            started = time.perf_counter()
            answer = request()
            times.append(1000 * (time.perf_counter() - started))
        size = len(msgspec.json.encode(answer))
        print(f"{name:34}{statistics.median(times):8.1f}ms{max(times):8.1f}ms{size / 1024:10,.0f}KB")


if __name__ == "__main__":
    main()
