from pathlib import Path

import pytest

from mooring.loading import load_plugin
from mooring.testing import make_node, make_pod, run_plugin

CheapestNode = load_plugin("CheapestNode", Path(__file__).with_name("cheapest_node.py"))
PRICES = {"spot": "0.5", "plain": "1.0", "large": "2.5"}
NODES = [make_node(name).label({"example.com/price": price}).obj() for name, price in PRICES.items()]
FREE = make_node("gift").obj()


@pytest.mark.parametrize(
    ("nodes", "args", "scores", "refused"),
    [
        (NODES, None, {"spot": 100, "plain": 75, "large": 0}, []),
        (NODES, {"limit": 1}, {"spot": 100, "plain": 0}, ["large"]),
        ([*NODES, FREE], None, {"spot": 80, "plain": 60, "large": 0, "gift": 100}, []),
        (NODES[:1], None, {"spot": 0}, []),
        (NODES, {"label": "other"}, {"spot": 0, "plain": 0, "large": 0}, []),
    ],
)
def test_prices(nodes, args, scores, refused):
    result = run_plugin(CheapestNode, make_pod("p").obj(), nodes=nodes, args=args)
    assert result.scores == scores
    assert result.rejected == dict.fromkeys(refused, ("node(s) were too expensive",))
