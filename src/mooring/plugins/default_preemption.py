"""DefaultPreemption: evicts pods of lower priority to make room for a pod that fits on no node."""

from __future__ import annotations

import msgspec

from mooring.api.pod import Pod
from mooring.framework import ActionType, ClusterEvent, CycleState, Hint, NodeStatuses, Plugin, PostFilterResult, Status
from mooring.framework.preemption import AskExtenders, Evaluator


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The minimum number of candidate nodes to evaluate, as a percentage and as a number."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DefaultPreemption(Plugin[DefaultPreemptionArgs]):
    """Evicts as few pods of as low a priority as possible."""

    def setup(self) -> None:
        """Create the evaluator."""
        self._evaluator = Evaluator(self.handle, self._wanted)

    def _wanted(self, nodes: int) -> int:
        return candidate_nodes(nodes, self.args)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Allow every pod: the engine gates a preemptor, regardless of the plugin that chose the victims."""
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult, Status] | AskExtenders:
        """Choose a node and its victims."""
        answer = self._evaluator.preempt(state, pod, statuses)
        return answer.and_then(_worded) if isinstance(answer, AskExtenders) else _worded(answer)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for deleted pods, which end the wait for victims; other plugins decide about a retry."""
        return [ClusterEvent("Pod", ActionType.DELETE, lambda _pod, _old, _new: Hint.SKIP)]


def candidate_nodes(nodes: int, args: DefaultPreemptionArgs | None = None) -> int:
    """Return how many candidate nodes are enough; without arguments, for their defaults."""
    args = args if args is not None else DefaultPreemptionArgs()
    share = nodes * args.min_candidate_nodes_percentage // 100
    return min(max(share, args.min_candidate_nodes_absolute), nodes)


def _worded(outcome: tuple[PostFilterResult, Status]) -> tuple[PostFilterResult, Status]:
    result, status = outcome
    return (result, Status(status.code, (f"preemption: {status.message}",))) if status.message else outcome
