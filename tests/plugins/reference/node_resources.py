"""NodeResourcesFit and NodeResourcesBalancedAllocation, plainly: one node at a time, whole numbers and fractions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import (
    RequestRules,
    amounts,
    is_extended,
    is_scalar,
    is_tracked,
    pod_requests,
    pod_requests_for_score,
    pod_requests_nonzero,
)
from mooring.framework import Status
from mooring.releases import NEWEST
from tests.plugins.reference.cluster import Cluster

DEFAULT = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def used(cluster: Cluster, node: Node, name: str, *, nonzero: bool) -> int:
    total = 0
    for pod in cluster.on(node):
        count = pod_requests_nonzero if nonzero and name in ("cpu", "memory") else pod_requests
        total += count(pod, use_status=True, rules=RequestRules.of(NEWEST)).get(name, 0)
    return total


def offered(node: Node, name: str) -> int:
    return amounts(node.status.allocatable).get(name, 0) if name == "pods" or is_tracked(name) else 0


class Fit:
    @staticmethod
    def filter(cluster: Cluster, pod: Pod, node: Node, args: Any) -> Status | None:
        args = args or {}
        reasons = []
        hopeless = False
        if len(cluster.on(node)) + 1 > offered(node, "pods"):
            reasons.append("Too many pods")
        wanted = pod_requests(pod)
        order = ["cpu", "memory", "ephemeral-storage"]
        order += sorted(name for name in wanted if name not in order and is_scalar(name))
        for name in order:
            amount = wanted.get(name, 0)
            group = name.split("/")[0]
            ignored = name in args.get("ignoredResources", ()) or group in args.get("ignoredResourceGroups", ())
            if amount <= 0 or (is_extended(name) and ignored):
                continue
            if amount > offered(node, name) - used(cluster, node, name, nonzero=False):
                reasons.append(f"Insufficient {name}")
                hopeless |= amount > offered(node, name)
        if not reasons:
            return None
        return Status.unresolvable(*reasons) if hopeless else Status.unschedulable(*reasons)

    @staticmethod
    def scores(pod: Pod, args: Any) -> bool:
        return True

    @staticmethod
    def score(cluster: Cluster, pod: Pod, node: Node, args: Any) -> int:
        strategy = (args or {}).get("scoringStrategy", {"type": "LeastAllocated"})
        asked = pod_requests_for_score(pod, use_status=False, rules=RequestRules(pod_level=False))
        total = weights = 0
        for resource in strategy.get("resources") or DEFAULT:
            name, weight = resource["name"], resource.get("weight", 1)
            capacity = offered(node, name) if is_tracked(name) else 0
            if capacity == 0 or (is_scalar(name) and asked.get(name, 0) == 0):
                continue
            requested = used(cluster, node, name, nonzero=True) + asked.get(name, 0)
            rating = rate(strategy, requested, capacity)
            if strategy["type"] == "RequestedToCapacityRatio" and rating <= 0:
                continue
            total += rating * weight
            weights += weight
        if weights == 0:
            return 0
        if strategy["type"] == "RequestedToCapacityRatio":
            return math.floor(total / weights + 0.5)
        return cut(total, weights)


def cut(dividend: int, divisor: int) -> int:
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def percent(amount: int) -> int:
    """100 times an amount in 64 bits."""
    return int((np.array([amount], dtype=np.int64) * 100)[0])


def rate(strategy: Any, requested: int, capacity: int) -> int:
    match strategy["type"]:
        case "LeastAllocated":
            return 0 if requested > capacity else cut(percent(capacity - requested), capacity)
        case "MostAllocated":
            return cut(percent(min(requested, capacity)), capacity)
    utilization = 100 if requested > capacity else cut(percent(requested), capacity)
    shape = [(point["utilization"], point["score"] * 10) for point in strategy["requestedToCapacityRatio"]["shape"]]
    return line(shape, utilization)


def line(shape: list[tuple[int, int]], utilization: int) -> int:
    if utilization <= shape[0][0]:
        return shape[0][1]
    for (u0, s0), (u1, s1) in itertools.pairwise(shape):
        if utilization <= u1:
            return s0 + int((s1 - s0) * (utilization - u0) / (u1 - u0))
    return shape[-1][1]


class Balanced:
    @staticmethod
    def scores(pod: Pod, args: Any) -> bool:
        asked = pod_requests(pod, use_status=True)
        return any(asked.get(resource["name"], 0) for resource in (args or {}).get("resources", DEFAULT))

    @staticmethod
    def score(cluster: Cluster, pod: Pod, node: Node, args: Any) -> int:
        asked = pod_requests(pod, use_status=True)
        before, after = [], []
        for resource in (args or {}).get("resources", DEFAULT):
            name = resource["name"]
            capacity = offered(node, name) if is_tracked(name) else 0
            if capacity == 0 or (is_scalar(name) and asked.get(name, 0) == 0):
                continue
            taken = used(cluster, node, name, nonzero=False)
            before.append(min(taken / capacity, 1))
            after.append(min((taken + asked.get(name, 0)) / capacity, 1))
        return 50 + (50 + even(after) - even(before)) // 2


def even(shares: list[float]) -> int:
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs(shares[0] - shares[1]) / 2
    elif len(shares) > 2:
        total = 0.0
        for share in shares:
            total += share
        mean, squares = total / len(shares), 0.0
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * 100)
