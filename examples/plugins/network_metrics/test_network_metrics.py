import sys
from pathlib import Path

import pytest
import yaml

from mooring.api.codec import fit
from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_node, make_pod

HERE = Path(__file__).parent
NetworkAware = load_plugin("NetworkAware", HERE / "network_metrics.py")
NetworkMetrics = sys.modules[NetworkAware.__module__].NetworkMetrics
METRICS = fit(yaml.safe_load((HERE / "metrics.yaml").read_text()), NetworkMetrics)
NODES = [make_node(f"node-{number}").obj() for number in range(4)]
LABEL = "network.example.com/group"
FAR = ("node(s) were too far from the pods that this pod talks to",)


def talker(name, node=""):
    pod = make_pod(name).label({LABEL: "chat"})
    return (pod.node(node) if node else pod).obj()


@pytest.mark.parametrize(
    ("args", "peers", "scores", "rejected"),
    [
        (None, [], {"node-0": 0, "node-1": 0, "node-2": 0, "node-3": 0}, []),
        (None, ["node-0"], {"node-0": 100, "node-1": 99, "node-2": 0, "node-3": 0}, []),
        (None, ["node-0", "node-2"], {"node-0": 100, "node-1": 99, "node-2": 100, "node-3": 0}, []),
        ({"maxLatencyMs": 50}, ["node-0"], {"node-0": 100, "node-1": 0}, ["node-2", "node-3"]),
        ({"minBandwidthMbps": 500}, ["node-1"], {"node-0": 0, "node-1": 100}, ["node-2", "node-3"]),
    ],
)
def test_near_nodes_are_preferred_and_far_ones_rejected(args, peers, scores, rejected):
    pods = [talker(f"there-{number}", node) for number, node in enumerate(peers)]
    harness = PluginHarness(NetworkAware, args=args, nodes=NODES, pods=pods, objects=[METRICS])
    result = harness.run(talker("new"))
    assert result.scores == scores
    assert result.rejected == dict.fromkeys(rejected, FAR)


def test_deleted_pods_and_new_measurements():
    harness = PluginHarness(NetworkAware, args={"maxLatencyMs": 50}, nodes=NODES, objects=[METRICS])
    assert harness.run(talker("new")).rejected == {}
    there = talker("there", "node-2")
    harness.add(there)
    assert set(harness.run(talker("new")).rejected) == {"node-0", "node-1", "node-3"}
    better = yaml.safe_load((HERE / "metrics.yaml").read_text())
    better["spec"]["metrics"]["latency"]["node-2"] = {"node-0": 1, "node-1": 1}
    harness.add(fit(better, NetworkMetrics))
    assert set(harness.run(talker("new")).rejected) == {"node-3"}
    harness.table.remove_pod(there.uid)
    assert harness.run(talker("new")).rejected == {}


def test_without_measurements():
    harness = PluginHarness(NetworkAware, args={"maxLatencyMs": 50}, nodes=NODES, pods=[talker("there", "node-0")])
    assert harness.run(talker("new")).rejected == {}
