import sys
from pathlib import Path

import pytest

from mooring.api.codec import fit
from mooring.loading import load_plugin
from mooring.testing import make_node, make_pod, run_plugin

NodeCRDResourceFit = load_plugin("NodeCRDResourceFit", Path(__file__).with_name("node_crd_resource_fit.py"))
ClusterScopedResource = sys.modules[NodeCRDResourceFit.__module__].ClusterScopedResource
NODES = [make_node(name).obj() for name in ("node-0", "node-1", "node-2")]


def offer(name, filters, scores):
    spec = {"resourcesFilter": filters, "resourcesScore": scores}
    return fit({"metadata": {"name": name}, "spec": spec}, ClusterScopedResource)


OFFERS = [
    offer("node-1", {"company.net/memory": True, "cpu": True}, {"company.net/memory": 20}),
    offer("node-2", {"company.net/memory": True, "cpu": True}, {"company.net/memory": 70, "cpu": 170}),
]
NOTHING = "the node has no ClusterScopedResource"


@pytest.mark.parametrize(
    ("requests", "scores", "rejected"),
    [
        ({"company.net/memory": "1"}, {"node-1": 20, "node-2": 70}, {"node-0": (NOTHING,)}),
        ({"company.net/memory": "1", "cpu": "1"}, {"node-1": 10, "node-2": 85}, {"node-0": (NOTHING,)}),
        ({}, {"node-1": 0, "node-2": 0}, {"node-0": (NOTHING,)}),
        (
            {"company.net/gpu": "1"},
            {},
            {
                "node-0": (NOTHING,),
                "node-1": ("resource company.net/gpu is not enabled on the node",),
                "node-2": ("resource company.net/gpu is not enabled on the node",),
            },
        ),
    ],
)
def test_offers(requests, scores, rejected):
    result = run_plugin(NodeCRDResourceFit, make_pod("p").req(requests).obj(), nodes=NODES, objects=OFFERS)
    assert (result.scores, result.rejected) == (scores, rejected)


def test_the_mean_is_rounded_up():
    offers = [offer("node-1", {"a.net/a": True, "b.net/b": True}, {"a.net/a": 10, "b.net/b": 11})]
    pod = make_pod("p").req({"a.net/a": 1, "b.net/b": 1}).obj()
    assert run_plugin(NodeCRDResourceFit, pod, nodes=NODES, objects=offers).scores == {"node-1": 11}
