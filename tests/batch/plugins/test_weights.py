"""Weights of resources in arguments."""

from __future__ import annotations

from mooring.batch.arguments import Arguments
from mooring.batch.plugins.weights import resource_weights


def test_weights() -> None:
    given = {"x.cpu": 5, "x.memory": -1, "x.resources": "gpu, , fpga", "x.resources.gpu": 3}
    assert resource_weights(Arguments(given), "x") == {"gpu": 3, "fpga": 1, "cpu": 5, "memory": 1}
