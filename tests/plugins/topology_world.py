"""A small cluster that changes, kept twice: in a plugin's table, and as plain objects for the reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.columns import counters, counts, regions
from mooring.framework import Nodes
from mooring.testing import (
    PluginHarness,
    PodBuilder,
    make_namespace,
    make_node,
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_service,
    make_stateful_set,
    selector,
)
from mooring.testing.builders import SelectorLike
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

    def place(self, pod: PodBuilder, node: str, count: int = 1) -> None:
        for _ in range(count):
            self.count += 1
            self.put(pod.named(f"e{self.count}").node(node).obj())

    def change(self, maker: Maker, pod: Callable[[], PodBuilder]) -> None:
        """Let something happen; ``pod`` makes a pod to place."""
        names, uids = sorted(self.cluster.nodes), sorted(self.cluster.pods)
        match maker.random.choice(
            ["pod", "pod", "pod", "unpod", "node", "unnode", "namespace", "unnamespace", "owner"]
        ):
            case "unpod" if uids:
                self.remove_pod(maker.random.choice(uids))
            case "node":
                self.put(maker.node())
            case "unnode" if names:
                self.remove_node(maker.random.choice(names))
            case "namespace":
                self.put(maker.namespace())
            case "unnamespace":
                self.remove_namespace(maker.random.choice(NAMESPACES))
            case "owner":
                self.put(maker.owner())
            case _:
                made = pod()
                self.place(made.terminating() if maker.chance(0.2) else made, maker.random.choice(NODES))

    def populate(self, maker: Maker, pod: Callable[[], PodBuilder]) -> None:
        for _ in range(6):
            self.put(maker.node())
        for _ in range(4):
            self.put(maker.owner())
            self.place(pod(), maker.random.choice(NODES), count=maker.random.randint(1, 3))
        self.put(maker.namespace())

    def view(self, maker: Maker) -> Nodes:
        """All nodes, or some, in any order."""
        names = [node.name for node in self.harness.nodes()]
        if maker.chance(0.3) or not names:
            return self.harness.nodes()
        return self.harness.nodes(maker.random.sample(names, maker.random.randint(1, len(names))))


@contextmanager
def squeezed(really: bool) -> Iterator[None]:
    """Make large small."""
    before = [(module, name, getattr(module, name)) for module, name, _ in SQUEEZED]
    try:
        for module, name, value in SQUEEZED if really else ():
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


class Maker:
    """Random objects: few names and values, so that they meet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def node(self) -> Node:
        choice, name = self.random.choice, self.random.choice(NODES)
        labels = {
            ZONE: choice(["a", "a", "b", "b", "c", "", None]),
            HOST: choice([name, name, name, name, "shared", None]),
            RACK: choice(["1", "2", "2", None]),
            "disk": choice(["ssd", "ssd", None]),
        }
        node = make_node(name)
        if self.chance(0.4):
            node = node.taint(choice(["gpu", "old"]), "", choice(["NoSchedule", "NoExecute", "PreferNoSchedule"]))
        made = node.obj()
        present = {key: value for key, value in labels.items() if value is not None}
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=present))

    def namespace(self) -> Namespace:
        labels = {key: self.random.choice(["red", "blue"]) for key in ("team", "env") if self.chance(0.5)}
        return make_namespace(self.random.choice(NAMESPACES[:2])).label(labels).obj()

    def plain_pod(self) -> PodBuilder:
        choice = self.random.choice
        labels = {"app": choice(["web", "web", "db", None]), "tier": choice(["1", "1", "2", None])}
        pod = make_pod("p", choice(["one", "one", "one", "two", "unknown"]))
        return pod.label({key: value for key, value in labels.items() if value is not None})

    def selector(self) -> SelectorLike:
        return self.random.choice(SELECTORS)

    def with_terms(self, pod: PodBuilder, most: int = 3) -> PodBuilder:
        """Give a pod some affinity."""
        for _ in range(self.random.randint(0, most)):
            where: dict[str, Any] = {
                "topology_key": self.random.choice(KEYS),
                "selector": self.selector(),
                "namespaces": self.random.choice([(), (), ("one",), ("one", "unknown")]),
                "namespace_selector": self.random.choice(NAMESPACE_SELECTORS),
            }
            weight = self.random.randint(1, 100)
            match self.random.choice(["near", "far", "far", "liked", "disliked"]):
                case "near":
                    pod = pod.pod_affinity(**where)
                case "far":
                    pod = pod.pod_anti_affinity(**where)
                case "liked":
                    pod = pod.preferred_pod_affinity(weight, **where)
                case _:
                    pod = pod.preferred_pod_anti_affinity(weight, **where)
        return pod

    def with_constraints(self, pod: PodBuilder) -> PodBuilder:
        """Give a pod some spread constraints, and reasons for them to count on some nodes only."""
        choice = self.random.choice
        for _ in range(self.random.randint(0, 3)):
            pod = pod.spread(
                choice(KEYS),
                self.selector(),
                max_skew=choice([1, 1, 2, 3]),
                when=choice(["DoNotSchedule", "ScheduleAnyway"]),
                min_domains=choice([None, None, 1, 2, 4]),
                node_affinity_policy=choice([None, "Honor", "Ignore"]),
                node_taints_policy=choice([None, "Honor", "Ignore"]),
                match_label_keys=choice([(), (), (), ("tier",), ("app", "absent")]),
            )
        match choice(["any", "any", "selector", "affinity", "name"]):
            case "selector":
                pod = pod.node_selector(disk="ssd")
            case "affinity":
                pod = pod.node_affinity((ZONE, "In", "a", "b"))
            case "name":
                pod = pod.node_names(choice(NODES))
        return pod.toleration("gpu") if self.chance(0.5) else pod

    def owned(self, pod: PodBuilder) -> PodBuilder:
        """Perhaps give a pod a controller."""
        kind = self.random.choice([None, None, "ReplicaSet", "StatefulSet", "ReplicationController"])
        if kind is None:
            return pod
        return pod.owner(kind, "owner", api_version="v1" if kind == "ReplicationController" else "apps/v1")

    def owner(self) -> KubeObject:
        """A service or a controller."""
        labels = self.random.choice([None, {}, {"app": "web"}, {"app": "web"}, {"tier": "1"}])
        namespace = self.random.choice(["one", "one", "two"])
        match self.random.choice(["service", "other", "controller", "set", "stateful"]):
            case "controller":
                return make_replication_controller("owner", labels, namespace).obj()
            case "set":
                return make_replica_set("owner", self.selector(), namespace).obj()
            case "stateful":
                return make_stateful_set("owner", self.selector(), namespace).obj()
            case name:
                return make_service(name, labels, namespace).obj()


SELECTORS: tuple[SelectorLike, ...] = (
    None,
    {},
    {"app": "web"},
    {"app": "web"},
    {"app": "web"},
    {"app": "db"},
    {"app": "web", "tier": "1"},
    selector({}, ("app", "In", "web", "db")),
    selector({}, ("app", "NotIn", "web")),
    selector({}, ("tier", "Exists")),
    selector({"app": "web"}, ("tier", "DoesNotExist")),
)
NAMESPACE_SELECTORS: tuple[SelectorLike, ...] = (
    None,
    None,
    None,
    {},
    {"team": "red"},
    selector({}, ("team", "NotIn", "red")),
    selector({}, ("env", "DoesNotExist")),
    selector({}, ("env", "Exists")),
)
