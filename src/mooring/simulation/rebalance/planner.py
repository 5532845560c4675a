"""Planner: proposes moves of pods, on the objects of a cluster.

A search in columns finds a placement by requests and by the nodes that the filters allow now. The moves are then
ordered and decided again with the profile's own filters, one after another, on the node table. What the filters reject
is excluded, and the search continues. So a plan never depends on the simplification.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec
import numpy as np

from mooring.api.label_selectors import SelectorError, compile_selector
from mooring.api.meta import KubeObject, NamespacedObject, parse_time
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget
from mooring.api.volcano import GROUP_ANNOTATION
from mooring.columns.nodes import Nodes
from mooring.columns.templates import PodTemplate
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.framework.state import CycleState
from mooring.plugins.coscheduling.pod_group import LABEL as GROUP_LABEL
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.attempt_results import ScheduleResult
from mooring.scheduler.engine import Engine
from mooring.scheduler.plugin_calls import call_filter
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.simulation.fragmentation import fragmentation
from mooring.simulation.rebalance.packing import Ints, Mask, Packing, Problem
from mooring.simulation.what_if import stays, unassigned
from mooring.simulation.workloads import controller_of

#: Pods with this annotation are not moved if its value is "false", as by the cluster autoscaler.
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: Pods of this priority or above are the cluster's own and are never moved.
SYSTEM_PRIORITY: Final = 2_000_000_000
#: The plugin that compares requests with the room of nodes, which the search does itself.
_FIT: Final = "NodeResourcesFit"
#: The least decrease of fragmentation, in percent of the cluster, for which a node is emptied.
_LEAST_GAIN: Final = 1e-3
#: Kinds of controllers whose pods lose their work when they are moved.
_JOBS: Final = frozenset({"Job"})

Result = Literal["planned", "impossible", "not found"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan may do."""

    #: The time for the search, in seconds.
    seconds: float = 10.0
    #: The largest number of moves.
    moves: int = 100
    #: Pods that started less than so many seconds ago are not moved.
    cool_down: float = 0.0
    #: Whether pods of Jobs and gangs are moved; they start again.
    jobs: bool = False
    #: Whether pods may change places, so that they have to be evicted together.
    together: bool = True


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is evicted from one node and placed on another. The moves of a step are evicted together."""

    pod: str
    source: str
    target: str
    priority: int
    step: int


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A pending pod that has room after a step."""

    pod: str
    node: str
    step: int


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A pending pod or gang that neither scheduling nor preemption can place."""

    #: namespace/name of the pod, or of the gang's PodGroup.
    name: str
    pods: list[str]
    priority: int
    #: "impossible" if no moves can help; "not found" if none were found in time.
    result: Result


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Moves, in their order, and what they achieve."""

    moves: list[Move]
    placements: list[Placement]
    goals: list[Goal]
    #: The share of the cluster, in percent, that is free but too small for typical pods, now and after the moves.
    fragmentation_before: float
    fragmentation_after: float
    #: Nodes that have pods now and would have none but those of DaemonSets.
    emptied: list[str]
    seconds: float


class _Steps(msgspec.Struct, frozen=True):
    """Moves and placements in an order in which the filters accept them."""

    moves: list[Move] = []
    placements: list[Placement] = []


class _Rejected(msgspec.Struct, frozen=True):
    """A placement that the filters reject."""

    kind: int
    row: int


