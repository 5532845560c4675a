"""GangScheduling: pods of a `scheduling.k8s.io` PodGroup are scheduled together, at least `gang.minCount` or none.

The scheduling cycle of a group (`scheduler/pod_group_cycle.py`) places its pods one after another and asks
``placement_feasible``, of this and other plugins, after each whether the group can still be scheduled.
"""

from __future__ import annotations

from typing import Final

from mooring.api.pod import Pod
from mooring.api.scheduling import GROUP, NativePodGroup, native_group_key
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    Lister,
    PermitWait,
    PlacementProgress,
    Plugin,
    Rule,
    StateKey,
    Status,
)

#: How long a pod waits at Permit for the other pods of its gang.
_WAIT_SECONDS: Final = 300.0
#: Whether the cycle of the group has found nodes for enough pods.
QUORUM: Final[StateKey[bool]] = StateKey("GangScheduling/quorum")


class GangScheduling(Plugin):
    """Schedules at least `gang.minCount` pods of a PodGroup, or none."""

    permissions = (Rule((GROUP,), ("podgroups/status",), ("patch",)),)
    groups = Lister(NativePodGroup, events=ActionType.ADD | ActionType.UPDATE, gate="GenericWorkload")

    def setup(self) -> None:
        """Index the pods by their group."""
        #: Whether groups are scheduled. A configuration may name the plugin although the feature gate is off.
        self.active = self.handle.release.enabled("GenericWorkload")
        self._members = self.handle.objects.lister(Pod).index(native_group_key)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for pods that get a node without this scheduler; the lister registers for changed groups.

        A new pod without a node needs no event: if it completes its group, its attempt includes the others.
        """
        return [ClusterEvent("AssignedPod", ActionType.ADD, _same_group)]

    @groups.queueing_hint
    def _group_changed(self, pod: Pod, old: NativePodGroup | None, new: NativePodGroup | None) -> Hint:
        """Requeue the pods of a new group, or of one whose minCount decreased."""
        if new is None or native_group_key(pod) != new.key:
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
        fewer = before is not None and after is not None and after.min_count < before.min_count
        return Hint.QUEUE if fewer else Hint.SKIP

    def group_of(self, pod: Pod) -> NativePodGroup | None:
        """Return the group of a pod; None if it does not exist."""
        name = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
        return self.groups.get(name, pod.namespace) if name else None

    def members(self, group: str) -> list[Pod]:
        """Return all pods of a group (`namespace/name`)."""
        return self._members.get(group)

    def scheduled(self, group: str) -> list[Pod]:
        """Return the pods of a group that have a node or are assumed on one, with the name of the node."""
        infos = map(self.handle.table.pods.get, (pod.uid for pod in self._members.get(group)))
        return [info.pod for info in infos if info is not None]

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Gate a pod until its group exists, and has enough pods."""
        if pod.spec.scheduling_group is None or not self.active:
            return None
        group = self.group_of(pod)
        if group is None:
            name = pod.spec.scheduling_group.pod_group_name or ""
            return Status.unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        if group.spec.scheduling_policy.gang is not None and self._members.count(group.key) < group.spec.min_count:
            return Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | PermitWait | None:
        """Wait for the other pods of the gang, unless the cycle of the group has placed enough of them."""
        group = self.group_of(pod)
        if group is None or state.get(QUORUM) or len(self.scheduled(group.key)) >= group.spec.min_count:
            return None
        return PermitWait(_WAIT_SECONDS)

    def placement_feasible(self, group: NativePodGroup, progress: PlacementProgress) -> Status | None:
        """Return None if enough pods are scheduled, Wait if the remaining ones may suffice, else Unschedulable."""
        needed, scheduled, remaining = group.spec.min_count, progress.scheduled, progress.remaining
        if scheduled >= needed:
            return None
        counts = f"{scheduled} scheduled, {remaining} remaining"
        if scheduled + remaining < needed:
            return Status.unschedulable(f"minCount ({needed}) cannot be satisfied: {counts}")
        return Status.wait(f"minCount ({needed}) is not yet satisfied: {counts}")


def _same_group(pod: Pod, _old: Pod | None, new: Pod | None) -> Hint:
    group = native_group_key(pod)
    return Hint.QUEUE if group is not None and new is not None and native_group_key(new) == group else Hint.SKIP
