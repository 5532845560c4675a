"""Requests that fail in every way there is, during a drain of 500 pods."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.faults.plans import CALLS, Call, Kind, Plan
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.faults.trial import Trial

WRITES: tuple[Call, ...] = ("bind", "status", "event", "evict", "get")


def everywhere(*kinds: Kind) -> dict[Call, tuple[Kind, ...]]:
    return dict.fromkeys(CALLS, kinds)


@pytest.mark.parametrize(
    ("faults", "often", "most"),
    [
        pytest.param(everywhere("429", "500", "503"), 0.08, 200, id="refused"),
        pytest.param(
            {**dict.fromkeys(WRITES, ("409",)), "watch": ("gone",), "page": ("gone",)}, 0.1, 200, id="conflicts"
        ),
        pytest.param(everywhere("unsaid", "unheard"), 0.15, 400, id="broken connections"),
        pytest.param(everywhere("torn", "garbled", "slow"), 0.15, 400, id="broken answers"),
        pytest.param(everywhere("portal"), 0.15, 400, id="pages of a proxy"),
        pytest.param(dict.fromkeys(WRITES, ("silent", "mute")), 0.02, 12, id="silence"),
    ],
)
def test_every_pod_is_bound_once(
    cluster: Cluster, faults: dict[Call, tuple[Kind, ...]], often: float, most: int
) -> None:
    plan = Plan(1, faults, often=often, most=most)
    priority = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cluster.api.create(priority, {"metadata": {"name": "urgent"}, "value": 1000})
    with FaultProxy(cluster.plane, plan) as proxy, Trial(cluster, nodes=25, per_node=20) as trial:
        trial.add_pods(trial.count - 20)
        trial.add_pods(3, prefix="huge", cpu="90")
        mooring = trial.start(kubeconfig=proxy.kubeconfig())
        trial.history.wait_bound(trial.count - 20)
        # For twenty there is room, and ten have to make room for themselves.
        trial.add_pods(30, prefix="urgent", priorityClassName="urgent")
        trial.wait_all_bound()
        print(dict(plan.happened))
        plan.active = False
        assert len(plan.happened) >= len(faults) // 2
        trial.check(mooring)


def test_a_connection_is_usable_after_a_refused_watch(cluster: Cluster) -> None:
    """The proxy must not take the refusal for a stream: then the next request on the connection has no answer."""
    with FaultProxy(cluster.plane) as proxy:
        server = urlsplit(yaml.safe_load(proxy.kubeconfig("admin").read_text())["clusters"][0]["cluster"]["server"])
        trusted = proxy.server_address()[2]
        connection = http.client.HTTPSConnection(server.hostname or "", server.port, timeout=10, context=trusted)
        headers = {"Authorization": f"Bearer {cluster.plane.users['admin'].token}"}
        statuses = []
        for query in ("?watch=true&labelSelector=a,,b", "?limit=1"):
            connection.request("GET", f"/api/v1/nodes{query}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
    assert statuses == [400, 200]
