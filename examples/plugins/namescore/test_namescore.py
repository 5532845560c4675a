from pathlib import Path

import pytest

from mooring.loading import load_plugin
from mooring.testing import make_node, make_pod, run_plugin

FILE = Path(__file__).with_name("namescore.py")
NODES = [make_node(name).obj() for name in ("k8s-master01", "k8s-node01", "k8s-node02")]


@pytest.mark.parametrize("name", ["NameScore", "ScoreByNameLength"])
def test_the_second_node_wins(name):
    result = run_plugin(load_plugin(name, FILE), make_pod("test-scheduler").obj(), nodes=NODES)
    assert result.scores == {"k8s-master01": 2, "k8s-node01": 2, "k8s-node02": 3}
