"""An upgrade and a rollback of a release with two replicas, while pods arrive: none is lost, none is placed twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane
from tests.e2e.release import Release, audit_flags
from tests.e2e.test_rbac import is_forbidden

PODS: Final = 500
#: Short, so that a successor need not wait long should a leader go without a word.
LEASE: Final = (
    "scheduler.replicaCount=2,configExtra.leaderElection.leaseDuration=4s,"
    "configExtra.leaderElection.renewDeadline=3s,configExtra.leaderElection.retryPeriod=500ms"
)


@pytest.fixture
def release(built: None, helm_built: None, tmp_path: Path) -> Iterator[Release]:
    for plane in running(ControlPlane(apiserver_flags=audit_flags(tmp_path))):
        yield Release(Cluster(plane), tmp_path)


class Arrivals(threading.Thread):
    """Makes pods, evenly, and waits once half of them are there until it may go on."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        super().__init__(daemon=True)
        self.names = [f"pod-{number}" for number in range(PODS)]
        self.made = 0
        self.go_on = threading.Event()
        self._cluster = cluster
        self._pause = seconds / PODS

    def run(self) -> None:
        api = self._cluster.plane.api_as("admin")
        container = {"name": "main", "image": "example/app:1", "resources": {"requests": {"cpu": "100m"}}}
        spec = {"schedulerName": "mooring", "containers": [container], "terminationGracePeriodSeconds": 0}
        for name in self.names:
            api.create(f"/api/v1/namespaces/{self._cluster.namespace}/pods", {"metadata": {"name": name}, "spec": spec})
            self.made += 1
            if self.made == PODS // 2:
                self.go_on.wait()
            time.sleep(self._pause)
        api.close()


def test_none_is_lost_and_none_placed_twice(release: Release, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = release.cluster
    for number in range(10):
        cluster.add_node(f"node-{number}", cpu="6")
    release.install("--set", LEASE)
    first = [release.start(), release.start()]
    arrivals = Arrivals(cluster, seconds=30)
    arrivals.start()
    cluster.api.wait_for("some pods on nodes", lambda: len(cluster.placements()) >= 20)
    started = time.monotonic()
    release.upgrade("--set", f"{LEASE},scheduler.verbosity=3")
    release.roll()
    upgraded = time.monotonic() - started
    arrivals.go_on.set()
    cluster.api.wait_for("more pods on nodes", lambda: len(cluster.placements()) >= PODS // 2 + 20)
    started = time.monotonic()
    release.rollback()
    release.roll()
    rolled_back = time.monotonic() - started
    arrivals.join(120)
    where = cluster.wait_bound(*arrivals.names, timeout=120)
    took = time.monotonic() - started
    assert len(where) == PODS
    # 6 cores hold 60 pods of 100m each.
    assert max(Counter(where.values()).values()) <= 60
    binds = Counter(
        each["objectRef"]["name"]
        for each in release.asked()
        # Requests for the server's version have no object.
        if each.get("objectRef", {}).get("subresource") == "binding" and each["responseStatus"]["code"] == 201
    )
    assert set(binds) == set(where)
    assert set(binds.values()) == {1}
    assert [each for each in release.asked() if is_forbidden(each)] == []
    for pod in [*first, *release.pods]:
        assert "Traceback" not in pod.process.log.read_text()
    assert [pod.process.exit_code for pod in first] == [0, 0]
    with capsys.disabled():
        print(
            f"\nupgrade {upgraded:.1f} s, rollback {rolled_back:.1f} s of two replicas while {PODS} pods arrived; "
            f"the last was placed {took:.1f} s after the rollback began"
        )
