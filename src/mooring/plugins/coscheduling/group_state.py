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
        #: Uids of the pods that have a node or are assumed on one.
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

    def assign(self, group: str, uid: str) -> int:
        """Add a pod that has a node; return the number of those."""
        uids = self._assigned.setdefault(group, set())
        uids.add(uid)
        return len(uids)

    def unassign(self, group: str, uid: str) -> None:
        """Remove a pod that has no node any more."""
        uids = self._assigned.get(group)
        if uids is not None:
            uids.discard(uid)
            if not uids:
                del self._assigned[group]

    def _changed(self, old: Pod | None, new: Pod | None, /) -> None:
        # An operator may create a pod again under its name before the end of the old one is observed.
        if old is not None and (new is None or new.uid != old.uid) and (group := group_key(old)):
            self.unassign(group, old.uid)
        if new is not None and new.node_name and (group := group_key(new)):
            self.assign(group, new.uid)
