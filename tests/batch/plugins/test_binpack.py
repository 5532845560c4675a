"""binpack: scores by weighted utilization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, group, node, pod, session_of, tasks_of


def member(name: str, requests: dict[str, str], on: str = "") -> dict[str, Any]:
    return pod(name, "g", on=on, containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])


def scores(arguments: str, requests: dict[str, str]) -> list[float] | None:
    """The scores of a half-used node of 2 cores and 4Gi, and of an empty one of 4 cores and 16Gi."""
    used = member("there", {"cpu": "1", "memory": "1Gi"}, "half")
    nodes = [node("half", "2", memory="4Gi"), node("empty", "4", memory="16Gi")]
    session = session_of(conf(("binpack",), binpack=arguments), *nodes, group("g", 1), used, member("new", requests))
    if not session.all("node_order"):
        return None
    task = tasks_of(session)["new"]
    found = session.total_scores(task, SessionNodes(session))
    assert found is not None
    each = [session.total_scores(task, SessionNodes(session, np.array([row]))) for row in range(len(nodes))]
    assert each == found.tolist(), "one node has the score that it has among others"
    return [round(float(score), 4) for score in found]


SMALL = {"cpu": "1", "memory": "1Gi"}
WEIGHTS = "{binpack.weight: 10, binpack.cpu: 2, binpack.memory: 3}"
FOO = '{binpack.weight: 10, binpack.cpu: 2, binpack.memory: 3, binpack.resources: "example.com/foo", '


@pytest.mark.parametrize(
    ("arguments", "requests", "expected"),
    [
        ("", SMALL, [75.0, 15.625]),
        (WEIGHTS, SMALL, [700.0, 137.5]),
        ("{binpack.memory: 0}", SMALL, [100.0, 25.0]),
        ("{binpack.cpu: -5}", SMALL, [75.0, 15.625]),
        ("", {"cpu": "1"}, [100.0, 25.0]),
        ("", {"cpu": "3"}, [0.0, 75.0]),
        ("{binpack.weight: 0}", SMALL, None),
        (FOO + "binpack.resources.example.com/foo: 8}", {"cpu": "3", "memory": "4Gi", "example.com/foo": "3"},
         [0.0, 173.0769]),
    ],
    ids=["default", "weights", "no memory", "negative is 1", "cpu only", "too full", "disabled", "missing resource"],
)  # fmt: skip
def test_scores(arguments: str, requests: dict[str, str], expected: list[float] | None) -> None:
    """The weight of a resource that a node does not have counts in the denominator."""
    found = scores(arguments, requests)
    assert found == expected or np.allclose(found or [], expected or [])
