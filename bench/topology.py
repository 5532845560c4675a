"""`python -m bench.topology`: sessions that place one large gang with a hard topology on a large network.

First the case of volcano#4899: 1,000 nodes in 100 HyperNodes, and 100 parts of 10 pods, each within a HyperNode. Then a
larger network: 5,000 nodes in three tiers, and a gang of 1,000 pods within a zone.
"""

from __future__ import annotations

import random
import time

import click

from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.batch.actions import ACTIONS
from mooring.batch.cluster import BatchCluster
from mooring.batch.conf import read_conf
from mooring.batch.kube_plugins import RELEASE
from mooring.batch.plugins import PLUGINS as BUILTIN
from mooring.batch.run import close_session, open_session, run_actions
from mooring.columns.table import NodeTable
from mooring.framework.handle import Handle
from mooring.framework.listers import ObjectStore
from tests.batch.cases import PLUGINS, Object, conf, gang, hyper_node, node, queue

_RACK = 20
_ZONE = 25


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=1000, show_default=True)
@click.option("--tier", default=2, show_default=True, help="highestTierAllowed of the gang: 1, 2 or 3.")
@click.option("--sessions", default=3, show_default=True)
def main(nodes: int, pods: int, tier: int, sessions: int) -> None:
    """Measure whole sessions: snapshot, plugins, actions and statuses."""
    topology = {"mode": "hard", "highestTierAllowed": tier}
    measure("volcano#4899", reported(), sessions)
    measure(f"{nodes:,} nodes", [*network(nodes), *gang("g", pods, cpu="4", networkTopology=topology)], sessions)


def measure(name: str, objects: list[Object], sessions: int) -> None:
    """Print how long sessions take that start with the same objects."""
    items = [queue("root"), queue("default"), *objects]
    cluster = cluster_of([item for each in items if isinstance(item := decode_object(each), KubeObject)])
    text = conf(PLUGINS[0], (*PLUGINS[1], "network-topology-aware"))
    settings = read_conf(text, actions=ACTIONS, plugins=BUILTIN)
    for number in range(sessions):
        start = time.perf_counter()
        session = cluster.session(settings)
        plugins = open_session(session)
        run_actions(session)
        close_session(session, plugins)
        seconds = time.perf_counter() - start
        session.end()
        print(f"{name}, session {number + 1}: {seconds:.3f} s, {len(session.bindings):,} pods placed")


def reported() -> list[Object]:
    """Return the objects of volcano#4899: every pod needs a whole node."""
    racks = [hyper_node(f"r{rack}", 1, nodes=[f"n{10 * rack + place}" for place in range(10)]) for rack in range(100)]
    policy = {
        "name": "worker",
        "subGroupSize": 10,
        "minSubGroups": 100,
        "matchLabelKeys": ["part"],
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    whole = {"mode": "hard", "highestTierAllowed": 2}
    members = gang("g", 1000, cpu="8", networkTopology=whole, subGroupPolicy=[policy])
    for number, each in enumerate(members[1:]):
        each["metadata"]["labels"] = {"part": str(number // 10)}
    top = hyper_node("top", 2, within=[f"r{rack}" for rack in range(100)])
    return [*(node(f"n{number}", "8") for number in range(1000)), *racks, top, *members]


def network(nodes: int) -> list[Object]:
    """Nodes in racks (tier 1), in zones (tier 2), in one data center (tier 3)."""
    racks = [range(first, min(first + _RACK, nodes)) for first in range(0, nodes, _RACK)]
    zones = [range(first, min(first + _ZONE, len(racks))) for first in range(0, len(racks), _ZONE)]
    found = [node(f"n{number}", "8", labels={"rack": f"r{number // _RACK}"}) for number in range(nodes)]
    for number in range(len(racks)):
        member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": f"r{number}"}}}}
        found.append(hyper_node(f"r{number}", 1, members=[member]))
    found += [hyper_node(f"z{number}", 2, within=[f"r{rack}" for rack in zone]) for number, zone in enumerate(zones)]
    return [*found, hyper_node("dc", 3, within=[f"z{number}" for number in range(len(zones))])]


def cluster_of(items: list[KubeObject]) -> BatchCluster:
    """Return the objects as a cluster, as a live scheduler sees it."""
    table, store = NodeTable(RELEASE), ObjectStore()
    for item in items:
        if isinstance(item, Node):
            table.add_node(item)
        else:
            store.put(item)
    return BatchCluster(Handle(table=table, objects=store, clock=time.time, rng=random.Random(0)))


if __name__ == "__main__":
    main()
