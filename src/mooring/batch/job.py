"""JobInfo: a PodGroup with its tasks, and whether there are enough of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mooring.api.meta import parse_time
from mooring.api.resources import check_amounts
from mooring.api.volcano import NetworkTopology, PodGroup, PodGroupCondition, PodGroupStatus
from mooring.batch.fit_errors import FitErrors
from mooring.batch.hyper_nodes import Domain, HyperNodes
from mooring.batch.resource import Resource, exceeded_part
from mooring.batch.sub_job import SubJob, label_values, match_index
from mooring.batch.task import (
    ALLOCATED,
    BINDING,
    BOUND,
    HOLDING,
    PENDING,
    PIPELINED,
    PREEMPTABLE,
    RUNNING,
    SUCCEEDED,
    Status,
    TaskInfo,
    has_only_queue_gate,
    parse_bool,
    revocable_zone,
)
from mooring.config.durations import DurationError, parse_duration

_READY: tuple[Status, ...] = (BOUND, BINDING, RUNNING, ALLOCATED, SUCCEEDED)
_VALID: tuple[Status, ...] = (*_READY, PIPELINED, PENDING)
_WAITING_TIMES = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"

INQUEUE = "Inqueue"
RUNNING_PHASE = "Running"


class Budget(NamedTuple):
    """A job's disruption budget, from its annotations.

    Attributes:
        min_available: How many tasks must keep running: a number or a percentage; empty if not set.
        max_unavailable: How many tasks may be evicted: a number or a percentage; empty if not set.
    """

    min_available: str = ""
    max_unavailable: str = ""


class JobInfo:
    """A gang: a PodGroup with its tasks.

    Attributes:
        group: The PodGroup.
        uid: Its identity, ``namespace/name``.
        name: The name of the PodGroup.
        namespace: The namespace of the PodGroup.
        queue: The name of its queue.
        priority: The priority of its PriorityClass.
        min_available: How many tasks must be able to start, from ``spec.minMember``.
        role_minimums: How many tasks of each role must be able to start, from ``spec.minTaskMember``.
        min_resources: The PodGroup's ``spec.minResources``; None if it has none.
        created: When it was created, in seconds since the epoch.
        waiting_time: The longest time, in seconds, that it may be pending; None for no limit.
        preemptable: Whether its tasks may be preempted, by its annotation or label.
        revocable_zone: ``*`` if its tasks may run on revocable nodes, otherwise empty.
        budget: Its disruption budget, from its annotations.
        tasks: Its tasks by uid.
        by_status: Its tasks by status, then by uid.
        allocated: The sum of the requests of tasks that have a node.
        total_request: The sum of the requests of all tasks.
        fit_errors: Why tasks have no feasible node, by the uid of the task.
        fit_error: Why the job as a whole cannot start.
        phase: The phase of the PodGroup at the end of this session.
        conditions: The conditions of the PodGroup at the end of this session.
        promised: Pipelined tasks that the action allocate tries once more.
        sub_jobs: The parts of its tasks by uid, if it has a network topology or policies for subgroups.
        highest_tier: The highest tier of the domain in which all tasks must be; None if there is no constraint.
        allocated_domain: The smallest domain that contains all tasks that have a node.
        held: Why no task is placed, if the job makes a request that sessions cannot fulfil; otherwise empty.
    """

    def __init__(self, group: PodGroup, *, queue: str, priority: int) -> None:
        """Raises ValueError if the group cannot be parsed."""
        self.group = group
        self.uid = f"{group.namespace}/{group.name}"
        self.name = group.name
        self.namespace = group.namespace
        self.queue = queue
        self.priority = priority
        self.min_available = group.spec.min_member
        self.role_minimums = group.spec.min_task_member
        self._role_total = sum(self.role_minimums.values())
        created = group.metadata.creation_timestamp
        self.created = parse_time(created) if created else 0.0
        annotations = group.annotations
        self.waiting_time = _waiting_time(annotations)
        preemptable = annotations.get(PREEMPTABLE, group.labels.get(PREEMPTABLE))
        self.preemptable = preemptable is not None and parse_bool(preemptable) is True
        self.revocable_zone = revocable_zone(annotations)
        self.budget = _budget(annotations)
        check_amounts("spec.minResources", group.spec.min_resources)
        self.min_resources = None if group.spec.min_resources is None else Resource.of(group.spec.min_resources)
        self.tasks: dict[str, TaskInfo] = {}
        self.by_status: dict[Status, dict[str, TaskInfo]] = {}
        self.allocated = Resource()
        self.total_request = Resource()
        self.fit_errors: dict[str, FitErrors] = {}
        self.fit_error = ""
        self.phase = group.status.phase
        self.conditions: list[PodGroupCondition] = list(group.status.conditions)
        self.promised: list[TaskInfo] = []
        self.held = ""
        self._best_effort_pending = 0
        self.sub_jobs: dict[str, SubJob] = {}
        self.highest_tier: int | None = None
        self.allocated_domain: Domain | None = None
        self._policies = group.spec.sub_group_policy
        self._minimum_parts = {policy.name: policy.min_sub_groups or 0 for policy in self._policies}
        self._splits = bool(self._policies) or group.spec.network_topology is not None
        self._part_of: dict[str, SubJob] = {}

    # Tasks

    def add(self, task: TaskInfo) -> None:
        """Add a task."""
        self.tasks[task.uid] = task
        self.by_status.setdefault(task.status, {})[task.uid] = task
        self.total_request.add(task.request)
        if self._splits:
            part = self._part_of[task.uid] = self._find_part(task)
            part.add(task)
        self._count(task, 1)

    def set_status(self, task: TaskInfo, status: Status) -> None:
        """Move a task to another status."""
        old = self.by_status[task.status]
        del old[task.uid]
        if not old:
            del self.by_status[task.status]
        self._count(task, -1)
        part = self._part_of.get(task.uid)
        if part is not None:
            part.count(task, -1)
        task.status = status
        self.by_status.setdefault(status, {})[task.uid] = task
        self._count(task, 1)
        if part is not None:
            part.count(task, 1)

    def remove(self, task: TaskInfo) -> None:
        """Remove a task."""
        del self.tasks[task.uid]
        old = self.by_status[task.status]
        del old[task.uid]
        if not old:
            del self.by_status[task.status]
        self.total_request.sub(task.request)
        self._count(task, -1)
        part = self._part_of.pop(task.uid, None)
        if part is not None:
            part.remove(task)

    def _count(self, task: TaskInfo, sign: int) -> None:
        if task.status in HOLDING:
            (self.allocated.add if sign > 0 else self.allocated.sub)(task.request)
        elif task.best_effort and task.status == PENDING:
            self._best_effort_pending += sign

    def of_status(self, status: Status) -> list[TaskInfo]:
        """Return the tasks in one status."""
        return list(self.by_status.get(status, {}).values())

    def count(self, *statuses: Status) -> int:
        """Return the number of tasks in these statuses."""
        return sum(len(self.by_status[status]) for status in statuses if status in self.by_status)

    # Counting

    @property
    def ready_count(self) -> int:
        """The number of tasks that are allocated or done."""
        return self.count(*_READY)

    @property
    def waiting_count(self) -> int:
        """The number of pipelined tasks."""
        return self.count(PIPELINED)

    @property
    def holding_count(self) -> int:
        """The number of tasks that hold their resources."""
        return self.count(BOUND, BINDING, RUNNING, ALLOCATED)

    @property
    def valid_count(self) -> int:
        """The number of tasks that can be part of the gang."""
        return self.count(*_VALID)

    @property
    def is_pending(self) -> bool:
        """Whether the group was not admitted to its queue yet."""
        return self.phase in ("", "Pending")

    @property
    def is_ready(self) -> bool:
        """Whether enough tasks are allocated; pending best-effort tasks count too."""
        return self.ready_count + self._best_effort_pending >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Whether enough tasks are allocated or pipelined."""
        return self.waiting_count + self.ready_count + self._best_effort_pending >= self.min_available

    @property
    def missing_count(self) -> int:
        """How many more tasks must be placed until the job has its minimum, including pipelined ones."""
        return self.min_available - self.waiting_count - self.ready_count - self._best_effort_pending

    @property
    def is_starving(self) -> bool:
        """Whether too few tasks are allocated or pipelined."""
        return self.waiting_count + self.ready_count < self.min_available

    @property
    def counts_roles(self) -> bool:
        """Whether the minimums of roles apply: not if the group's own minimum is less than their sum."""
        return self.min_available >= self._role_total

    def roles_in(self, *statuses: Status, best_effort: bool = False) -> Counter[str]:
        """Count the tasks of each role in these statuses; ``best_effort`` adds pending best-effort tasks."""
        found: Counter[str] = Counter()
        for status in statuses:
            for task in self.by_status.get(status, {}).values():
                found[task.role] += 1
        if best_effort and self._best_effort_pending:
            for task in self.by_status.get(PENDING, {}).values():
                if task.best_effort:
                    found[task.role] += 1
        return found

    @property
    def roles_valid(self) -> bool:
        """Whether every role has enough tasks."""
        return self._roles_suffice(_VALID, best_effort=False)

    @property
    def roles_ready(self) -> bool:
        """Whether every role has enough allocated tasks."""
        return self._roles_suffice(_READY, best_effort=True)

    @property
    def roles_pipelined(self) -> bool:
        """Whether every role has enough allocated or pipelined tasks."""
        return self._roles_suffice((*_READY, PIPELINED), best_effort=True)

    def _roles_suffice(self, statuses: tuple[Status, ...], *, best_effort: bool) -> bool:
        if not self.role_minimums or not self.counts_roles:
            return True
        found = self.roles_in(*statuses, best_effort=best_effort)
        return all(found[role] >= needed for role, needed in self.role_minimums.items() if needed)

    # Parts

    @property
    def has_policies(self) -> bool:
        """Whether policies split the tasks into parts that are gangs of their own."""
        return bool(self._policies)

    @property
    def has_topology(self) -> bool:
        """Whether the job or a part has a network topology."""
        return self.group.spec.network_topology is not None or any(
            part.topology is not None for part in self.sub_jobs.values()
        )

    @property
    def searches_tiers(self) -> bool:
        """Whether the job or a part has a topology whose tiers are known. The mode soft tries all tiers."""
        tiers = (self.highest_tier, *(part.highest_tier for part in self.sub_jobs.values()))
        return any(tier is not None for tier in tiers)

    @property
    def searches_domains(self) -> bool:
        """Whether the job is placed domain by domain."""
        return self.has_policies or self.searches_tiers

    def part_of(self, task: TaskInfo) -> SubJob | None:
        """Return the part that a task belongs to; None if the job is not split and has no topology."""
        return self._part_of.get(task.uid)

    def _find_part(self, task: TaskInfo) -> SubJob:
        for policy in self._policies:
            values = label_values(policy, task)
            if values:
                uid = f"{self.uid}/{policy.name}-{'-'.join(values)}"
                part = self.sub_jobs.get(uid)
                if part is None:
                    size = 1 if policy.sub_group_size is None else policy.sub_group_size
                    part = self.sub_jobs[uid] = SubJob(
                        policy.name,
                        uid,
                        min_available=size,
                        match_index=match_index(values),
                        topology=policy.network_topology,
                    )
                return part
        rest = self.sub_jobs.get(self.uid)
        if rest is None:
            least = 1 if self._policies else self.min_available
            topology = self.group.spec.network_topology
            rest = self.sub_jobs[self.uid] = SubJob("", self.uid, min_available=least, match_index=0, topology=topology)
        return rest

    @property
    def parts_valid(self) -> bool:
        """Whether there are enough parts of each policy."""
        return self._parts_suffice(lambda _part: True)

    @property
    def parts_ready(self) -> bool:
        """Whether enough parts of each policy are ready."""
        return self._parts_suffice(lambda part: part.is_ready)

    @property
    def parts_pipelined(self) -> bool:
        """Whether enough parts of each policy are ready or pipelined."""
        return self._parts_suffice(lambda part: part.is_pipelined)

    def _parts_suffice(self, counts: Callable[[SubJob], bool]) -> bool:
        if not self._minimum_parts:
            return True
        found = Counter(part.policy for part in self.sub_jobs.values() if counts(part))
        return all(found[policy] >= least for policy, least in self._minimum_parts.items())

    def spare_parts(self) -> Counter[str]:
        """Return how many more parts of each policy are ready than the job needs."""
        spare = Counter(part.policy for part in self.sub_jobs.values() if part.is_ready)
        spare.subtract(self._minimum_parts)
        return spare

    def needs_part(self, part: SubJob, found: Counter[str]) -> bool:
        """Return whether a policy needs one more part, given how many of each policy there are."""
        return found[part.policy] < self._minimum_parts.get(part.policy, 0)

    def apply_topology(self, hyper_nodes: HyperNodes) -> None:
        """Resolve the tiers of the constraints, and find the domains of tasks that have a node, as Volcano does.

        The mode soft is the mode hard with the whole cluster as the highest domain: smaller domains are tried first.
        """
        top = hyper_nodes.cluster.tier
        self.highest_tier = _highest_tier(self.group.spec.network_topology, hyper_nodes, top)
        for part in self.sub_jobs.values():
            part.highest_tier = _highest_tier(
                part.topology, hyper_nodes, top if self.highest_tier is None else self.highest_tier
            )
            part.allocated = (
                None
                if part.topology is None
                else hyper_nodes.smallest(task.node_name for task in part.tasks.values() if task.status in HOLDING)
            )
            self.allocated_domain = hyper_nodes.common(self.allocated_domain, part.allocated)

    # Failures

    def failed_roles(self, part: SubJob | None = None) -> set[str]:
        """Return the roles of tasks (of a part) without a feasible node."""
        tasks = self.tasks if part is None else part.tasks
        return {tasks[uid].role for uid in self.fit_errors if uid in tasks}

    def worth_continuing(self, part: SubJob | None = None) -> bool:
        """Return whether the gang (or a part of it) can still be complete after a task had no feasible node."""
        if self.min_available >= len(self.tasks):
            return False
        if part is not None:
            if part.min_available >= len(part.tasks):
                return False
            if self.has_policies:
                return True
        failed = self.failed_roles(part)
        if not self.counts_roles:
            pending = Counter(task.role for task in self.by_status.get(PENDING, {}).values())
            left = sum(count for role, count in pending.items() if role not in failed)
            return self.ready_count + left >= self.min_available
        ready = self.roles_in(*_READY, best_effort=True)
        return all(ready[role] >= self.role_minimums.get(role, 0) for role in failed)

    # Resources

    def minimum(self) -> Resource:
        """Return the PodGroup's minResources; empty if it has none."""
        return Resource() if self.min_resources is None else self.min_resources

    def elastic(self) -> Resource:
        """Return what the job has allocated beyond its minimum."""
        return exceeded_part(self.allocated, self.minimum())

    def without_gated(self, amounts: Resource) -> Resource:
        """Return amounts minus the requests of gated pods."""
        gated = Resource()
        for task in self.tasks.values():
            if task.gated and not has_only_queue_gate(task.pod):
                gated.add(task.request)
        if gated.is_empty:
            return amounts
        result = amounts.clone()
        result.cpu = max(result.cpu - gated.cpu, 0.0)
        result.memory = max(result.memory - gated.memory, 0.0)
        for name in result.scalars or {}:
            if name in (gated.scalars or {}):
                result.scalars[name] = max(result.get(name) - gated.get(name), 0.0)  # type: ignore[index]  # has names
        return result

    # Status

    def set_condition(self, condition: PodGroupCondition) -> None:
        """Replace the condition of that type, or add it."""
        for place, known in enumerate(self.conditions):
            if known.type == condition.type:
                self.conditions[place] = condition
                return
        self.conditions.append(condition)

    def status(self, phase: str) -> PodGroupStatus:
        """Return the PodGroup's status with a phase."""
        return msgspec.structs.replace(
            self.group.status,
            phase=phase,
            conditions=tuple(self.conditions),
            running=self.count(RUNNING),
            succeeded=self.count(SUCCEEDED),
            failed=self.count("Failed"),
        )

    def __repr__(self) -> str:
        return f"JobInfo({self.uid}, {len(self.tasks)} tasks, {self.min_available} needed)"


def _highest_tier(topology: NetworkTopology | None, hyper_nodes: HyperNodes, soft: int) -> int | None:
    """Return the highest tier that a constraint allows; ``soft`` is that of the mode soft."""
    if topology is None:
        return None
    if topology.mode == "soft":
        return soft
    if topology.highest_tier_allowed is not None:
        return topology.highest_tier_allowed
    return hyper_nodes.tier_names.get(topology.highest_tier_name)


def _waiting_time(annotations: dict[str, str]) -> float | None:
    for key in _WAITING_TIMES:
        if key in annotations:
            try:
                nanoseconds = parse_duration(annotations[key])
            except DurationError:
                continue
            if nanoseconds > 0:
                return nanoseconds / 1e9
    return None


def _budget(annotations: dict[str, str]) -> Budget:
    if _MIN_AVAILABLE in annotations:
        return Budget(min_available=annotations[_MIN_AVAILABLE])
    return Budget(max_unavailable=annotations.get(_MAX_UNAVAILABLE, ""))
