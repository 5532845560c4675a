from pathlib import Path

import pytest

from mooring.loading import load_plugin
from mooring.testing import make_node, make_pod, run_plugin

NodeNumber = load_plugin("NodeNumber", Path(__file__).with_name("nodenumber.py"))
NODES = [make_node("node-1").obj(), make_node("node-2").obj()]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (None, {"node-1": 0, "node-2": 10}),
        ({"reverse": True}, {"node-1": 10, "node-2": 0}),
    ],
)
def test_scores(args, expected):
    assert run_plugin(NodeNumber, make_pod("web-2").obj(), nodes=NODES, args=args).scores == expected
