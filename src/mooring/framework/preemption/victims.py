"""Victims of preemption: single pods, and PodGroups of `scheduling.k8s.io` whose pods are disrupted together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup, native_group_key
from mooring.columns.node_info import PodInfo
from mooring.columns.pod_columns import start_of
from mooring.framework.handle import Handle


class Victim(msgspec.Struct, frozen=True):
    """Pods that are evicted together, or not at all."""

    pods: tuple[PodInfo, ...]
    #: The priority of the pod, or that of its group.
    priority: int
    #: Whether the pods belong to a group.
    in_group: bool = False

    @property
    def importance(self) -> tuple[float, bool, int, float]:
        """A key that sorts the most important victim first: priority, groups, more pods, earlier start."""
        start = min(start_of(info.pod) for info in self.pods)
        return (-self.priority, not self.in_group, -len(self.pods), start)


class PodVictims:
    """Finds the victims that pods on nodes belong to. Without groups, every pod is a victim of its own."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._groups = handle.lister(NativePodGroup) if handle.release.enabled("GenericWorkload") else None
        self._members = handle.objects.lister(Pod).index(native_group_key) if self._groups is not None else None

    def rows_with_groups(self) -> list[int]:
        """Return the rows of nodes with pods of groups. Their victims are more than the pods on the node."""
        if self._groups is None or self._members is None:
            return []
        pods, rows = self._table.pods, set()
        for group in self._groups.list():
            for pod in self._members.get(group.key):
                info = pods.get(pod.uid)
                if info is not None and info.node is not None:
                    rows.add(info.node.row)
        return sorted(rows)

    def of(self, infos: Iterable[PodInfo]) -> list[Victim]:
        """Return the victims that some pods belong to, each once."""
        found: list[Victim] = []
        seen: set[str] = set()
        for info in infos:
            group = self._group_of(info.pod)
            if group is None:
                found.append(Victim((info,), info.priority, in_group=info.pod.spec.scheduling_group is not None))
            elif not group.is_disrupted_as_a_whole:
                found.append(Victim((info,), group.priority, in_group=True))
            elif group.key not in seen:
                seen.add(group.key)
                found.append(Victim(self._placed(group), group.priority, in_group=True))
        return found

    def priority_of(self, info: PodInfo) -> int:
        """Return the priority of a pod as a victim: that of its group, if it has one."""
        group = self._group_of(info.pod)
        return info.priority if group is None else group.priority

    def _group_of(self, pod: Pod) -> NativePodGroup | None:
        named = pod.spec.scheduling_group
        if self._groups is None or named is None or not named.pod_group_name:
            return None
        return self._groups.get(named.pod_group_name, pod.namespace)

    def _placed(self, group: NativePodGroup) -> tuple[PodInfo, ...]:
        """Return the pods of a group that have a node."""
        assert self._members is not None
        infos = (self._table.pods.get(pod.uid) for pod in self._members.get(group.key))
        return tuple(info for info in infos if info is not None and info.node is not None)
