"""Pods that are expensive to schedule, on a real API server next to kube-scheduler: the answers are the same, ordinary
pods are placed meanwhile, and the event loop goes on. `python -m bench.hostile --live` measures all shapes."""

from __future__ import annotations

import threading
import time
from typing import Final

from bench.hostile.live import MOORING_NAME, start_mooring
from bench.hostile.shapes import manifest
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object
from tests.e2e.endpoints import ask, is_ready

KUBE_NAME: Final = "kube-scheduler"
SHAPES: Final = (
    "Gt on the hostname",
    "preferred In",
    "a large nodeSelector",
    "tolerations of many keys",
    "soft spread keys",
    "pod anti-affinity terms",
    "extended resources",
    "scheduling constraints of all kinds",
)
#: Generous: the tests of all engineers may share the machine.
MOST_BLOCKED_SECONDS: Final = 30.0


class LoopTimes:
    """Asks an endpoint that the scheduler's event loop answers, all the time, in a thread."""

    def __init__(self, port: int, token: str) -> None:
        self.longest = 0.0
        self.answers = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(port, token), daemon=True)
        self._thread.start()

    def _ask(self, port: int, token: str) -> None:
        while not self._end.wait(0.05):
            started = time.monotonic()
            self.answers += ask(port, "/plugins", token=token).status == 200
            self.longest = max(self.longest, time.monotonic() - started)

    def stop(self) -> None:
        self._end.set()
        self._thread.join(30)


def answer(pod: Object) -> str:
    """Return "placed", the message of the PodScheduled condition, or nothing."""
    if pod["spec"].get("nodeName"):
        return "placed"
    found = [each.get("message", "") for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
    return found[0] if found else ""


def test_expensive_pods_get_the_same_answer_and_delay_nobody(cluster: Cluster) -> None:
    plane, api = cluster.plane, cluster.api
    for number in range(30):
        cluster.add_node(f"node-{number:05d}", labels={"topology.kubernetes.io/zone": f"zone-{number % 3}"})
    plane.start_kube_scheduler({"profiles": [{"schedulerName": KUBE_NAME}]})
    process, port = start_mooring(plane)
    api.wait_for("Mooring", lambda: is_ready(port) or None, 60)
    times = LoopTimes(port, plane.users["admin"].token)
    path = f"/api/v1/namespaces/{cluster.namespace}/pods"
    names = {}
    for number, shape in enumerate(SHAPES):
        for scheduler in (MOORING_NAME, KUBE_NAME):
            name = f"{scheduler[:4]}-{number}"
            pod = manifest(shape, name, 0.4)
            pod["metadata"]["namespace"] = cluster.namespace
            pod["spec"] |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
            api.create(path, pod)
            names[shape, scheduler] = name
        ordinary = f"ordinary-{number}"
        cluster.add_pod(ordinary, cpu="10m", schedulerName=MOORING_NAME)
        cluster.wait_bound(ordinary)
    for shape in SHAPES:
        ours, theirs = (
            api.wait_for(f"the answer to {name}", lambda name=name: answer(cluster.pod(name)) or None, 60)
            for name in (names[shape, MOORING_NAME], names[shape, KUBE_NAME])
        )
        assert ours == theirs, shape
    times.stop()
    assert process.alive
    assert times.answers > 0
    assert times.longest < MOST_BLOCKED_SECONDS
