"""PreFilter and PreScore plugins are called once for all pods of which they read equal parts."""

from __future__ import annotations

import functools

import numpy as np

from mooring.config import default_config
from mooring.framework import CycleState, Status, Verdicts, depends_on
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources import NodeResourcesFit
from mooring.plugins.taint_toleration import TaintToleration
from mooring.scheduler.cache import Cache
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_node, make_pod
from tests.scheduler.profiles import make_runner


def counted(monkeypatch, cls, method):
    """The calls of a plugin's method, as a list of pod names."""
    calls: list[str] = []
    original = getattr(cls, method)

    @functools.wraps(original)
    def call(self, state, pod, nodes):
        calls.append(pod.name)
        return original(self, state, pod, nodes)

    monkeypatch.setattr(cls, method, call)
    return calls


def test_plugins_that_read_only_constraints_are_not_called_for_each_new_template(monkeypatch):
    tainted = counted(monkeypatch, TaintToleration, "score_nodes")
    ports = counted(monkeypatch, NodePorts, "pre_filter")
    fit = counted(monkeypatch, NodeResourcesFit, "pre_filter")
    cache = Cache()
    for number in range(3):
        cache.put(make_node(f"n{number}").capacity(cpu="4").obj())
    cycle = Profiles(default_config(), cache).first
    for number in range(3):
        schedule_pod(cycle, make_pod(f"p{number}").label(app=str(number)).req(cpu=f"{1 + number}m").obj())
    schedule_pod(cycle, make_pod("tolerant").toleration("x", operator="Exists").obj())
    cache.put(make_node("n1").capacity(cpu="4").taint("x", "y", "PreferNoSchedule").obj())
    schedule_pod(cycle, make_pod("last").label(app="last").obj())
    assert tainted == ["p0", "tolerant", "last"]
    assert ports == ["p0", "tolerant"]
    assert fit == ["p0", "p1", "p2", "tolerant", "last"]


def test_a_plugin_derived_from_a_built_in_one_shares_nothing(monkeypatch):
    class ByLabel(NodePorts):
        def signature(self, template):
            return template

        @depends_on("template")
        def pre_filter(self, state, pod, nodes):
            return Status.skip(template=True) if pod.labels["app"] == "x" else None

        @depends_on("node")
        def filter_nodes(self, state, pod, nodes):
            return Verdicts.reject(np.array([name == "n0" for name in nodes.names]), Status.unschedulable("no"))

        filter = None

    nodes = tuple(make_node(f"n{number}").obj() for number in range(3))
    cycle = make_runner(ByLabel, objects=nodes)
    for app in ("x", "y", "x", "y", "x", "y"):
        pod = make_pod(f"p-{app}").label(app=app).obj()
        state = CycleState()
        cycle.pre_filter(state, pod)
        rows, _ = cycle.filtering.feasible(state, pod, cycle.table.template(pod), None, None)
        assert (rows is None) == (app == "x")
