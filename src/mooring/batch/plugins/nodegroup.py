"""nodegroup: affinity of queues to groups of nodes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.volcano import GroupAffinity
from mooring.batch.plugin import BatchPlugin
from mooring.batch.queue import ROOT, QueueInfo
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import TaskInfo
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts

_GROUP = "volcano.sh/nodegroup-name"
_NO_AFFINITY = Status.unresolvable("node group affinity not specified")
_NO_LABEL = Status.unresolvable("node group label not found")
_UNSATISFIED = Status.unresolvable("node does not satisfy the node group affinity")


class GroupRules:
    """The node group affinity of a queue."""

    def __init__(self, near: GroupAffinity | None, apart: GroupAffinity | None) -> None:
        near, apart = near or GroupAffinity(), apart or GroupAffinity()
        self.required = set(near.required_during_scheduling_ignored_during_execution)
        preferred = near.preferred_during_scheduling_ignored_during_execution
        #: Preferred groups -> their place in the list.
        self.preferred = {group: place for place, group in enumerate(preferred)}
        self.forbidden = set(apart.required_during_scheduling_ignored_during_execution)
        self.disliked = set(apart.preferred_during_scheduling_ignored_during_execution)

    @property
    def is_empty(self) -> bool:
        """Whether there are no terms."""
        return not (self.required or self.preferred or self.forbidden or self.disliked)

    def allows(self, group: str) -> bool:
        """Return whether a group may be used; as in Volcano, preferred anti-affinity overrides required."""
        if group in self.disliked:
            return True
        return (group in self.required or group in self.preferred) and group not in self.forbidden

    def score(self, group: str, *, ordered: bool) -> float:
        """Return the score of a group."""
        if group in self.disliked:
            return -1.0
        score = 100.0 if group in self.required else 0.0
        if group in self.preferred:
            count = len(self.preferred)
            score += 50.0 * float(count - self.preferred[group]) / float(count) if ordered else 50.0
        return score


class NodeGroup(BatchPlugin):
    """Restricts queues to their node groups."""

    name = "nodegroup"

    def on_session_open(self, session: Session) -> None:
        """Read the queues' affinity and register callbacks."""
        self._session = session
        self._strict = self.arguments.boolean("strict", True)
        self._ordered = self.arguments.boolean("enablePreferredOrder", False)
        inherits = session.hierarchical(self.name)
        self._rules = {name: self._rules_of(queue, inherits) for name, queue in session.queues.items()}
        session.add_predicate(self._judge, columns=True, depends=self._queue_of)
        session.add_node_order(self._score, columns=True, depends=self._queue_of)

    def _rules_of(self, queue: QueueInfo, inherits: bool) -> GroupRules | None:
        """Return a queue's affinity, or that of its nearest ancestor that has any."""
        seen: set[str] = set()
        while True:
            affinity = queue.queue.spec.affinity
            if affinity is not None:
                return GroupRules(affinity.node_group_affinity, affinity.node_group_anti_affinity)
            seen.add(queue.name)
            parent = self._session.queues.get(queue.parent)
            if not inherits or queue.name == ROOT or parent is None or parent.name in seen:
                return None
            queue = parent

    def _queue_of(self, task: TaskInfo) -> str:
        return self._session.jobs[task.job].queue

    def _rules_for(self, task: TaskInfo) -> GroupRules | None:
        return self._rules.get(self._queue_of(task))

    def _judge(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts:
        rules = self._rules_for(task)
        if rules is not None and rules.is_empty:
            rules = None
        return Verdicts.of([self._status(rules, node.labels.get(_GROUP)) for node in nodes])

    def _status(self, rules: GroupRules | None, group: str | None) -> Status | None:
        if group is None:
            return None if not self._strict and rules is None else _NO_LABEL
        if rules is None:
            return _NO_AFFINITY
        return None if rules.allows(group) else _UNSATISFIED

    def _score(self, task: TaskInfo, nodes: SessionNodes) -> npt.NDArray[np.float64]:
        rules = self._rules_for(task)
        groups = [node.labels.get(_GROUP) for node in nodes]
        if rules is None:
            return np.zeros(len(groups))
        return np.array([0.0 if each is None else rules.score(each, ordered=self._ordered) for each in groups])
