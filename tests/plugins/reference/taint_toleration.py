"""TaintToleration, plainly: every taint of every node."""

from __future__ import annotations

from typing import Any

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import Status
from tests.plugins.reference.cluster import Cluster


def tolerated(pod: Pod, taint: Taint) -> bool:
    for toleration in pod.spec.tolerations:
        if toleration.effect not in ("", taint.effect):
            continue
        if toleration.key not in ("", taint.key):
            continue
        if toleration.operator == "Exists":
            return True
        if toleration.operator in ("", "Equal") and toleration.value == taint.value:
            return True
    return False


class TaintTolerationReference:
    @staticmethod
    def filter(cluster: Cluster, pod: Pod, node: Node, args: Any) -> Status | None:
        for taint in node.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(pod, taint):
                return Status.unresolvable("node(s) had untolerated taint(s)")
        return None

    @staticmethod
    def scores(pod: Pod, args: Any) -> bool:
        return True

    @staticmethod
    def score(cluster: Cluster, pod: Pod, node: Node, args: Any) -> int:
        count = 0
        for taint in node.taints:
            if taint.effect == "PreferNoSchedule" and not tolerated(pod, taint):
                count += 1
        return count

    @staticmethod
    def normalize(scores: list[int]) -> list[int]:
        top = max(scores)
        return [100 - (100 * score // top if top else 0) for score in scores]
