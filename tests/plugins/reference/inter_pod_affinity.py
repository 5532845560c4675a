"""InterPodAffinity as kube-scheduler does it: look at every placed pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mooring.api.affinity import PodAffinityTerm
from mooring.api.label_selectors import compile_selector
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework.status import SUCCESS, Status
from tests.plugins.reference.cluster import Cluster

LONELY = Status.unresolvable("node(s) didn't match pod affinity rules")
UNWILLING = Status.unschedulable("node(s) didn't match pod anti-affinity rules")
UNWANTED = Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

Pair = tuple[str, str]


def required(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    return affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()


def required_anti(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    return affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()


def preferred(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    affinity = pod.spec.affinity
    near = affinity.pod_affinity.preferred if affinity and affinity.pod_affinity else ()
    far = affinity.pod_anti_affinity.preferred if affinity and affinity.pod_anti_affinity else ()
    return [
        *((each.pod_affinity_term, each.weight) for each in near),
        *((each.pod_affinity_term, -each.weight) for each in far),
    ]


def named(term: PodAffinityTerm, owner: Pod) -> set[str]:
    if not term.namespaces and term.namespace_selector is None:
        return {owner.namespace}
    return set(term.namespaces)


def incoming_means(term: PodAffinityTerm, owner: Pod, other: Pod, cluster: Cluster) -> bool:
    """Whether a term of the pod to place means a placed pod: the selector is resolved to names, and stays there."""
    selector = compile_selector(term.namespace_selector)
    names = named(term, owner) | {name for name, labels in cluster.namespaces.items() if selector.matches(labels)}
    if other.namespace not in names and not selector.is_empty:
        return False
    return compile_selector(term.label_selector).matches(other.labels)


def existing_means(term: PodAffinityTerm, owner: Pod, incoming: Pod, cluster: Cluster) -> bool:
    """Whether a term of a placed pod means the pod to place."""
    labels: Mapping[str, str] = cluster.namespaces.get(incoming.namespace, {})
    chosen = compile_selector(term.namespace_selector).matches(labels)
    if incoming.namespace not in named(term, owner) and not chosen:
        return False
    return compile_selector(term.label_selector).matches(incoming.labels)


def pairs(node: Node, keys: Iterable[str]) -> list[Pair]:
    return [(key, node.labels[key]) for key in keys if key in node.labels]


class Filter:
    """PreFilter's state, and Filter. Counts that reach 0 are as good as absent."""

    def __init__(self, pod: Pod, cluster: Cluster) -> None:
        self.pod = pod
        self.cluster = cluster
        self.near: Counter[Pair] = Counter()
        self.anti: Counter[Pair] = Counter()
        self.existing: Counter[Pair] = Counter()
        for other, node in cluster.placed():
            self.shift(other, node, 1)

    @property
    def skips(self) -> bool:
        return not (any(self.existing.values()) or required(self.pod) or required_anti(self.pod))

    def shift(self, other: Pod, node: Node, delta: int) -> None:
        own = required(self.pod)
        if own and all(incoming_means(term, self.pod, other, self.cluster) for term in own):
            for pair in pairs(node, [term.topology_key for term in own]):
                self.near[pair] += delta
        for term in required_anti(self.pod):
            if incoming_means(term, self.pod, other, self.cluster):
                for pair in pairs(node, [term.topology_key]):
                    self.anti[pair] += delta
        for term in required_anti(other):
            if existing_means(term, other, self.pod, self.cluster):
                for pair in pairs(node, [term.topology_key]):
                    self.existing[pair] += delta

    def verdict(self, node: Node) -> Status:
        if not self._is_near(node):
            return LONELY
        if any(self.anti[pair] > 0 for pair in pairs(node, [term.topology_key for term in required_anti(self.pod)])):
            return UNWILLING
        if any(self.existing[pair] > 0 for pair in node.labels.items()):
            return UNWANTED
        return SUCCESS

    def _is_near(self, node: Node) -> bool:
        own = required(self.pod)
        if any(term.topology_key not in node.labels for term in own):
            return False
        if all(self.near[pair] > 0 for pair in pairs(node, [term.topology_key for term in own])):
            return True
        if any(self.near.values()):
            return False
        return all(incoming_means(term, self.pod, self.pod, self.cluster) for term in own)


def scores(
    pod: Pod, cluster: Cluster, feasible: list[str], *, hard_weight: int = 1, ignore_preferred: bool = False
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised scores; None if scoring is skipped."""
    own = preferred(pod)
    if ignore_preferred and not own:
        return None
    worth: dict[Pair, int] = {}

    def add(node: Node, key: str, weight: int) -> None:
        for pair in pairs(node, [key]):
            worth[pair] = worth.get(pair, 0) + weight

    for other, node in cluster.placed():
        for term, weight in own:
            if incoming_means(term, pod, other, cluster):
                add(node, term.topology_key, weight)
        for term in required(other):
            if hard_weight > 0 and existing_means(term, other, pod, cluster):
                add(node, term.topology_key, hard_weight)
        for term, weight in preferred(other):
            if existing_means(term, other, pod, cluster):
                add(node, term.topology_key, weight)
    if not worth:
        return None
    raw = {name: sum(worth.get(pair, 0) for pair in cluster.nodes[name].labels.items()) for name in feasible}
    least, most = min(raw.values()), max(raw.values())
    final = {
        name: int(100.0 * ((score - least) / (most - least))) if most > least else 0 for name, score in raw.items()
    }
    return raw, final
