"""Others act on the same objects at the same time: schedulers, people who delete pods, nodes that come and go."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Api, ApiFailure
from tests.e2e.faults.trial import Trial


@contextlib.contextmanager
def beside(cluster: Cluster, act: Callable[[Api, threading.Event], None]) -> Iterator[None]:
    """Let somebody act on the cluster, on a connection of their own, until the block ends."""
    over = threading.Event()
    api = cluster.plane.api_as("admin")
    thread = threading.Thread(target=act, args=(api, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        api.close()


def test_kube_scheduler_binds_the_same_pods(cluster: Cluster) -> None:
    """Two schedulers that know nothing of each other can overfill a node; a pod is bound once for all that."""
    with Trial(cluster, nodes=25, per_node=40) as trial:
        foreign = cluster.plane.start_kube_scheduler(name="foreign")
        mooring = trial.start()
        cluster.api.wait_for("start", lambda: '"Scheduling"' in mooring.log.read_text() or None)
        # Both run by now, and both see room for every pod: half of it stays free.
        trial.add_pods(trial.count // 2)
        trial.wait_all_bound()
        ours = mooring.log.read_text().count('"Successfully bound pod to node"')
        print(f"{ours} of {trial.count // 2} pods were bound by us")
        assert 0 < ours < trial.count // 2
        foreign.stop()
        trial.check(mooring)


def test_somebody_binds_pods_at_random(cluster: Cluster) -> None:
    rng = random.Random(3)
    with Trial(cluster, nodes=25, per_node=40) as trial:
        count = trial.count // 2
        pods = trial.add_pods(count)
        taken: list[str] = []

        def bind(api: Api, over: threading.Event) -> None:
            for pod in rng.sample(pods, count):
                if over.is_set():
                    return
                name = pod["metadata"]["name"]
                path = f"/api/v1/namespaces/{cluster.namespace}/pods/{name}/binding"
                target = {"kind": "Node", "name": f"node-{rng.randrange(25)}"}
                with contextlib.suppress(ApiFailure):
                    api.create(path, {"metadata": {"name": name}, "target": target})
                    taken.append(name)

        mooring = trial.start()
        trial.history.wait_bound(1)
        with beside(cluster, bind):
            trial.wait_all_bound()
        assert taken
        trial.check(mooring)


def test_pods_are_deleted_while_they_are_bound(cluster: Cluster) -> None:
    rng = random.Random(4)
    with Trial(cluster, nodes=20, per_node=40) as trial:
        pods = trial.add_pods(trial.count)
        doomed = rng.sample(pods, 200)

        def delete(api: Api, over: threading.Event) -> None:
            for pod in doomed:
                name = pod["metadata"]["name"]
                path = f"/api/v1/namespaces/{cluster.namespace}/pods"
                api.delete(f"{path}/{name}")
                if rng.random() < 0.5:
                    # Another pod of the same name: what was decided about the first is not for this one.
                    metadata = {"name": name, "labels": {"again": "yes"}}
                    api.create(path, {"metadata": metadata, "spec": _spec(pod)})

        mooring = trial.start()
        trial.history.wait_bound(1)
        with beside(cluster, delete):
            trial.history.wait_bound(trial.count - 200)
        trial.wait_all_bound()
        trial.check(mooring)


def test_nodes_vanish_and_come_back(cluster: Cluster) -> None:
    rng = random.Random(5)
    with Trial(cluster, nodes=30, per_node=40) as trial:
        trial.add_pods(trial.count - 200)

        def flap(api: Api, over: threading.Event) -> None:
            while not over.wait(0.05):
                name = f"node-{rng.randrange(30)}"
                node = api.get(f"/api/v1/nodes/{name}")
                api.delete(f"/api/v1/nodes/{name}")
                over.wait(rng.random() * 0.3)
                metadata = {"name": name, "labels": node["metadata"]["labels"]}
                api.create("/api/v1/nodes", {"metadata": metadata, "spec": node["spec"], "status": node["status"]})

        mooring = trial.start()
        trial.history.wait_bound(1)
        with beside(cluster, flap):
            trial.wait_all_bound()
        trial.check(mooring)


def _spec(pod: dict[str, dict[str, object]]) -> dict[str, object]:
    return {name: pod["spec"][name] for name in ("containers", "terminationGracePeriodSeconds")}