class Planner:
    """A planner for one state of a cluster."""

    def __init__(
        self,
        objects: Iterable[KubeObject],
        config: SchedulerConfiguration,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        limits: Limits | None = None,
        seed: int = 0,
        now: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._limits = limits or Limits()
        self._clock, self._seed = clock, seed
        self._started = 0.0
        self._now = time.time() if now is None else now
        self._engine = Engine(config, plugins=plugins, clock=lambda: self._now, rng=random.Random(seed))
        self._runners = self._engine.profiles.runners
        budgets: list[PodDisruptionBudget] = []
        waiting: list[Pod] = []
        cache = self._engine.cache
        for item in sorted(objects, key=_filling_order):
            if isinstance(item, Pod) and item.is_finished:
                continue
            cache.put(item)
            if isinstance(item, Pod) and not item.node_name and not item.is_terminating:
                waiting.append(item)
            elif isinstance(item, PodDisruptionBudget):
                budgets.append(item)
        self._table = cache.table
        self._goals = self._find_goals(waiting)
        self._pods: list[Pod] = []
        self._templates: list[PodTemplate] = []
        self._problem = self._make_problem(budgets)
        # The search excludes what the filters reject; the problem that others solve stays complete.
        self._complete = msgspec.structs.replace(self._problem, allowed=self._problem.allowed.copy())
        self._packing = Packing(self._problem, seed=seed, clock=clock)
        self._priorities = np.array([pod.priority for pod in self._pods], dtype=np.int64)
        self._protected = np.array([not self._is_movable(pod) for pod in self._pods], dtype=np.bool_)

    # Public

    @property
    def problem(self) -> Problem:
        """The problem in columns, for a reference solver."""
        return self._complete

    @property
    def goals(self) -> list[tuple[str, list[int], Mask]]:
        """The pending pods and gangs with their pods in the problem and the pods that may be moved for them."""
        return [(name, self._numbers(pods), self._movable_for(pods)) for name, pods in self._goals]

    def make_room(self) -> Plan:
        """Propose moves that make room for pending pods and gangs."""
        self._started = self._clock()
        results: list[Goal] = []
        steps = _Steps()
        before = self._fragmentation(self._packing.free)
        deadline = self._started + self._limits.seconds
        failed: set[tuple[int, int]] = set()
        for number, (name, pods) in enumerate(self._goals):
            items, movable = self._numbers(pods), self._movable_for(pods)
            left = len(self._goals) - number
            until = self._clock() + max(deadline - self._clock(), 0.0) / left
            result: Result = "impossible"
            # Equal pods share the time: further searches would most likely find nothing either.
            kind = (int(self._problem.kinds[items[0]]), _priority(pods))
            if not self._packing.is_impossible(items, movable):
                found = None if kind in failed and len(items) == 1 else self._place(items, movable, until)
                result = "not found" if found is None else "planned"
                steps = found or steps
                if found is None:
                    failed.add(kind)
            results.append(Goal(name=name, pods=[pod.key for pod in pods], priority=_priority(pods), result=result))
        return self._plan(steps, results, before)

    def consolidate(self) -> Plan:
        """Propose moves that empty nodes and so reduce fragmentation."""
        self._started = self._clock()
        packing, before = self._packing, self._fragmentation(self._packing.free)
        deadline = self._started + self._limits.seconds
        movable, steps = ~self._protected & (self._problem.homes >= 0), _Steps()
        counts = np.bincount(self._problem.homes[movable], minlength=len(self._table))
        fixed = np.bincount(self._problem.homes[self._protected & (self._problem.homes >= 0)], minlength=len(counts))
        current = before
        for row in np.argsort(counts, kind="stable").tolist():
            if self._clock() >= deadline or len(packing.moved) >= self._limits.moves:
                break
            if not counts[row] or fixed[row]:
                continue
            start = packing.rows.copy()
            gain = 0.0
            if packing.empty(row, movable) and len(packing.moved) <= self._limits.moves:
                gain = current - self._fragmentation(packing.free)
            found = self._ordered() if gain >= _LEAST_GAIN else None
            if isinstance(found, _Steps):
                steps, current = found, current - gain
            else:
                packing.restore(start)
        return self._plan(steps, [], before)

    def _plan(self, steps: _Steps, goals: list[Goal], before: float) -> Plan:
        daemons = np.array([stays(pod) for pod in self._pods], dtype=np.bool_)
        kept = set(self._packing.rows[~daemons].tolist())
        sources = {self._table.row_of[move.source] for move in steps.moves}
        return Plan(
            moves=steps.moves,
            placements=steps.placements,
            goals=goals,
            fragmentation_before=round(before, 3),
            fragmentation_after=round(self._fragmentation(self._packing.free), 3),
            emptied=sorted(self._table.nodes[row].name for row in sources - kept),
            seconds=round(self._clock() - self._started, 3),
        )

    # The problem

    def _find_goals(self, waiting: list[Pod]) -> list[tuple[str, list[Pod]]]:
        """Return the pods and gangs that neither scheduling nor preemption places; the others are placed."""
        groups: dict[str, list[Pod]] = {}
        for pod in waiting:
            if pod.spec.scheduling_gates or self._waits_for_victims(pod):
                continue
            gang = _gang(pod)
            if gang or pod.scheduler_name in self._runners:
                groups.setdefault(gang or pod.key, []).append(pod)
        goals = []
        failed: set[tuple[int, int]] = set()
        for name, pods in sorted(groups.items(), key=lambda each: (-_priority(each[1]), _created(each[1]))):
            kinds = {(id(self._table.template(pod)), pod.priority) for pod in pods}
            if kinds & failed and len(pods) == 1:
                goals.append((name, pods))
            elif not self._schedule(pods):
                goals.append((name, pods))
                failed |= kinds
        return goals

    def _waits_for_victims(self, pod: Pod) -> bool:
        """Return whether a pod is nominated to a node that others are leaving. Other nominations are ignored."""
        row = self._table.row_of.get(pod.status.nominated_node_name)
        if row is not None and any(info.pod.is_terminating for info in self._table.nodes[row].pods):
            return True
        self._engine.cache.nominator.remove(pod.uid)
        return False

    def _schedule(self, pods: list[Pod]) -> bool:
        """Place pods as the scheduler does, with preemption for a single pod. Place all or none."""
        cache, done = self._engine.cache, list[Pod]()
        for pod in pods:
            outcome = schedule_pod(self._runner(pod), pod)
            if isinstance(outcome, ScheduleResult):
                node = outcome.node_name
            elif len(pods) == 1 and outcome.result.nominated_node:
                node = outcome.result.nominated_node
                for uid in outcome.result.victims:
                    cache.table.remove_pod(uid)
            else:
                for each in done:
                    cache.forget(each)
                return False
            cache.assume(pod, node)
            done.append(pod)
        return True

    def _runner(self, pod: Pod) -> PluginRunner:
        return self._runners.get(pod.scheduler_name) or self._engine.profiles.first

    def _make_problem(self, budgets: Iterable[PodDisruptionBudget]) -> Problem:
        table = self._table
        kinds: dict[int, int] = {}
        kind_of, homes = [], []
        goal_pods = [pod for _, pods in self._goals for pod in pods]
        placed = [info.pod for info in table.pods.values() if info.node is not None]
        for pod in [*placed, *goal_pods]:
            template = table.template(pod)
            kind = kinds.setdefault(id(template), len(kinds))
            if kind == len(self._templates):
                self._templates.append(template)
            self._pods.append(pod)
            kind_of.append(kind)
            homes.append(table.row_of[table.pods[pod.uid].node.name] if pod.uid in table.pods else -1)  # type: ignore[union-attr]  # it is placed
        self._number_of = {pod.uid: number for number, pod in enumerate(self._pods)}
        slots = len(table.slots)
        count = len(table)
        free = np.column_stack(
            [
                (table.allocatable - table.requested)[:slots, :count].T,
                (table.allowed_pods - table.pod_count)[:count],
            ]
        ).astype(np.int64)
        sizes = np.zeros((len(self._templates), slots + 1), dtype=np.int64)
        for kind, template in enumerate(self._templates):
            for slot, amount in template.scalars.items():
                sizes[kind, slot] = amount
            sizes[kind, slots] = 1
        for name in self._engine.cache.nominator.nodes():
            for info in self._engine.cache.nominator.on_node(name):
                if (row := table.row_of.get(name)) is not None and info.pod.uid not in table.pods:
                    for slot, amount in info.template.scalars.items():
                        free[row, slot] -= amount
                    free[row, slots] -= 1
        # A resource that a pod does not request does not limit it, even where it is overcommitted.
        used = [*np.flatnonzero(sizes[:, :slots].any(axis=0)).tolist(), slots]
        allowed = np.array([self._allowed(template) for template in self._templates], dtype=np.bool_)
        budget_of, left = self._budgets(budgets)
        return Problem(
            free=free[:, used],
            sizes=sizes[:, used],
            allowed=allowed.reshape(len(self._templates), count),
            kinds=np.array(kind_of, dtype=np.int64),
            homes=np.array(homes, dtype=np.int64),
            budget_of=budget_of,
            budgets=left,
        )

    def _allowed(self, template: PodTemplate) -> Mask:
        """Return the nodes that all filters but the one of requests accept."""
        pod, count = unassigned(template.pod), len(self._table)
        allowed = np.ones(count, dtype=np.bool_)
        runner, state = self._runner(pod), CycleState()
        if any(amount and resource not in self._table.slots for resource, amount in template.requests.items()):
            return np.zeros(count, dtype=np.bool_)
        try:
            before = runner.pre_filter(state, pod)
            if not before.status.is_success:
                return np.zeros(count, dtype=np.bool_)
            if before.names is not None:
                allowed[:] = False
                allowed[runner.rows_of(before.names)] = True
            for plugin in runner.profile.filters:
                if plugin.name == _FIT or plugin.name in state.skip_filter:
                    continue
                verdicts = call_filter(plugin, state, pod, Nodes(self._table))
                if verdicts is not None:
                    allowed &= verdicts.codes == 0
        except PluginFailure:
            return np.zeros(count, dtype=np.bool_)
        return allowed

    def _budgets(self, budgets: Iterable[PodDisruptionBudget]) -> tuple[Ints, Ints]:
        """Return the budget of each pod and what each budget allows. A pod with two budgets cannot be evicted."""
        compiled = []
        for budget in budgets:
            try:
                compiled.append((budget, compile_selector(budget.spec.selector)))
            except SelectorError:
                continue
        left = [max(budget.status.disruptions_allowed, 0) for budget, _ in compiled]
        budget_of = np.full(len(self._pods), -1, dtype=np.int64)
        left.append(0)  # for pods with several budgets
        found: dict[tuple[str, int], list[int]] = {}
        for number, pod in enumerate(self._pods):
            key = (pod.namespace, id(self._table.template(pod)))
            if key not in found:
                found[key] = [
                    place
                    for place, (budget, selector) in enumerate(compiled)
                    if budget.namespace == pod.namespace and selector.matches(pod.labels)
                ]
            if found[key]:
                budget_of[number] = found[key][0] if len(found[key]) == 1 else len(compiled)
        return budget_of, np.array(left, dtype=np.int64)

    def _is_movable(self, pod: Pod) -> bool:
        """Return whether a pod may be evicted: a controller creates it again, and nothing forbids it."""
        owner = controller_of(pod)
        if owner is None or stays(pod) or pod.is_terminating or pod.priority >= SYSTEM_PRIORITY:
            return False
        if pod.uid in self._engine.cache.assumed or pod.spec.resource_claims:
            return False
        if pod.annotations.get(SAFE_TO_EVICT) == "false":
            return False
        if not self._limits.jobs and (owner[0] in _JOBS or _gang(pod)):
            return False
        started = pod.status.start_time or pod.metadata.creation_timestamp  # a manifest may have neither
        return not started or parse_time(started) <= self._now - self._limits.cool_down

    def _movable_for(self, pods: Sequence[Pod]) -> Mask:
        """Return the pods that may be moved for some pods: those with no higher priority, and planned ones."""
        movable: Mask = (self._priorities <= _priority(pods)) & (~self._protected | (self._problem.homes < 0))
        movable[self._numbers(pods)] = False
        return movable

    def _numbers(self, pods: Iterable[Pod]) -> list[int]:
        return [self._number_of[pod.uid] for pod in pods]

    # Fragmentation

    def _fragmentation(self, free: Ints) -> float:
        """Return the fragmentation with some room on the nodes, for the kinds of pods that there are."""
        problem, resources = self._problem, self._problem.sizes.shape[1] - 1
        if not len(problem.kinds):
            return 0.0
        popularity = np.bincount(problem.kinds, minlength=len(problem.sizes)) / len(problem.kinds)
        capacity = np.maximum(problem.free[:, :resources], 0)
        here = np.flatnonzero(problem.homes >= 0)
        np.add.at(capacity, problem.homes[here], problem.sizes[problem.kinds[here], :resources])
        return fragmentation(free, capacity, problem.sizes, popularity)

    # Validation

    def _place(self, items: list[int], movable: Mask, until: float) -> _Steps | None:
        """Place pods and order the moves. What the filters reject is excluded before the next try."""
        packing = self._packing
        start = packing.rows.copy()
        while self._clock() < until:
            if not packing.place(items, movable, until, most_moves=self._limits.moves):
                return None
            found = self._ordered()
            if isinstance(found, _Steps):
                return found
            packing.restore(start)
            self._problem.allowed[found.kind, found.row] = False
        packing.restore(start)
        return None

    def _ordered(self) -> _Steps | _Rejected:
        """Carry out all moves on the table in an order in which the filters accept them, and undo them."""
        rows, homes = self._packing.rows, self._problem.homes
        todo = np.flatnonzero(rows != homes).tolist()
        todo.sort(key=lambda item: (homes[item] < 0, -self._pods[item].priority))
        done: list[int] = []
        evicted: list[int] = []
        steps, step = _Steps([], []), 0
        try:
            while todo:
                progress = False
                for item in list(todo):
                    if item not in evicted:
                        self._evict(item, evicted)
                    if not self._accepts(item, int(rows[item])):
                        self._return(item, evicted)
                        continue
                    step += int(homes[item] >= 0)
                    self._record(item, step, steps)
                    done.append(item)
                    todo.remove(item)
                    progress = True
                if not progress:
                    rejected: int | None = todo[0]
                    if self._limits.together:
                        rejected = self._together(todo, evicted, done, step + 1, steps)
                    if rejected is not None:
                        return _Rejected(int(self._problem.kinds[rejected]), int(rows[rejected]))
                    todo = []
            return steps
        finally:
            self._undo(done, evicted)

    def _together(self, todo: list[int], evicted: list[int], done: list[int], step: int, steps: _Steps) -> int | None:
        """Evict all remaining pods together, since each waits for the room of another. Return a rejected one."""
        for item in todo:
            self._evict(item, evicted)
        left = list(todo)
        while left:
            accepted = next((item for item in left if self._accepts(item, int(self._packing.rows[item]))), None)
            if accepted is None:
                return left[0]
            self._record(accepted, step, steps)
            done.append(accepted)
            left.remove(accepted)
        return None

    def _record(self, item: int, step: int, steps: _Steps) -> None:
        pod, home = self._pods[item], int(self._problem.homes[item])
        target = self._table.nodes[int(self._packing.rows[item])].name
        if home < 0:
            steps.placements.append(Placement(pod=pod.key, node=target, step=step))
        else:
            source = self._table.nodes[home].name
            steps.moves.append(Move(pod=pod.key, source=source, target=target, priority=pod.priority, step=step))

    def _accepts(self, item: int, row: int) -> bool:
        """Decide with the filters whether a node accepts a pod, and place it there if so."""
        pod = unassigned(self._pods[item])
        runner, state, node = self._runner(pod), CycleState(), self._table.nodes[row]
        try:
            before = runner.pre_filter(state, pod)
            if not before.status.is_success or (before.names is not None and node.name not in before.names):
                return False
            if not runner.filtering.verdict(state, pod, node).is_success:
                return False
        except PluginFailure:
            return False
        self._table.add_pod(pod, node.name)
        return True

    def _evict(self, item: int, evicted: list[int]) -> None:
        if item not in evicted:
            self._table.remove_pod(self._pods[item].uid)
            evicted.append(item)

    def _return(self, item: int, evicted: list[int]) -> None:
        """Put a pod back on its node."""
        evicted.remove(item)
        home = int(self._problem.homes[item])
        if home >= 0:
            self._table.add_pod(self._pods[item], self._table.nodes[home].name)

    def _undo(self, done: list[int], evicted: list[int]) -> None:
        for item in done:
            self._table.remove_pod(self._pods[item].uid)
        for item in list(evicted):
            self._return(item, evicted)


def _filling_order(item: KubeObject) -> int:
    return 0 if isinstance(item, Node) else 2 if isinstance(item, Pod) else 1


def _gang(pod: Pod) -> str:
    """Return namespace/name of the gang of a pod; empty if it has none."""
    name = pod.labels.get(GROUP_LABEL) or pod.annotations.get(GROUP_ANNOTATION, "")
    return f"{pod.namespace}/{name}" if name else ""


def _priority(pods: Sequence[Pod]) -> int:
    return min(pod.priority for pod in pods)


def _created(pods: Sequence[NamespacedObject]) -> str:
    return min(pod.metadata.creation_timestamp or "" for pod in pods)
