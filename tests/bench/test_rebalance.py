"""The instances of `python -m bench.rebalance`, and its table."""

from __future__ import annotations

import random

from click.testing import CliRunner

from bench import rebalance
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.quantity import milli_value


def test_instances_have_the_wanted_usage_and_fail() -> None:
    shape = rebalance.Shape(4, 4, 2, 95)
    objects = rebalance.generate(shape, random.Random(1))
    room = sum(milli_value(each.status.allocatable["cpu"]) for each in objects if isinstance(each, Node))
    pods = [each for each in objects if isinstance(each, Pod)]
    requested = sum(milli_value(each.spec.containers[0].resources.requests["cpu"]) for each in pods)
    assert len(pods) == 16
    assert 0.94 < requested / room <= 0.95
    for cluster in rebalance.failing(shape, 1, seed=1):
        assert sum(isinstance(each, Pod) for each in cluster) == 16
        assert any(isinstance(each, Pod) and not each.node_name for each in cluster)


def test_the_table(monkeypatch) -> None:
    monkeypatch.setattr(rebalance, "NODES", (4,))
    monkeypatch.setattr(rebalance, "PODS_PER_NODE", (4,))
    monkeypatch.setattr(rebalance, "PRIORITIES", (1,))
    monkeypatch.setattr(rebalance, "USAGES", (90,))
    found = CliRunner().invoke(rebalance.main, ["--count", "1", "--seconds", "0.2", "--solver", "1"])
    assert found.exit_code == 0, found.output
    assert found.output.splitlines()[-2].split()[:2] == ["all", "1"]
