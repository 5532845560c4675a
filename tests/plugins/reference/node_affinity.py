"""NodeAffinity, plainly: every term of every pod against the labels of every node."""

from __future__ import annotations

import math
from typing import Any

from mooring.api.affinity import NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Status
from tests.plugins.reference.cluster import Cluster


def number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def holds(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    there, bound = number(value), number(requirement.values[0])
    if there is None or bound is None:
        return False
    return there > bound if requirement.operator == "Gt" else there < bound


def matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(holds(each, node.labels.get(each.key)) for each in term.match_expressions) and all(
        holds(each, node.name if each.key == "metadata.name" else "") for each in term.match_fields
    )


class NodeAffinityReference:
    @staticmethod
    def filter(cluster: Cluster, pod: Pod, node: Node, args: Any) -> Status | None:
        added = args["addedAffinity"].required if args else None
        if added is not None and not any(matches(term, node) for term in added.node_selector_terms):
            return Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
        wanted = pod.spec.node_selector or {}
        fine = all(node.labels.get(key) == value for key, value in wanted.items())
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        if affinity is not None and affinity.required is not None:
            fine = fine and any(matches(term, node) for term in affinity.required.node_selector_terms)
        return None if fine else Status.unresolvable("node(s) didn't match Pod's node affinity/selector")

    @staticmethod
    def scores(pod: Pod, args: Any) -> bool:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        return bool((affinity and affinity.preferred) or (args and args["addedAffinity"].preferred))

    @staticmethod
    def score(cluster: Cluster, pod: Pod, node: Node, args: Any) -> int:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        terms = [*(affinity.preferred if affinity else ()), *(args["addedAffinity"].preferred if args else ())]
        return sum(term.weight for term in terms if matches(term.preference, node))

    @staticmethod
    def normalize(scores: list[int]) -> list[int]:
        top = max(0, *scores)
        return [math.trunc(100 * score / top) for score in scores] if top else scores
