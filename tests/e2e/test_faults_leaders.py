"""Two replicas and one lease: when the leader dies, sleeps or is robbed, the other goes on and nobody binds twice."""

from __future__ import annotations

import time

from tests.e2e.cluster import Cluster
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.faults.trial import Trial

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
CONFIG = {"leaderElection": {"leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}}


def holder(cluster: Cluster) -> str:
    return str(cluster.api.get(LEASE)["spec"].get("holderIdentity", ""))


def writes_since(proxy: FaultProxy, moment: float) -> list[str]:
    """What was changed in pods through the proxy after a moment."""
    later = [(method, target) for when, method, target in proxy.requests if when > moment]
    return [target for method, target in later if method != "GET" and "/pods" in target]


def test_the_other_takes_over_when_the_leader_is_killed(cluster: Cluster) -> None:
    with Trial(cluster, nodes=25, per_node=40) as trial:
        trial.add_pods(trial.count)
        first = trial.start(name="first", config=CONFIG)
        trial.history.wait_bound(20)
        second = trial.start(name="second", config=CONFIG)
        trial.history.wait_bound(200)
        first.kill()
        trial.wait_all_bound()
        trial.check(second)


def test_a_leader_that_slept_too_long_binds_nothing_when_it_wakes(cluster: Cluster) -> None:
    with FaultProxy(cluster.plane) as proxy, Trial(cluster, nodes=25, per_node=60) as trial:
        trial.add_pods(trial.count)
        proxy.hold_binds(after=150)  # most pods still wait when the leader sleeps, however fast it is
        first = trial.start(name="sleeper", config=CONFIG, kubeconfig=proxy.kubeconfig())
        trial.history.wait_bound(50)
        second = trial.start(name="waker", config=CONFIG)
        trial.history.wait_bound(150)
        first.pause()
        proxy.release_binds()
        asleep, bound = holder(cluster), trial.history.bound
        assert bound < trial.count
        cluster.api.wait_for("another leader", lambda: holder(cluster) not in {asleep, ""} or None)
        trial.history.wait_bound(bound + 20)
        woken = time.monotonic()
        first.resume()
        assert first.wait() == 1
        assert writes_since(proxy, woken) == []
        trial.wait_all_bound()
        trial.check(second)


def test_a_leader_that_is_robbed_stops_at_once(cluster: Cluster) -> None:
    with FaultProxy(cluster.plane) as proxy, Trial(cluster, nodes=25, per_node=40) as trial:
        trial.add_pods(trial.count)
        proxy.hold_binds(after=50)
        robbed = trial.start(name="robbed", config=CONFIG, kubeconfig=proxy.kubeconfig())
        trial.history.wait_bound(50)
        thief = {"holderIdentity": "thief", "leaseDurationSeconds": 4}
        cluster.api.patch(LEASE, {"spec": thief})
        proxy.release_binds()
        assert robbed.wait() == 1
        stopped = time.monotonic()
        assert trial.history.bound < trial.count, "the drain was over before the lease was stolen"
        time.sleep(0.5)  # the process has ended; a write could only be on its way through the proxy
        assert writes_since(proxy, stopped) == []
        # When the thief does nothing with it, the next one has it in the end.
        follower = trial.start(name="follower", config=CONFIG)
        trial.wait_all_bound()
        trial.check(follower)


def test_a_leader_that_stops_in_order_hands_over_at_once(cluster: Cluster) -> None:
    with Trial(cluster, nodes=10, per_node=40) as trial:
        first = trial.start(name="former", config=CONFIG)
        cluster.api.wait_for("leader", lambda: trial.cluster.api.items("/apis/coordination.k8s.io/v1/leases"))
        trial.add_pods(trial.count // 2)
        trial.history.wait_bound(10)
        second = trial.start(name="latter", config=CONFIG)
        first.stop()
        assert first.exit_code == 0
        trial.add_pods(trial.count // 2, prefix="later")
        trial.wait_all_bound()
        trial.check(second)
