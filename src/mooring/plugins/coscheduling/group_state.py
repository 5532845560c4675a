"""State of groups: assigned pods, recent failures, and recent checks."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.pod import Pod
from mooring.framework import Lister
from mooring.plugins.coscheduling.pod_group import group_key


class Expiring:
    """A set of keys that expire."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def add(self, key: str, seconds: float) -> None:
        """Add a key; this does not extend the lifetime of an existing one."""
        if key not in self:
            self._until[key] = self._clock() + seconds

    def discard(self, key: str) -> None:
        """Remove a key; it need not exist."""
        self._until.pop(key, None)

    def __contains__(self, key: str) -> bool:
        until = self._until.get(key)
        if until is None:
            return False
        if self._clock() > until:
            del self._until[key]
            return False
        return True


class Members:
    """The pods of each group: their number, the gated ones, and those that have a node."""

    def __init__(self, pods: Lister[Pod]) -> None:
        self._all = pods.index(lambda pod: group_key(pod) or None)
        self._gated = pods.index(lambda pod: (group_key(pod) or None) if pod.spec.scheduling_gates else None)
        #: Names of the pods that have a node or are assumed on one.
        self._assigned: dict[str, set[str]] = {}
        for pod in pods.list():
            self._changed(None, pod)
        pods.listen(self._changed)

    def of(self, group: str) -> list[Pod]:
        """Return all pods of a group."""
        return self._all.get(group)

    def count(self, group: str) -> int:
        """Return the number of pods of a group."""
        return self._all.count(group)

    def gated(self, group: str) -> int:
        """Return the number of pods with scheduling gates."""
        return self._gated.count(group)

    def assigned(self, group: str) -> int:
        """Return the number of pods that have a node or are assumed on one."""
        return len(self._assigned.get(group, ()))

    def assign(self, group: str, name: str) -> int:
        """Add a pod that has a node; return the number of those."""
        names = self._assigned.setdefault(group, set())
        names.add(name)
        return len(names)

    def unassign(self, group: str, name: str) -> None:
        """Remove a pod that has no node any more."""
        names = self._assigned.get(group)
        if names is not None:
            names.discard(name)
            if not names:
                del self._assigned[group]

    def _changed(self, old: Pod | None, new: Pod | None, /) -> None:
        pod = new if new is not None else old
        if pod is None or not pod.node_name:
            return
        group = group_key(pod)
        if not group:
            return
        if new is None:
            self.unassign(group, pod.name)
        elif old is None or not old.node_name:
            self.assign(group, pod.name)
