"""Filters in columns that have their price for every node: asked last, in portions, and only as often as needed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from mooring.config import PluginSpec, load_config
from mooring.framework import Nodes, Plugin, Verdicts
from mooring.framework.points import points_of
from mooring.framework.status import Status
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult
from mooring.scheduler.cache import Cache
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_node, make_pod

REASON = Status.unschedulable("odd")
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Even}]}}}]
"""


class Single(Plugin):
    """The plain form."""

    name = "Even"
    divisor = 1

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return REASON if int(node.name[1:]) % self.divisor else None


class Bulk(Plugin):
    """The same in columns, with a count of the nodes it was asked about."""

    name = "Even"
    per_node = True
    divisor = 1
    asked = 0

    def filter_nodes(self, state: Any, pod: Any, nodes: Nodes) -> Verdicts:
        type(self).asked += len(nodes)
        odd = [int(name[1:]) % self.divisor != 0 for name in nodes.names]
        return Verdicts.reject(np.array(odd, dtype=np.bool_), REASON)


def decide(plugin: type[Plugin], nodes: int, pods: int = 5) -> list[Any]:
    cache = Cache()
    for number in range(nodes):
        cache.put(make_node(f"n{number}").capacity(cpu="8", memory="8Gi", pods="50").obj())
    specs = {"Even": PluginSpec("Even", points_of(plugin), None)}
    config = load_config(CONFIG, source="test", plugins=specs)
    cycle = Profiles(config, cache, plugins={"Even": plugin}, rng=random.Random(7)).first
    found = []
    for number in range(pods):
        pod = make_pod(f"p{number}").uid(f"p{number}").req(cpu="100m").obj()
        answer = schedule_pod(cycle, pod)
        if isinstance(answer, ScheduleResult):
            cache.assume(pod, answer.node_name)
            found.append((answer.node_name, answer.evaluated, answer.feasible))
        else:
            assert isinstance(answer, ScheduleFailure)
            found.append((answer.message, 0, 0))
    return found


@pytest.mark.parametrize(("nodes", "divisor"), [(10, 2), (300, 1), (300, 3), (2000, 2), (2000, 7), (50, 1000)])
def test_both_forms_decide_alike(nodes: int, divisor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for form in (Bulk, Single):
        monkeypatch.setattr(form, "divisor", divisor)
    assert decide(Bulk, nodes) == decide(Single, nodes)


def test_no_more_nodes_are_asked_about_than_needed() -> None:
    """Of 5,000 nodes 10 % are wanted; portions may overshoot only where nodes are turned down."""
    Bulk.asked = 0
    placed = decide(Bulk, 5000, pods=1)
    assert placed[0][2] == 500
    assert Bulk.asked == 500
