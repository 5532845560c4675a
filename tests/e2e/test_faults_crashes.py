"""Everything that can die, dies during a drain: the scheduler, the API server, and what etcd remembers."""

from __future__ import annotations

import random
import threading
import time

from tests.e2e.cluster import Cluster
from tests.e2e.faults.trial import Trial

KILLS = 10


def test_killed_ten_times_it_goes_on_where_it_was(cluster: Cluster) -> None:
    rng = random.Random(7)
    with Trial(cluster, nodes=40, per_node=50) as trial:
        trial.add_pods(trial.count)
        mooring = trial.start()
        for number in range(KILLS):
            # Spread over the whole drain, and at no particular moment of it.
            trial.history.wait_bound((trial.count // (KILLS + 1)) * number + rng.randrange(1, 150))
            time.sleep(rng.random() * 0.05)
            mooring.kill()
            mooring.start(wait=False)
        trial.wait_all_bound()
        trial.check(mooring)


def test_the_api_server_is_killed_twice(cluster: Cluster) -> None:
    with Trial(cluster, nodes=40, per_node=20) as trial:
        trial.add_pods(trial.count)
        mooring = trial.start()
        for share, down in ((0.2, 0.0), (0.6, 3.0)):
            trial.history.wait_bound(int(trial.count * share))
            cluster.plane.apiserver.restart(kill=True, down=down)
        cluster.api.wait_for("API server", lambda: cluster.api.ready() or None)
        trial.wait_all_bound()
        trial.check(mooring)


def test_etcd_forgets_the_past(cluster: Cluster) -> None:
    """After a compaction and a restart the server cannot go on from any version that the scheduler has seen."""
    with Trial(cluster, nodes=20, per_node=20) as trial:
        trial.add_pods(trial.count // 2)
        mooring = trial.start()
        trial.history.wait_bound(trial.count // 4)
        cluster.plane.apiserver.kill()
        # What happens meanwhile is not in any watch: only a new list shows it.
        cluster.plane.compact()
        cluster.plane.apiserver.start()
        cluster.api.wait_for("API server", lambda: cluster.api.ready() or None)
        cluster.plane.compact()
        # The cache of a server that has just started begins after the compaction.
        cluster.plane.apiserver.restart(kill=True)
        cluster.api.wait_for("API server", lambda: cluster.api.ready() or None)
        trial.add_pods(trial.count // 2, prefix="later")
        trial.wait_all_bound()
        trial.check(mooring)


def test_pods_are_made_and_deleted_while_the_server_comes_and_goes(cluster: Cluster) -> None:
    with Trial(cluster, nodes=20, per_node=20) as trial:
        trial.add_pods(trial.count - 50)
        mooring = trial.start()
        trial.history.wait_bound(50)
        down = threading.Thread(target=lambda: cluster.plane.apiserver.restart(kill=True, down=1.0))
        down.start()
        down.join()
        cluster.api.wait_for("API server", lambda: cluster.api.ready() or None)
        for number in range(0, 100, 2):
            cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/pod-{number}")
        trial.add_pods(100, prefix="later")
        trial.wait_all_bound()
        trial.check(mooring)
