"""GPUs of which pods get an amount of memory of one card, or whole cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.device_pools import MOST_DEVICES, Fit, Policy, amount, integer

GPU_MEMORY: Final = "volcano.sh/gpu-memory"
GPU_NUMBER: Final = "volcano.sh/gpu-number"
_INDEX: Final = "volcano.sh/gpu-index"
_UNHEALTHY: Final = "volcano.sh/gpu-unhealthy-ids"


class WholeCards:
    """The cards of a node of which pods get an amount of memory (GPU sharing) or whole cards (GPU number)."""

    def __init__(self, name: str, memory: dict[int, int], *, by_number: bool) -> None:
        self._name = name
        self._memory = memory
        self._by_number = by_number
        #: Card -> the requests by the uid of the pod.
        self._users: dict[int, dict[str, int]] = {card: {} for card in memory}

    @classmethod
    def of(cls, node: Node, *, by_number: bool) -> WholeCards | None:
        """Return the cards by the node's capacity, without unhealthy ones; None if the node has none."""
        capacity = node.status.capacity
        count = min(amount(capacity, GPU_NUMBER), MOST_DEVICES)
        if not count or GPU_MEMORY not in capacity:
            return None
        each = amount(capacity, GPU_MEMORY) // amount(capacity, GPU_NUMBER)
        broken = set(node.annotations.get(_UNHEALTHY, "").split(",", MOST_DEVICES))
        return cls(node.name, {card: each for card in range(count) if str(card) not in broken}, by_number=by_number)

    def add(self, pod: Pod) -> None:
        """Count the cards that the pod's annotations name."""
        if not (pod_amount(pod, GPU_MEMORY) or pod_amount(pod, GPU_NUMBER)):
            return
        cards = [each for each in pod.annotations.get(_INDEX, "").split(",", MOST_DEVICES) if each.isdecimal()]
        for card in cards:
            users = self._users.get(integer(card))
            if users is not None:
                users[pod.uid] = pod_amount(pod, GPU_MEMORY)

    def remove(self, pod: Pod) -> None:
        """Free the cards of a pod."""
        for users in self._users.values():
            users.pop(pod.uid, None)

    def fit(self, pod: Pod, policy: Policy) -> Fit:
        """Return the cards for a pod: the first one with enough memory, or the first idle ones."""
        if self._by_number:
            wanted = pod_amount(pod, GPU_NUMBER)
            chosen = [card for card, users in self._users.items() if not users][:wanted]
            if len(chosen) < wanted:
                return Fit(f"GpuNumber no enough gpu number on node {self._name}")
        else:
            wanted = pod_amount(pod, GPU_MEMORY)
            chosen = [card for card, all_ in self._memory.items() if all_ - sum(self._users[card].values()) >= wanted]
            if not chosen:
                return Fit(f"GpuShare no enough gpu memory on node {self._name}")
            del chosen[1:]
        return Fit("", 0.0, {_INDEX: ",".join(map(str, chosen))})

    def bind_annotations(self, assigned: Mapping[str, str], now: float) -> dict[str, str]:
        """Return the annotations with which a pod is bound."""
        return {**assigned, "volcano.sh/predicate-time": str(int(now * 1e9))} if assigned else {}


def pod_amount(pod: Pod, resource: str) -> int:
    """Return a pod's limit of a resource: the sum of its containers, at least that of each init container."""
    total = sum(amount(each.resources.limits, resource) for each in pod.spec.containers)
    return max((total, *(amount(each.resources.limits, resource) for each in pod.spec.init_containers)))
