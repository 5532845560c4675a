"""Shadow: decides the pods that another scheduler places, and compares the choices.

The other scheduler decided on a state of the cluster that cannot be observed: its binds arrive later and in another
order, because it binds concurrently. So a choice is first judged on the state just before its bind was observed. If the
choice differs there, it is judged on the states that the other scheduler may have had: without some of the changes that
were observed shortly before, and with some of those shortly after. If the choices agree on one of them, the difference
is a race.
"""

from __future__ import annotations

import enum
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.observe.attempt_trace import Evaluation
from mooring.scheduler.engine import Engine
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.sampling import nodes_to_find
from mooring.scheduler.schedule_pod import schedule_pod

#: The number of changes before and after a bind that the other scheduler may have seen later or earlier.
WINDOW: Final = 100

_replace = msgspec.structs.replace


class Verdict(enum.StrEnum):
    """How a choice of the other scheduler compares."""

    AGREES = "agrees"
    #: The node has the highest score, and so have others.
    TIE = "tie"
    #: The node has the highest score on a state that the other scheduler may have had.
    RACE = "race"
    #: The other scheduler examines only some of the nodes, and the node is feasible.
    SAMPLED = "sampled"
    DIFFERS = "differs"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of one decision."""

    pod: str
    uid: str
    scheduler: str
    verdict: Verdict
    #: The node that the other scheduler chose; empty if it found none.
    theirs: str
    #: The node that Mooring chooses: the same if it is among the best; empty if it finds none.
    ours: str
    #: How many nodes have the highest score.
    best: int = 0
    why: str = ""
    time: float = 0.0


class ObservedChange(msgspec.Struct, frozen=True):
    """A change of an object of the cluster."""

    #: The place in the order of observation.
    number: int
    time: float
    old: KubeObject | None
    new: KubeObject | None


class Shadow:
    """Judges the decisions of another scheduler from the changes of a cluster."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        report: Callable[[Judgement], None],
        clock: Callable[[], float],
    ) -> None:
        """``report`` is called with each decision of the schedulers that the configuration has a profile for."""
        self._engine = Engine(config, plugins=plugins, clock=clock, rng=random.Random(0))
        self._report = report
        everywhere = config.percentage_of_nodes_to_score or 0
        self._percentages = {
            each.scheduler_name: everywhere
            if each.percentage_of_nodes_to_score is None
            else each.percentage_of_nodes_to_score
            for each in config.profiles
        }
        self._number = 0
        #: UID -> the number of the change with which a pod was observed for the first time.
        self._arrival: dict[str, int] = {}
        self._past: deque[ObservedChange] = deque(maxlen=WINDOW)
        self._future: deque[ObservedChange] = deque()
        #: The number of decisions by verdict.
        self.counts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
        #: The same for attempts that found no node.
        self.failures: dict[Verdict, int] = dict.fromkeys(Verdict, 0)

    @property
    def kinds(self) -> tuple[type[KubeObject], ...]:
        """The additional kinds that the plugins read."""
        return self._engine.profiles.kinds

    @property
    def needs_finished_pods(self) -> bool:
        """Whether decisions depend on pods that have finished."""
        return False

    @property
    def judged(self) -> int:
        """The number of judged placements."""
        return sum(self.counts.values())

    def start_with(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Apply a change that is not judged: an object that exists at the start."""
        self._arrived(new)
        self._apply(old, new)

    def changed(self, old: KubeObject | None, new: KubeObject | None, time: float) -> None:
        """Take in a change. It is judged by ``judge``."""
        self._arrived(new)
        self._future.append(ObservedChange(self._number, time, old, new))

    def _arrived(self, item: KubeObject | None) -> None:
        self._number += 1
        if isinstance(item, Pod) and not item.node_name:
            self._arrival.setdefault(item.uid, self._number)

    def judge(self, before: float) -> None:
        """Judge the changes that were observed before a time. Later changes serve to identify races."""
        while self._future and self._future[0].time < before:
            change = self._future.popleft()
            self._judge(change)
            self._apply(change.old, change.new)
            self._past.append(change)
            if change.new is None and isinstance(change.old, Pod):
                self._arrival.pop(change.old.uid, None)

    # Judging

    def _judge(self, change: ObservedChange) -> None:
        old, new = change.old, change.new
        if not isinstance(new, Pod) or not (old is None or isinstance(old, Pod)):
            return
        runner = self._engine.profiles.runners.get(new.scheduler_name)
        if runner is None or (old is not None and old.node_name) or new.is_finished:
            return
        if new.node_name:
            pod = old if old is not None else unbound(new)
            self._conclude(runner, pod, new.node_name, change, self.counts)
        elif is_new_failure(change):
            pod = old if old is not None else new
            self._conclude(runner, pod, "", change, self.failures)

    def _conclude(
        self, runner: PluginRunner, pod: Pod, node: str, change: ObservedChange, counts: dict[Verdict, int]
    ) -> None:
        evaluation = self._evaluate(runner, pod)
        best = _best(runner, evaluation)
        if _agrees(node, best):
            verdict, why = (Verdict.AGREES if len(best) <= 1 else Verdict.TIE), ""
        else:
            why = _difference(runner, evaluation, node, best)
            race = self._find_race(runner, pod, node, change)
            if race:
                verdict, why = Verdict.RACE, f"{race} ({why})"
            elif node and self._is_sampled(runner) and _is_feasible(runner, evaluation, node):
                verdict = Verdict.SAMPLED
            else:
                verdict = Verdict.DIFFERS
        ours = node if _agrees(node, best) else (best[0] if best else "")
        self._tell(pod, node, change, verdict, counts=counts, ours=ours, best=len(best), why=why)

    def _tell(
        self,
        pod: Pod,
        theirs: str,
        change: ObservedChange,
        verdict: Verdict,
        *,
        counts: dict[Verdict, int],
        ours: str = "",
        best: int = 0,
        why: str = "",
    ) -> None:
        """Count and report a decision."""
        counts[verdict] += 1
        self._report(
            Judgement(
                pod=pod.key,
                uid=pod.uid,
                scheduler=pod.scheduler_name,
                verdict=verdict,
                theirs=theirs,
                ours=ours,
                best=best,
                why=why,
                time=change.time,
            )
        )

    def _evaluate(self, runner: PluginRunner, pod: Pod) -> Evaluation:
        evaluation = Evaluation(runs_post_filter=False)
        schedule_pod(runner, pod, evaluation)
        return evaluation

    def _is_sampled(self, runner: PluginRunner) -> bool:
        total = len(runner.table)
        return nodes_to_find(total, self._percentages[runner.profile.name]) < total

    # Races

    def _find_race(self, runner: PluginRunner, pod: Pod, node: str, decided: ObservedChange) -> str:
        """Return which other state explains a choice; empty if none does."""
        return self._explaining_state(pod, decided, lambda: _agrees(node, _best(runner, self._evaluate(runner, pod))))

    def _explaining_state(self, pod: Pod, decided: ObservedChange, agrees_now: Callable[[], bool]) -> str:
        """Return the first state that the other scheduler may have had and on which the choices agree, if any."""
        for hidden, shown, told in self._other_states(pod, decided):
            for change in hidden:
                self._apply(change.new, change.old)
            for change in shown:
                self._apply(change.old, change.new)
            agrees = agrees_now()
            for change in reversed(shown):
                self._apply(change.new, change.old)
            for change in reversed(hidden):
                self._apply(change.old, change.new)
            if agrees:
                return told
        return ""

    def _other_states(
        self, pod: Pod, decided: ObservedChange
    ) -> Iterator[tuple[list[ObservedChange], list[ObservedChange], str]]:
        """Yield the changes to take back, newest first, and those to apply early, the likeliest first."""
        past, future = self._changes_around(pod, decided)
        # Binds in the order in which the queue had the pods.
        later = [change for change in past if is_bind(change) and self._queued_before(pod, change.new)]
        earlier = [change for change in future if is_bind(change) and not self._queued_before(pod, change.new)]
        if later or earlier:
            yield _with_later_ones(later, past), earlier, "it was decided in the order of the queue"
        for count in range(1, len(past) + 1):
            yield past[:count], [], before(past[count - 1])
        for count in range(1, len(future) + 1):
            yield [], future[:count], after(future[count - 1])
        for change in past:
            yield _with_later_ones([change], past), [], before(change)
        for change in future:
            yield [], [change], after(change)
        for change in past:
            hidden = _with_later_ones([change], past)
            for other in future[:10]:
                yield hidden, [other], f"it was decided before {_told(change)} and after {_told(other)}"

    def _changes_around(self, pod: Pod, decided: ObservedChange) -> tuple[list[ObservedChange], list[ObservedChange]]:
        """Return the changes before a decision, newest first, and those after it that may have preceded it."""
        arrival = self._arrival.get(pod.uid, 0)
        past = [change for change in reversed(self._past) if change.number > arrival and _matters(change, pod)]
        future = [change for change in self._future if self._may_precede(change, decided) and _matters(change, pod)]
        return past, future[:WINDOW]

    def _may_precede(self, change: ObservedChange, decided: ObservedChange) -> bool:
        """Return whether the other scheduler may have known a change that was observed after its decision.

        It knows the binds that it has not sent yet. Changes of different kinds arrive in any order. But other changes
        of pods were made after the bind.
        """
        new = change.new
        if isinstance(new, Pod):
            return is_bind(change) and self._arrival.get(new.uid, 0) < decided.number
        return not isinstance(change.old, Pod)

    def _queued_before(self, pod: Pod, other: KubeObject | None) -> bool:
        """Return whether the queue had a pod before another: by priority, then by the time of arrival."""
        assert isinstance(other, Pod)
        mine, others = (self._arrival.get(each.uid, 0) for each in (pod, other))
        return (-pod.priority, mine) < (-other.priority, others)

    def _apply(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Replace an object in the cache: by another version, or by none."""
        cache = self._engine.cache
        if new is None:
            if old is not None:
                cache.remove(old)
            return
        if isinstance(old, Pod) and isinstance(new, Pod):
            if old.node_name and not new.node_name:
                cache.remove(old)
            if not new.status.nominated_node_name:
                cache.nominator.remove(new.uid)
        cache.put(new)


def _agrees(node: str, best: list[str]) -> bool:
    return node in best if node else not best


def _best(runner: PluginRunner, evaluation: Evaluation) -> list[str]:
    """Return the nodes with the highest score."""
    nodes = runner.table.nodes
    if evaluation.nominated:
        return [evaluation.node_name]
    if not len(evaluation.feasible):
        return []
    totals = evaluation.totals
    return [nodes[row].name for row in evaluation.feasible[totals == totals.max()].tolist()]


def _is_feasible(runner: PluginRunner, evaluation: Evaluation, node: str) -> bool:
    row = runner.table.row_of.get(node)
    return row is not None and row in evaluation.feasible.tolist()


def _difference(runner: PluginRunner, evaluation: Evaluation, node: str, best: list[str]) -> str:
    """Return why Mooring does not choose a node."""
    table = runner.table
    if not node:
        return f"{best[0]} passes all filters" if best else ""
    row = table.row_of.get(node)
    if row is None:
        return f"there is no node {node}"
    rows = evaluation.feasible.tolist()
    if row not in rows:
        if not evaluation.pre_filter.is_success:
            return f"{evaluation.pre_filter.plugin}: {evaluation.pre_filter.message}"
        if evaluation.statuses is not None:
            for status, rejected in evaluation.statuses.groups():
                if row in rejected.tolist():
                    return f"{status.plugin} rejects {node}: {status.message}"
        return f"a plugin rejects {node}"
    if not best:
        return ""
    theirs, ours = rows.index(row), rows.index(table.row_of[best[0]])
    parts = [
        f"{plugin} {int(scores[theirs])} and {int(scores[ours])}"
        for plugin, scores in evaluation.scores.items()
        if scores[theirs] != scores[ours]
    ]
    totals = evaluation.totals
    return f"{node} has {int(totals[theirs])} and {best[0]} {int(totals[ours])} points: {', '.join(parts)}"


# Pods and changes


def unbound(pod: Pod) -> Pod:
    """Return a pod without its node."""
    return _replace(pod, spec=_replace(pod.spec, node_name=""))


def is_new_failure(change: ObservedChange) -> bool:
    """Return whether a change says that a scheduler found no node for a pod."""
    old, new = change.old, change.new
    if not isinstance(new, Pod) or not _is_unschedulable(new):
        return False
    return not isinstance(old, Pod) or _failed_at(old) != _failed_at(new)


def _is_unschedulable(pod: Pod) -> bool:
    found = pod.condition("PodScheduled")
    return found is not None and found.status == "False" and found.reason == "Unschedulable"


def _failed_at(pod: Pod) -> tuple[Any, ...]:
    found = pod.condition("PodScheduled")
    return () if found is None else (found.status, found.reason, found.message)


def is_bind(change: ObservedChange) -> bool:
    """Return whether a pod got its node."""
    old, new = change.old, change.new
    return isinstance(new, Pod) and bool(new.node_name) and (not isinstance(old, Pod) or not old.node_name)


def is_equivalent(old: Pod, new: Pod) -> bool:
    """Return whether two versions of a pod count the same in decisions about other pods."""
    same = old.node_name == new.node_name and old.labels == new.labels and old.spec == new.spec
    nominated = old.status.nominated_node_name != new.status.nominated_node_name
    return same and not nominated and old.is_terminating == new.is_terminating


def _with_later_ones(changes: list[ObservedChange], past: list[ObservedChange]) -> list[ObservedChange]:
    """Return past changes with the later ones of the same objects, newest first.

    Only together can they be taken back: a pod that was bound and then deleted would be bound again afterwards.
    """
    oldest: dict[str, int] = {}
    for change in changes:
        oldest[_uid(change)] = min(change.number, oldest.get(_uid(change), change.number))
    return [each for each in past if each.number >= oldest.get(_uid(each), each.number + 1)]


def _uid(change: ObservedChange) -> str:
    item = change.new if change.new is not None else change.old
    assert item is not None
    return item.uid or f"{item.kind} {item.namespace}/{item.name}"


def _matters(change: ObservedChange, pod: Pod) -> bool:
    """Return whether decisions about a pod may depend on a change."""
    old, new = change.old, change.new
    if isinstance(old, Pod) and isinstance(new, Pod):
        return new.uid != pod.uid and not is_equivalent(old, new)
    item = new if new is not None else old
    if isinstance(item, Pod):
        return item.uid != pod.uid and bool(item.node_name or item.status.nominated_node_name)
    return True


def before(change: ObservedChange) -> str:
    """Return the explanation that a decision was made before a change."""
    return f"it was decided before {_told(change)}"


def after(change: ObservedChange) -> str:
    """Return the explanation that a decision was made after a change."""
    return f"it was decided after {_told(change)}"


def _told(change: ObservedChange) -> str:
    item = change.new if change.new is not None else change.old
    assert item is not None
    what = "was deleted" if change.new is None else "was bound" if is_bind(change) else "changed"
    return f"{item.kind} {item.namespace}/{item.name} {what}".replace(" /", " ")
