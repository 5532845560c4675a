"""An attempt that extenders have a say in: the cycle's steps, with questions in between.

It is a generator. It hands out questions, is sent the replies in the same order, and in the end returns what the cycle
would have returned. Whoever drives it sees to it that the cluster does not change under it meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import perf_counter
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import structlog

from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo
from mooring.framework.preemption.candidate import Candidate
from mooring.framework.state import CycleState
from mooring.framework.status import Status
from mooring.observe.attempt_trace import Said
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.cycle import Cycle, Diagnosis, Placement, Unplaced, broken_off, no_nodes
from mooring.scheduler.extenders import replies
from mooring.scheduler.extenders.extender import Extender
from mooring.scheduler.extenders.question import Question, Reply
from mooring.scheduler.extenders.replies import ExtenderError
from mooring.scheduler.profile import EXTENDER
from mooring.scheduler.scoring import MAX_NODE_SCORE, pick

T = TypeVar("T")
#: Questions come out, replies go in, a T is returned.
Steps = Generator[tuple[Question, ...], tuple[Reply, ...], T]
Rows = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]

#: The best score an extender gives, which counts as much as the best of a plugin.
_MAX_EXTENDER_PRIORITY = 10

log = structlog.get_logger("mooring.scheduler")


class ExtendedAttempt:
    """One attempt on behalf of a pod that some extenders are interested in."""

    def __init__(self, cycle: Cycle, extenders: Sequence[Extender], pod: Pod) -> None:
        self._cycle = cycle
        self._extenders = extenders
        self._pod = pod
        self._state = CycleState()
        #: The extenders' verdicts, by node name; the last one counts.
        self._verdicts: dict[str, Status] = {}

    def steps(self) -> Steps[Placement | Unplaced]:
        """The attempt, from question to question."""
        if not len(self._cycle.table):
            return no_nodes(self._state)
        try:
            return (yield from self._schedule())
        except PluginFailure as broken:
            return broken_off(broken, self._state)

    def _schedule(self) -> Steps[Placement | Unplaced]:
        cycle, state, pod = self._cycle, self._state, self._pod
        before = cycle.pre_filter(state, pod)
        trace = cycle.trace
        if trace is not None:
            trace.pre_filtered = perf_counter()
        if not before.status.is_success:
            return (yield from self._unplaced(cycle.diagnosis(state, pod, before, None)))
        nominated = yield from self._nominated()
        if nominated is not None:
            return nominated
        template = cycle.table.template(pod)
        found = cycle.find(state, pod, template, cycle.rows_of(before.names), sample=True)
        feasible = np.arange(len(cycle.table)) if found.rows is None else found.rows
        rows = yield from self._filter(feasible)
        if trace is not None:
            trace.filtered = perf_counter()
        if not len(rows):
            diagnosis = cycle.diagnosis(state, pod, before, found.looked_at)
            return (yield from self._unplaced(self._with_verdicts(diagnosis, rejected=len(feasible) > 0)))
        row = int(rows[0]) if len(rows) == 1 else (yield from self._best(rows))
        return Placement(cycle.table.nodes[row].name, state, found.examined, len(rows))

    def _nominated(self) -> Steps[Placement | None]:
        """The node that room was made on, if plugins and extenders agree to it now."""
        cycle = self._cycle
        node = cycle.nominated(self._state, self._pod)
        if node is None:
            return None
        try:
            rows = yield from self._filter(np.array([node.row]))
        except PluginFailure:
            return None  # as kube-scheduler: the other nodes are tried before anything is reported
        return Placement(node.name, self._state, 1, 1) if len(rows) else None

    # Filter

    def _filter(self, rows: Rows) -> Steps[Rows]:
        """The rows that all extenders agree to, one extender after the other."""
        for extender in self._extenders:
            if not len(rows):
                break
            if not extender.filters:
                continue
            nodes = self._nodes(rows)
            (reply,) = yield (extender.filter(self._pod, nodes),)
            try:
                answer = extender.read_filtered(reply)
                rows = self._left(extender, nodes, answer)
            except ExtenderError as error:
                self._failed(extender, "filter", error)
                if not extender.ignorable:
                    raise PluginFailure(Status.error(str(error)).by(extender.name)) from None
                continue
            rejected = {name: Status.unschedulable(why).by(extender.name) for name, why in answer.failed.items()}
            for name, why in answer.unresolvable.items():
                rejected[name] = Status.unresolvable(why).by(extender.name)
            self._verdicts |= rejected
            self._note(Said(extender.name, "filter", rejected=rejected))
        return rows

    @staticmethod
    def _left(extender: Extender, nodes: Sequence[NodeInfo], answer: replies.Filtered) -> Rows:
        """The rows of the nodes that an extender named, which must be some of those it was asked about."""
        row_of = {node.name: node.row for node in nodes}
        for name in answer.names or ():
            if name not in row_of:
                raise ExtenderError(
                    f'extender "{extender.name}" claims a filtered node "{name}" '
                    "which is not found in the input node list"
                )
        return np.array([row_of[name] for name in dict.fromkeys(answer.names or ())], dtype=np.intp)

    def _with_verdicts(self, diagnosis: Diagnosis, *, rejected: bool) -> Diagnosis:
        """The plugins' verdicts with those of the extenders, which go before them."""
        for name, status in self._verdicts.items():
            diagnosis.statuses.set_by_name(name, status)
        rejectors = diagnosis.rejectors | {EXTENDER} if rejected else diagnosis.rejectors
        return msgspec.structs.replace(diagnosis, rejectors=rejectors)

    # Prioritize

    def _best(self, rows: Rows) -> Steps[int]:
        """The row with the highest sum of plugins' and extenders' scores."""
        cycle, state, pod, trace = self._cycle, self._state, self._pod, self._cycle.trace
        template = cycle.table.template(pod)
        totals, same = cycle.scoring.totals(state, pod, template, rows, trace)
        totals = totals.copy()
        asked = [extender for extender in self._extenders if extender.prioritizes]
        nodes = self._nodes(rows)
        answers = (yield tuple(extender.prioritize(pod, nodes) for extender in asked)) if asked else ()
        place_of = {node.name: place for place, node in enumerate(nodes)}
        for extender, reply in zip(asked, answers, strict=True):
            scores = self._scores(extender, reply, place_of)
            if scores is not None:
                totals += scores
                cycle.scoring.note(extender.name, scores)
        place = pick(totals, cycle.handle.random)
        if trace is not None:
            trace.scored = perf_counter()
            if trace.ranks:
                cycle.scoring.rank(trace, state, pod, template, rows, totals, same, place)
        return int(rows[place])

    def _scores(self, extender: Extender, reply: Reply, place_of: dict[str, int]) -> Ints | None:
        """What an extender's scores add to the totals; None if it gave none, which nobody minds."""
        scores = np.zeros(len(place_of), dtype=np.int64)
        try:
            for name, score in replies.read_priorities(reply):
                place = place_of.get(name)
                if place is not None:
                    weighed = score * extender.weight * (MAX_NODE_SCORE // _MAX_EXTENDER_PRIORITY)
                    scores[place] = _int64(int(scores[place]) + weighed)
        except ExtenderError as error:
            self._failed(extender, "prioritize", error)
            return None
        self._note(
            Said(extender.name, "prioritize", scores={name: int(scores[place]) for name, place in place_of.items()})
        )
        return scores

    # PostFilter

    def _unplaced(self, diagnosis: Diagnosis) -> Steps[Unplaced]:
        cycle, state, pod = self._cycle, self._state, self._pod
        if cycle.trace is not None:
            cycle.trace.post_filter_started = perf_counter()
        steps = cycle.post_filtering(state, pod, diagnosis.statuses)
        try:
            ask = next(steps)
            while True:
                left = yield from self._preempt(ask.candidates)
                ask = steps.send(left)
        except StopIteration as done:
            result, post = done.value
        return cycle.turned_down(state, diagnosis, result, post)

    def _preempt(self, candidates: Sequence[Candidate]) -> Steps[Sequence[Candidate] | Status]:
        """The candidates that extenders leave, with the victims that they want; or what went wrong."""
        nodes = self._cycle.table.nodes
        left = {nodes[each.row].name: each for each in candidates}
        for extender in self._extenders:
            if not extender.preempts:
                continue
            (reply,) = yield (extender.preempt(self._pod, tuple(left.items())),)
            try:
                left = self._victims(extender, replies.read_victims(reply))
            except ExtenderError as error:
                self._failed(extender, "preempt", error)
                if not extender.ignorable:
                    return Status.error(str(error))
                continue
            self._note(Said(extender.name, "preempt"))
            if not left:
                break
        return tuple(left.values())

    def _victims(self, extender: Extender, answer: dict[str, replies.MetaVictims]) -> dict[str, Candidate]:
        table = self._cycle.table
        found = {}
        for name, victims in answer.items():
            row = table.row_of.get(name)
            if row is None:
                raise ExtenderError(f'nodeinfo not found for node name "{name}"')
            pods = {info.pod.uid: info for info in table.nodes[row].pods}
            missing = next((uid for uid in victims.uids if uid not in pods), None)
            if missing is not None:
                raise ExtenderError(
                    f"extender: {extender.name} claims to preempt pod (UID: &{{{missing}}}) on node: {name}, "
                    "but the pod is not found on that node"
                )
            if not victims.uids:
                if not extender.ignorable:
                    raise ExtenderError(f'expected at least one victim pod on node "{name}"')
                continue
            found[name] = Candidate(row, tuple(pods[uid] for uid in victims.uids), victims.violations)
        return found

    # Helpers

    def _note(self, said: Said) -> None:
        if self._cycle.trace is not None:
            self._cycle.trace.said += (said,)

    def _nodes(self, rows: Rows) -> list[NodeInfo]:
        nodes = self._cycle.table.nodes
        return [nodes[row] for row in rows.tolist()]

    def _failed(self, extender: Extender, verb: str, error: ExtenderError) -> None:
        self._note(Said(extender.name, verb, error=str(error)))
        if extender.ignorable and verb != "prioritize":
            log.info(
                "Skipping extender as it returned error and has ignorable flag set",
                pod=self._pod.key,
                extender=extender.name,
                verb=verb,
                err=str(error),
            )


def _int64(value: int) -> int:
    """A number as 64 bits hold it: too large ones wrap around, as in Go."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
