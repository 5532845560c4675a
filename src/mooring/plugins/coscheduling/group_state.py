"""What the scheduler remembers of groups: who has a node, who failed when, and what was checked lately."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.pod import Pod
from mooring.framework import Lister
from mooring.plugins.coscheduling.pod_group import group_key


class Expiring:
    """Keys that are remembered for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def add(self, key: str, seconds: float) -> None:
        """Remember a key from now on; one that is remembered already is not remembered for longer."""
        if key not in self:
            self._until[key] = self._clock() + seconds

    def discard(self, key: str) -> None:
        """Forget a key; it need not be known."""
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
    """The pods of each group: how many there are, how many are held back by gates, and who has a node."""

    def __init__(self, pods: Lister[Pod]) -> None:
        self._all = pods.index(lambda pod: group_key(pod) or None)
        self._gated = pods.index(lambda pod: (group_key(pod) or None) if pod.spec.scheduling_gates else None)
        #: Names of the pods that have a node, or are about to get one.
        self._assigned: dict[str, set[str]] = {}
        for pod in pods.list():
            self._changed(None, pod)
        pods.listen(self._changed)

    def of(self, group: str) -> list[Pod]:
        """All pods of a group."""
        return self._all.get(group)

    def count(self, group: str) -> int:
        """How many pods a group has."""
        return self._all.count(group)

    def gated(self, group: str) -> int:
        """How many of them are held back by scheduling gates."""
        return self._gated.count(group)

    def assigned(self, group: str) -> int:
        """How many of them have a node, or are about to get one."""
        return len(self._assigned.get(group, ()))

    def assign(self, group: str, name: str) -> int:
        """A pod has a node; how many have one now."""
        names = self._assigned.setdefault(group, set())
        names.add(name)
        return len(names)

    def unassign(self, group: str, name: str) -> None:
        """A pod has no node any more."""
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
