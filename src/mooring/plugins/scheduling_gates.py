"""SchedulingGates: pods with scheduling gates do not enter the queue."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.framework import ActionType, ClusterEvent, Hint, Plugin, Status


class SchedulingGates(Plugin):
    """Keeps pods out of the queue until their last scheduling gate is removed."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a gated pod."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for the removal of the pod's gates."""
        return [ClusterEvent("Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_gone)]


def _gates_gone(pod: Pod, _old: Pod | None, new: Pod) -> Hint:
    return Hint.QUEUE if new.uid == pod.uid else Hint.SKIP
