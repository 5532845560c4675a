"""Suggestions: the smallest changes that would make a pending pod schedulable, each verified by deciding again.

A change of the pod is verified with a changed copy of the pod. A change of a node is applied to the node table, and
undone after the decision; nothing else runs in between, because decisions are synchronous. Victims are those that
preemption would choose if the pod had the highest priority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import thread_time
from typing import Final

import msgspec

from mooring.api.pod import Pod
from mooring.framework.preemption.candidate import Candidate
from mooring.framework.preemption.evaluator import Evaluator
from mooring.framework.status import Code
from mooring.observe.explanation import SuggestionView
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.gang_suggestions import PATIENCE, SECONDS, GangSearch, GangSuggestion
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.pod_changes import Change, PodChanges, changed_nodes, with_spec
from mooring.scheduler.pod_group_gang import gang_of
from mooring.scheduler.schedule_pod import evaluate_pod

_replace = msgspec.structs.replace

#: Suggestions per pod.
LIMIT: Final = 5
#: Kinds of changes, the least invasive first.
_ORDER: Final = (
    "remove-gate",
    "wait",
    "uncordon",
    "tolerate",
    "volume",
    "reduce-request",
    "relax",
    "label-node",
    "add-node",
    "evict",
)
_HIGHEST: Final = 2_000_000_000
#: The nodes that are searched for victims without a pause.
_PORTION: Final = 256


@dataclass(frozen=True)
class Suggestion:
    """A change that makes the pod schedulable, and the node that would be selected."""

    change: Change
    node: str

    @property
    def view(self) -> SuggestionView:
        """The suggestion for users."""
        return SuggestionView(kind=self.change.kind, text=self.change.text, node=self.node)


def suggest(
    engine: Engine, pod: Pod, *, limit: int = LIMIT, seconds: float = SECONDS
) -> Sequence[Suggestion | GangSuggestion]:
    """Return changes that make a pending pod schedulable, or let its gang start, the smallest first.

    Empty if the pod is schedulable.
    """
    search = _search(engine, pod, limit, seconds)
    for _ in search.steps() if search is not None else ():
        pass
    return [] if search is None else search.result()


async def suggest_with_pauses(engine: Engine, pod: Pod) -> Sequence[Suggestion | GangSuggestion]:
    """Return the same as ``suggest``. Decisions and other work continue between two changes that are tried.

    The search ends early if nodes are added or removed meanwhile.
    """
    search = _search(engine, pod, LIMIT, SECONDS)
    if search is None:
        return []
    table = engine.cache.table
    for _ in search.steps():
        before, paused = table.structure, thread_time()
        await asyncio.sleep(0)
        search.deadline += thread_time() - paused  # only its own time counts
        if engine.lock.held or table.structure != before:
            break
    return search.result()


def _search(engine: Engine, pod: Pod, limit: int, seconds: float) -> _Search | GangSearch | None:
    """Return a search; None while a decision is in progress, because the table must not be changed then."""
    runner = engine.profiles.runners.get(pod.scheduler_name)
    if runner is None or engine.lock.held:
        return None
    gang = gang_of(engine, pod)
    if gang is not None:
        return GangSearch(gang, limit=limit, seconds=seconds)
    return _Search(runner, pod, limit, thread_time() + seconds)


class _Search:
    """The search for suggestions for one pod."""

    def __init__(self, runner: PluginRunner, pod: Pod, limit: int, deadline: float) -> None:
        self._runner = runner
        self._pod = pod
        self._table = runner.table
        self._pod_changes = PodChanges(runner.table)
        self._limit = limit
        self.deadline = deadline
        self._found: list[Suggestion] = []
        #: What has to be done before each change: remove scheduling gates.
        self._first = ""
        self._seen: set[str] = set()

    def steps(self) -> Iterator[None]:
        """Search, and pause after each change that was tried. The table is unchanged in a pause."""
        pod = self._pod
        ungated = _ungated(pod)
        names = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        failure = self._decide(ungated)
        if isinstance(failure, str):
            if names:
                self._add(Change("remove-gate", f"Remove the scheduling gates: {names}", ungated), failure)
            return
        self._first = f"Remove the scheduling gates ({names}). " if names else ""
        yield
        rejected: list[tuple[Change, ScheduleFailure]] = []
        changes: list[Change] = []
        for change in self._changes(ungated, failure):
            changes.append(change)
            yield
        for change in changes:
            if self._is_over():
                break
            outcome = self._try(change)
            if isinstance(outcome, str):
                self._add(change, outcome)
            else:
                rejected.append((change, outcome))
            yield
        if not self._is_over():
            yield from self._evict(ungated)
        if not self._found:
            yield from self._combine(rejected)

    def result(self) -> list[Suggestion]:
        """Return the suggestions that were found, the smallest change first."""
        found = sorted(self._found, key=lambda each: max(map(_ORDER.index, each.change.kind.split(","))))
        if not self._first:
            return found
        return [replace(each, change=replace(each.change, text=self._first + each.change.text)) for each in found]

    def _is_over(self) -> bool:
        """Return whether enough was found, or too much time has passed."""
        return len(self._found) >= self._limit or self._is_late()

    def _is_late(self, *, found: bool = False) -> bool:
        """Return whether too much time has passed. The first suggestion may take longer than the others."""
        return thread_time() > self.deadline + (0.0 if found or self._found else PATIENCE)

    def _combine(self, rejected: Iterable[tuple[Change, ScheduleFailure]]) -> Iterator[None]:
        """Try pairs of changes: what the first one leaves as a cause is changed too."""
        for first, left in rejected:
            with changed_nodes(self._table, first.nodes):
                seconds = list(self._changes(first.pod, left))
            for second in seconds:
                if self._is_over():
                    return
                text = f"{first.text}, and {second.text[0].lower()}{second.text[1:]}"
                nodes = tuple({node.name: node for node in (*first.nodes, *second.nodes)}.values())
                both = Change(f"{first.kind},{second.kind}", text, second.pod, nodes)
                outcome = self._try(both)
                yield
                if isinstance(outcome, str):
                    self._add(both, outcome)
                    break

    def _add(self, change: Change, node: str) -> None:
        if change.text not in self._seen:
            self._seen.add(change.text)
            self._found.append(Suggestion(change, node))

    # Decisions

    def _try(self, change: Change) -> str | ScheduleFailure:
        with changed_nodes(self._table, change.nodes):
            return self._decide(change.pod)

    def _decide(self, pod: Pod) -> str | ScheduleFailure:
        """Return the node that is selected for a pod, or why there is none."""
        outcome, _ = evaluate_pod(self._runner, pod)
        return outcome if isinstance(outcome, ScheduleFailure) else outcome.node_name

    def _changes(self, pod: Pod, failure: ScheduleFailure) -> Iterator[Change]:
        """Yield changes for the causes of a failure: for the most frequent cause first."""
        if failure.statuses is None:  # there are no nodes
            return
        causes = [(status.plugin, rows) for status, rows in failure.statuses.groups()]
        yield from self._pod_changes.for_causes(pod, causes)
        yield from self._pod_changes.new_nodes(pod)

    def _evict(self, pod: Pod) -> Iterator[None]:
        """Suggest the victims of preemption with the highest priority, or to wait for pods that terminate.

        If the time is over and there are candidates, the rest of the nodes is not searched.
        """
        urgent = with_spec(pod, _replace(pod.spec, priority=_HIGHEST, preemption_policy="PreemptLowerPriority"))
        evaluator = Evaluator(self._runner.handle)
        candidates: list[Candidate] = []
        cursor = self._table.cursor()
        for first in range(0, len(self._table), _PORTION):
            if not cursor.current:  # the first time, and if pods or nodes have changed in a pause
                failure = self._decide(pod)
                cursor.advance()
            if isinstance(failure, str) or failure.statuses is None:
                return
            rows = failure.statuses.rows_with(Code.UNSCHEDULABLE)
            portion = rows[(rows >= first) & (rows < first + _PORTION)]
            if len(portion):
                candidates += evaluator.candidates(failure.state, urgent, failure.statuses, portion)
            yield
            if self._is_late(found=bool(candidates)):
                break
        if not candidates:
            return
        chosen = evaluator.chosen(candidates)[0]
        node, victims = chosen.nominated_node or "", chosen.victims
        pods = tuple(self._table.pods[uid].pod for uid in victims if uid in self._table.pods)
        if not pods:
            gone = tuple(
                info.pod for info in self._table.nodes[self._table.row_of[node]].pods if info.pod.is_terminating
            )
            self._add(Change("wait", f"Wait until pods on node {node} have terminated", pod, victims=gone), node)
            return
        names = ", ".join(each.key for each in pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
        higher = any(each.priority >= pod.priority for each in pods)
        also = ", or give the pod a higher priority" if higher else ""
        self._add(Change("evict", f"Evict {names} from node {node}{also}", pod, victims=pods), node)


def _ungated(pod: Pod) -> Pod:
    """Return the pod without a nomination, which would be evaluated first, and without gates."""
    spec = _replace(pod.spec, scheduling_gates=())
    return _replace(pod, spec=spec, status=_replace(pod.status, nominated_node_name=""))
