"""A small cluster that changes, kept twice: in a plugin's table, and as plain objects for the reference."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.framework import counters, counts, regions
from mooring.testing import PluginHarness, PodBuilder, make_namespace, make_node, make_pod, selector
from tests.plugins.reference.cluster import Cluster

ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
KEYS = (ZONE, HOST, RACK)
NODES = tuple(f"n{number}" for number in range(6))
NAMESPACES = ("one", "two", "unknown")

#: What is done differently for large numbers, made so small that a test gets there.
SQUEEZED = ((counts, "_DENSE_FROM", 1), (regions, "_FEW", 1), (regions, "_KEEP", 2), (counters, "_KEEP_COUNTERS", 3))


class World:
    """Two views of one cluster."""

    def __init__(self, plugin: type, args: object = None) -> None:
        self.cluster = Cluster()
        self.harness = PluginHarness(plugin, args=args)
        self.plugin: Any = self.harness.plugin
        self.count = 0

    def put(self, item: KubeObject) -> None:
        self.harness.add(item)
        match item:
            case Node():
                self.cluster.nodes[item.name] = item
            case Pod():
                self.cluster.pods[item.uid] = item
            case Namespace():
                self.cluster.namespaces[item.name] = item.labels
            case Service():
                self._replace(self.cluster.services, item)
            case ReplicationController():
                self._replace(self.cluster.controllers, item)
            case ReplicaSet():
                self._replace(self.cluster.replica_sets, item)
            case StatefulSet():
                self._replace(self.cluster.stateful_sets, item)

    @staticmethod
    def _replace(items: list[Any], item: KubeObject) -> None:
        items[:] = [each for each in items if (each.namespace, each.name) != (item.namespace, item.name)] + [item]

    def remove_node(self, name: str) -> None:
        if self.cluster.nodes.pop(name, None) is not None:
            self.harness.table.remove_node(name)

    def remove_pod(self, uid: str) -> None:
        del self.cluster.pods[uid]
        self.harness.table.remove_pod(uid)

    def remove_namespace(self, name: str) -> None:
        self.cluster.namespaces.pop(name, None)
        self.harness.table.set_namespace(name, None)

    def name(self) -> str:
        self.count += 1
        return f"p{self.count}"


def squeeze() -> list[tuple[object, str, object]]:
    """Make large small; returns what to give to ``relax``."""
    before = [(module, name, getattr(module, name)) for module, name, _ in SQUEEZED]
    for module, name, value in SQUEEZED:
        setattr(module, name, value)
    return before


def relax(before: list[tuple[object, str, object]]) -> None:
    for module, name, value in before:
        setattr(module, name, value)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(NODES))
    labels = {
        ZONE: draw(st.sampled_from(["a", "b", "c", "", None])),
        HOST: draw(st.sampled_from([name, name, name, "shared", None])),
        RACK: draw(st.sampled_from(["1", "2", None])),
        "disk": draw(st.sampled_from(["ssd", None])),
    }
    node = make_node(name).obj()
    node.labels.clear()
    node.labels.update({key: value for key, value in labels.items() if value is not None})
    taint = draw(st.sampled_from([None, None, ("gpu", "NoSchedule"), ("old", "NoExecute"), ("new", "PreferNoSchedule")]))
    builder = make_node(name).taint(taint[0], "", taint[1]) if taint else make_node(name)
    made = builder.obj()
    made.labels.clear()
    made.labels.update(node.labels)
    return made


@st.composite
def namespaces(draw: st.DrawFn) -> Namespace:
    labels = draw(st.dictionaries(st.sampled_from(["team", "env"]), st.sampled_from(["red", "blue"])))
    return make_namespace(draw(st.sampled_from(NAMESPACES[:2]))).label(labels).obj()


def selectors() -> st.SearchStrategy[object]:
    return st.sampled_from(
        [
            None,
            {},
            {"app": "web"},
            {"app": "web"},
            {"app": "db"},
            {"app": "web", "tier": "1"},
            selector({}, ("app", "In", "web", "db")),
            selector({}, ("app", "NotIn", "web")),
            selector({}, ("tier", "Exists")),
            selector({"app": "web"}, ("tier", "DoesNotExist")),
        ]
    )


def namespace_selectors() -> st.SearchStrategy[object]:
    return st.sampled_from(
        [
            None,
            None,
            None,
            {},
            {"team": "red"},
            selector({}, ("team", "NotIn", "red")),
            selector({}, ("env", "DoesNotExist")),
            selector({}, ("env", "Exists")),
        ]
    )


@st.composite
def labelled_pods(draw: st.DrawFn) -> PodBuilder:
    labels = {"app": draw(st.sampled_from(["web", "db", None])), "tier": draw(st.sampled_from(["1", "2", None]))}
    pod = make_pod("p", draw(st.sampled_from(NAMESPACES)))
    return pod.label({key: value for key, value in labels.items() if value is not None})


def with_terms(draw: st.DrawFn, pod: PodBuilder) -> PodBuilder:
    """Give a pod some affinity."""
    for _ in range(draw(st.integers(0, 3))):
        where = {
            "topology_key": draw(st.sampled_from(KEYS)),
            "selector": draw(selectors()),
            "namespaces": draw(st.sampled_from([(), (), ("one",), ("one", "unknown")])),
            "namespace_selector": draw(namespace_selectors()),
        }
        match draw(st.sampled_from(["near", "far", "liked", "disliked"])):
            case "near":
                pod = pod.pod_affinity(**where)
            case "far":
                pod = pod.pod_anti_affinity(**where)
            case "liked":
                pod = pod.preferred_pod_affinity(draw(st.integers(1, 100)), **where)
            case "disliked":
                pod = pod.preferred_pod_anti_affinity(draw(st.integers(1, 100)), **where)
    return pod


def with_constraints(draw: st.DrawFn, pod: PodBuilder) -> PodBuilder:
    """Give a pod some spread constraints, and reasons for them to count on some nodes only."""
    for _ in range(draw(st.integers(0, 3))):
        pod = pod.spread(
            draw(st.sampled_from(KEYS)),
            draw(selectors()),
            max_skew=draw(st.integers(1, 3)),
            when=draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
            min_domains=draw(st.sampled_from([None, None, 1, 2, 4])),
            node_affinity_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
            node_taints_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
            match_label_keys=draw(st.sampled_from([(), (), ("tier",), ("app", "absent")])),
        )
    match draw(st.sampled_from(["any", "any", "selector", "affinity", "name"])):
        case "selector":
            pod = pod.node_selector(disk="ssd")
        case "affinity":
            pod = pod.node_affinity((ZONE, "In", "a", "b"))
        case "name":
            pod = pod.node_names("n1")
    return pod.toleration("gpu") if draw(st.booleans()) else pod
