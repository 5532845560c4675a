"""SubJob: a part of a job's tasks, by a subGroupPolicy of its PodGroup, that is placed as a gang of its own.

A job without policies has one part with all of its tasks.
"""

from __future__ import annotations

from collections import Counter

from mooring.api.label_selectors import SelectorError, compile_selector
from mooring.api.volcano import NetworkTopology, SubGroupPolicy
from mooring.batch.hyper_nodes import Domain
from mooring.batch.task import ALLOCATED, BINDING, BOUND, PENDING, PIPELINED, RUNNING, SUCCEEDED, Status, TaskInfo

_READY: tuple[Status, ...] = (BOUND, BINDING, RUNNING, ALLOCATED, SUCCEEDED)


class SubJob:
    """A part of a job.

    Attributes:
        policy: The name of its policy; empty for tasks that no policy selects.
        uid: Its identity within the session.
        min_available: How many of its tasks must be able to start.
        match_index: The first value of the policy's labels, if it is a number: the parts are placed in this order.
        tasks: Its tasks by uid.
        topology: The constraint of the policy, or of the job for tasks that no policy selects.
        highest_tier: The highest tier of the domain in which all tasks must be; None if there is no constraint.
        allocated: The smallest domain that contains all tasks that have a node.
        current: The same during a placement, with the tasks that were placed so far.
    """

    def __init__(
        self, policy: str, uid: str, *, min_available: int, match_index: int, topology: NetworkTopology | None
    ) -> None:
        self.policy = policy
        self.uid = uid
        self.min_available = min_available
        self.match_index = match_index
        self.topology = topology
        self.tasks: dict[str, TaskInfo] = {}
        self.highest_tier: int | None = None
        self.allocated: Domain | None = None
        self.current: Domain | None = None
        self._counts: Counter[Status] = Counter()
        self._best_effort_pending = 0

    def add(self, task: TaskInfo) -> None:
        """Add a task."""
        self.tasks[task.uid] = task
        self.count(task, 1)

    def remove(self, task: TaskInfo) -> None:
        """Remove a task."""
        del self.tasks[task.uid]
        self.count(task, -1)

    def count(self, task: TaskInfo, sign: int) -> None:
        """Count a task in its status (+1), or no longer (-1)."""
        self._counts[task.status] += sign
        if task.best_effort and task.status == PENDING:
            self._best_effort_pending += sign

    @property
    def missing(self) -> int:
        """How many more tasks must be placed until the part has its minimum, including pipelined ones."""
        return self.min_available - self._ready - self._counts[PIPELINED]

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks are allocated; pending best-effort tasks count too."""
        return self._ready >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether enough tasks are allocated or pipelined."""
        return self.missing <= 0

    @property
    def _ready(self) -> int:
        return sum(self._counts[status] for status in _READY) + self._best_effort_pending

    def __repr__(self) -> str:
        return f"SubJob({self.uid}, {len(self.tasks)} tasks, {self.min_available} needed)"


def label_values(policy: SubGroupPolicy, task: TaskInfo) -> tuple[str, ...]:
    """Return the values of a policy's labels by which its pods are split; empty if it does not select the pod."""
    labels = task.pod.labels
    if policy.label_selector is not None:
        try:
            if not compile_selector(policy.label_selector).matches(labels):
                return ()
        except SelectorError:
            return ()
    values = tuple(labels.get(key, "") for key in policy.match_label_keys)
    return values if all(values) else ()


def match_index(values: tuple[str, ...]) -> int:
    """Return the first value as a number; 0 if it is none."""
    try:
        return int(values[0]) if values and len(values[0]) < 20 and values[0].isascii() else 0
    except ValueError:
        return 0
