"""PodTopologySpread as kube-scheduler does it: recount everything, node by node."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

from mooring.api.affinity import TopologySpreadConstraint
from mooring.api.label_selectors import Selector, compile_selector, selector_from_labels
from mooring.api.node import Node
from mooring.api.node_selectors import required_node_affinity
from mooring.api.pod import Pod
from mooring.api.tolerations import untolerated
from mooring.framework.status import SUCCESS, Status
from tests.plugins.reference.cluster import Cluster
from tests.plugins.reference.default_selector import default_selector

HOSTNAME = "kubernetes.io/hostname"
SYSTEM = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway", max_skew=3),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway", max_skew=5
    ),
)
UNEVEN = Status.unschedulable("node(s) didn't match pod topology spread constraints")
UNLABELLED = Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")


@dataclass
class Constraint:
    spec: TopologySpreadConstraint
    selector: Selector


def constraints_of(
    pod: Pod, cluster: Cluster, action: str, defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM
) -> list[Constraint]:
    own = pod.spec.topology_spread_constraints
    found = [
        Constraint(each, merged_selector(each, pod)) for each in own or defaults if each.when_unsatisfiable == action
    ]
    if own or not found:
        return found
    deduced = default_selector(pod, cluster)
    return [] if deduced.is_empty else [Constraint(each.spec, deduced) for each in found]


def merged_selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    selector = compile_selector(constraint.label_selector)
    for key in constraint.match_label_keys:
        if key in pod.labels:
            selector = selector.with_requirements(*selector_from_labels({key: pod.labels[key]}).requirements)
    return selector


def has_keys(node: Node, constraints: list[Constraint]) -> bool:
    return all(each.spec.topology_key in node.labels for each in constraints)


def eligible(constraint: Constraint, pod: Pod, node: Node) -> bool:
    honor_affinity = (constraint.spec.node_affinity_policy or "Honor") == "Honor"
    if honor_affinity and not required_node_affinity(pod).matches(node.labels, node.name):
        return False
    honor_taints = constraint.spec.node_taints_policy == "Honor"
    return not honor_taints or untolerated(node.taints, pod.spec.tolerations) is None


def count_pods(pods: list[Pod], selector: Selector, namespace: str) -> int:
    if selector.is_empty:
        return 0
    return sum(not pod.is_terminating and pod.namespace == namespace and selector.matches(pod.labels) for pod in pods)


class Filter:
    """PreFilter's state, and Filter."""

    def __init__(self, pod: Pod, cluster: Cluster, constraints: list[Constraint]) -> None:
        self.pod = pod
        self.constraints = constraints
        self.counts: list[dict[str, int]] = [{} for _ in constraints]
        for node in cluster.nodes.values():
            if not has_keys(node, constraints):
                continue
            for constraint, counts in zip(constraints, self.counts, strict=True):
                if eligible(constraint, pod, node):
                    value = node.labels[constraint.spec.topology_key]
                    count = count_pods(cluster.on(node), constraint.selector, pod.namespace)
                    counts[value] = counts.get(value, 0) + count

    def shifted(self, other: Pod, node: Node, delta: int) -> Filter:
        result = copy.copy(self)
        result.counts = [dict(counts) for counts in self.counts]
        if other.namespace != self.pod.namespace or not has_keys(node, self.constraints):
            return result
        for constraint, counts in zip(self.constraints, result.counts, strict=True):
            if constraint.selector.matches(other.labels) and eligible(constraint, self.pod, node):
                counts[node.labels[constraint.spec.topology_key]] += delta
        return result

    def verdict(self, node: Node) -> Status:
        for constraint, counts in zip(self.constraints, self.counts, strict=True):
            value = node.labels.get(constraint.spec.topology_key)
            if value is None:
                return UNLABELLED
            least = min(counts.values(), default=2**31 - 1)
            if len(counts) < (1 if constraint.spec.min_domains is None else constraint.spec.min_domains):
                least = 0
            self_match = int(constraint.selector.matches(self.pod.labels))
            if counts.get(value, 0) + self_match - least > constraint.spec.max_skew:
                return UNEVEN
        return SUCCESS


def scores(
    pod: Pod,
    cluster: Cluster,
    feasible: list[str],
    defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM,
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised scores; None if scoring is skipped."""
    constraints = constraints_of(pod, cluster, "ScheduleAnyway", defaults)
    if not constraints:
        return None
    require_all = bool(pod.spec.topology_spread_constraints) or defaults is not SYSTEM
    ignored: set[str] = set()
    counts: list[dict[str, int]] = [{} for _ in constraints]
    for name in feasible:
        node = cluster.nodes[name]
        if require_all and not has_keys(node, constraints):
            ignored.add(name)
            continue
        for constraint, found in zip(constraints, counts, strict=True):
            if constraint.spec.topology_key != HOSTNAME:
                found.setdefault(node.labels.get(constraint.spec.topology_key, ""), 0)
    weights = [
        math.log((len(feasible) - len(ignored) if each.spec.topology_key == HOSTNAME else len(found)) + 2)
        for each, found in zip(constraints, counts, strict=True)
    ]
    for node in cluster.nodes.values():
        if require_all and not has_keys(node, constraints):
            continue
        for constraint, found in zip(constraints, counts, strict=True):
            value = node.labels.get(constraint.spec.topology_key, "")
            if eligible(constraint, pod, node) and value in found:
                found[value] += count_pods(cluster.on(node), constraint.selector, pod.namespace)
    raw = {}
    for name in feasible:
        raw[name] = 0
        if name not in ignored:
            raw[name] = node_score(pod, cluster, cluster.nodes[name], constraints, counts, weights)
    return raw, normalized(raw, ignored)


def node_score(
    pod: Pod,
    cluster: Cluster,
    node: Node,
    constraints: list[Constraint],
    counts: list[dict[str, int]],
    weights: list[float],
) -> int:
    score = 0.0
    for constraint, found, weight in zip(constraints, counts, weights, strict=True):
        value = node.labels.get(constraint.spec.topology_key)
        if value is None:
            continue
        if constraint.spec.topology_key == HOSTNAME:
            count = count_pods(cluster.on(node), constraint.selector, pod.namespace)
        else:
            count = found[value]
        score += count * weight + (constraint.spec.max_skew - 1)
    whole = math.floor(score)
    return whole + (1 if score - whole >= 0.5 else 0)


def normalized(raw: dict[str, int], ignored: set[str]) -> dict[str, int]:
    judged = [score for name, score in raw.items() if name not in ignored]
    most, least = max([0, *judged]), min(judged, default=0)
    result = {}
    for name, score in raw.items():
        if name in ignored:
            result[name] = 0
        else:
            result[name] = 100 if most == 0 else 100 * (most + least - score) // most
    return result
