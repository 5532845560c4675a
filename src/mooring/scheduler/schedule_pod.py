"""SchedulePod: the search for a node for one pod.

It is a generator without I/O: it yields requests to extenders, is sent the replies in the same order, and returns the
node or the reason why there is none. If no extender is interested in the pod, it never yields.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo
from mooring.columns.nodes import Nodes
from mooring.framework.node_statuses import NodeStatuses, fit_message
from mooring.framework.preemption.candidate import Candidate
from mooring.framework.state import CycleState
from mooring.framework.status import NO_NOMINATION, Code, PostFilterResult, Status
from mooring.logs import get_logger
from mooring.observe.attempt_trace import Evaluation, ExtenderCall
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult, early_failure
from mooring.scheduler.extenders import Extender, ExtenderError, Steps
from mooring.scheduler.plugin_runner import Filtered, PluginRunner, PreFiltered
from mooring.scheduler.profile import EXTENDER
from mooring.scheduler.scoring import Totals

T = TypeVar("T")
Rows = npt.NDArray[np.intp]

log = get_logger("mooring.scheduler")


class Diagnosis(msgspec.Struct, frozen=True):
    """The reasons why no node is feasible."""

    statuses: NodeStatuses
    #: The message of PreFilter, if PreFilter rejected the pod.
    pre_filter_message: str = ""
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


def run_without_extenders(steps: Steps[T]) -> T:
    """Run an attempt without extenders to its end."""
    try:
        next(steps)
    except StopIteration as done:
        outcome: T = done.value
        return outcome
    raise RuntimeError("a PostFilter plugin requested extenders, but none is interested in the pod")


def schedule_pod(
    runner: PluginRunner, pod: Pod, evaluation: Evaluation | None = None
) -> ScheduleResult | ScheduleFailure:
    """Find a node for a pod without extenders."""
    return run_without_extenders(SchedulePod(runner, pod, evaluation=evaluation).steps())


class SchedulePod:
    """The search for a node for one pod: filter, score, select; or PostFilter if no node is feasible."""

    __slots__ = (
        "_evaluation",
        "_extender_statuses",
        "_extenders",
        "_in_group",
        "_pod",
        "_rows",
        "_runner",
        "_trace",
        "state",
    )

    def __init__(
        self,
        runner: PluginRunner,
        pod: Pod,
        extenders: Sequence[Extender] = (),
        evaluation: Evaluation | None = None,
        *,
        in_group: bool = False,
        rows: Rows | None = None,
    ) -> None:
        """With ``evaluation``, run all plugins on all nodes and record their answers there.

        ``in_group`` is true in the cycle of a group: PostFilter does not run for its pods. ``rows`` restricts the
        attempt to the nodes of a placement.
        """
        self._runner = runner
        self._pod = pod
        self._extenders = extenders
        self._evaluation = evaluation
        self._in_group = in_group
        self._rows = rows
        self._trace = runner.trace if evaluation is None else None
        self.state = CycleState()
        #: The extenders' statuses, by node name; the last one counts.
        self._extender_statuses: dict[str, Status] | None = None

    def steps(self) -> Steps[ScheduleResult | ScheduleFailure]:
        """Run the attempt, yielding requests to extenders."""
        runner, state, pod, trace, table = self._runner, self.state, self._pod, self._trace, self._runner.table
        evaluation, extenders = self._evaluation, self._extenders
        foreign = pod.spec.scheduling_group is not None and not self._in_group
        if foreign or (not table.nodes and evaluation is None):
            return early_failure(pod, state, in_group=self._in_group)
        try:
            pre_filtered = runner.pre_filter(state, pod)
            if trace is not None:
                trace.pre_filtered = perf_counter()
            if evaluation is not None:
                evaluation.pre_filter, evaluation.pre_filter_nodes = pre_filtered.status, pre_filtered.names
            if not pre_filtered.status.is_success:
                return (yield from self._post_filter(self._pre_filter_diagnosis(pre_filtered.status)))

            name, node = pod.status.nominated_node_name or runner.handle.nominator.node_of(pod.uid), None
            if name:
                node = self._nominated_node(name) if self._contains(name) else None
                if node is not None and extenders and not (yield from self._extenders_accept(node)):
                    node = None
                if node is not None and evaluation is None:
                    return ScheduleResult(node.name, state, 1, 1)

            template, among = table.templates.of(pod), self._among(pre_filtered)
            if evaluation is None:
                filtered = runner.filter(state, pod, template, among, sample=bool(extenders))
            else:
                filtered = self._evaluate_filters(evaluation, pre_filtered, among)
            rows = filtered.rows
            if extenders:
                rows = yield from self._filter_with_extenders(np.arange(len(table)) if rows is None else rows)
            if trace is not None:
                trace.filtered = perf_counter()
            count = len(table.nodes) if rows is None else len(rows)
            if count == 0:
                return (yield from self._post_filter(self._filter_diagnosis(pre_filtered, filtered)))

            if evaluation is not None:
                row = self._evaluate_scores(evaluation)
                row = row if node is None else node.row
                evaluation.node_name, evaluation.nominated = table.nodes[row].name, node is not None
            elif count == 1 or not (runner.profile.scorers or extenders):
                row = 0 if rows is None else int(rows[0])
            else:
                totals = runner.scoring.totals(state, pod, template, rows, trace)
                if extenders and rows is not None:
                    totals = yield from self._add_extender_scores(rows, totals)
                place = runner.selection.pick_place(totals)
                row = place if totals.rows is None else int(totals.rows[place])
                if trace is not None:
                    trace.scored = perf_counter()
                    if trace.ranks:
                        runner.scoring.rank(trace, template, totals, place)
            return ScheduleResult(table.nodes[row].name, state, filtered.examined, count)
        except PluginFailure as error:
            # As in kube-scheduler, the pod loses its nomination.
            return ScheduleFailure(error.status.message, error.status, state, result=NO_NOMINATION)

    def _among(self, pre_filtered: PreFiltered) -> Rows | None:
        """Return the rows that PreFilter left, within the placement; None for all."""
        among, rows = self._runner.rows_of(pre_filtered.names), self._rows
        return among if rows is None else rows if among is None else np.intersect1d(among, rows)

    # The nominated node

    def _contains(self, name: str) -> bool:
        return self._rows is None or self._runner.table.row_of.get(name) in self._rows

    def _nominated_node(self, name: str) -> NodeInfo | None:
        """Return the node nominated by an earlier preemption, if it passes the Filter plugins now."""
        runner = self._runner
        row = runner.table.row_of.get(name)
        if row is None:
            return None
        node = runner.table.nodes[row]
        try:
            status = runner.filter_node(self.state, self._pod, node)
        except PluginFailure:
            return None  # as in kube-scheduler: errors are reported only if they recur with the other nodes
        return node if status.is_success else None

    def _extenders_accept(self, node: NodeInfo) -> Steps[bool]:
        try:
            return len((yield from self._filter_with_extenders(np.array([node.row])))) > 0
        except PluginFailure:
            return False  # as above

    # Filter

    def _evaluate_filters(self, evaluation: Evaluation, pre_filtered: PreFiltered, among: Rows | None) -> Filtered:
        """Run the Filter plugins on all nodes and record each node's status."""
        runner = self._runner
        statuses, rows = runner.filtering.diagnose(
            self.state, self._pod, among, pre_filtered.absent_status, keep_errors=True
        )
        evaluation.examined = list(range(len(runner.table))) if among is None else among.tolist()
        evaluation.statuses, evaluation.feasible = statuses, rows
        error = next((status for status, _ in statuses.groups() if status.code is Code.ERROR), None)
        if error is not None:
            evaluation.aborted = True
            raise PluginFailure(error)
        return Filtered(rows, len(evaluation.examined), among)

    def _filter_with_extenders(self, rows: Rows) -> Steps[Rows]:
        """Return the rows that pass all extenders, called one after another."""
        for extender in self._extenders:
            if not len(rows):
                break
            if not extender.filters:
                continue
            nodes = self._nodes(rows)
            try:
                passed, rejected = yield from extender.filter(self._pod, nodes)
            except ExtenderError as error:
                self._extender_failed(extender, "filter", error)
                if not extender.ignorable:
                    raise PluginFailure(Status.error(str(error)).by(extender.name)) from None
                continue
            rows = np.array(passed, dtype=np.intp)
            self._extender_statuses = (self._extender_statuses or {}) | rejected
            self._record(ExtenderCall(extender.name, "filter", rejected=rejected))
        return rows

    # Score

    def _evaluate_scores(self, evaluation: Evaluation) -> int:
        """Record every plugin's score of every feasible node; return the first row with the highest total."""
        runner, rows = self._runner, evaluation.feasible
        runner.scoring.pre_score(self.state, self._pod, Nodes(runner.table, rows))
        evaluation.scores = runner.scoring.by_plugin(self.state, self._pod, rows)
        return int(rows[evaluation.totals.argmax()])

    def _add_extender_scores(self, rows: Rows, totals: Totals) -> Steps[Totals]:
        """Add the scores of all extenders, which are called concurrently. Errors are ignored, as upstream does."""
        called = [extender for extender in self._extenders if extender.prioritizes]
        nodes = self._nodes(rows)
        values = totals.values.copy() if totals.rows is rows else totals.values[rows]
        replies = (yield tuple(extender.prioritize(self._pod, nodes) for extender in called)) if called else ()
        for extender, reply in zip(called, replies, strict=True):
            try:
                scores = extender.scores(reply, nodes)
            except ExtenderError as error:
                self._extender_failed(extender, "prioritize", error)
                continue
            values += scores
            self._runner.scoring.note(extender.name, scores)
            by_node = {node.name: int(score) for node, score in zip(nodes, scores, strict=True)}
            self._record(ExtenderCall(extender.name, "prioritize", scores=by_node))
        return Totals(values, totals.same, rows)

    # No feasible node

    def _pre_filter_diagnosis(self, status: Status) -> Diagnosis:
        rejectors = frozenset((status.plugin,)) if status.plugin else frozenset()
        return Diagnosis(NodeStatuses(self._runner.table, status, self._rows), status.message, rejectors)

    def _filter_diagnosis(self, pre_filtered: PreFiltered, filtered: Filtered) -> Diagnosis:
        """Attribute each examined node to the first plugin, or the last extender, that rejected it."""
        evaluation = self._evaluation
        if evaluation is not None and evaluation.statuses is not None and not self._extenders:
            statuses, passed = evaluation.statuses, evaluation.feasible
        else:
            statuses, passed = self._runner.filtering.diagnose(
                self.state, self._pod, filtered.examined_rows, pre_filtered.absent_status
            )
        statuses.among = self._rows
        rejectors, pending = statuses.plugins(), statuses.plugins(pending=True)
        rejectors |= frozenset(pre_filtered.narrowed_by)
        for name, status in (self._extender_statuses or {}).items():
            statuses.set_by_name(name, status)
        if self._extenders and len(passed):
            rejectors |= {EXTENDER}
        return Diagnosis(statuses, "", rejectors, pending)

    def _post_filter(self, diagnosis: Diagnosis) -> Steps[ScheduleFailure]:
        """Run PostFilter (preemption), with the extenders that take part in it."""
        if self._trace is not None:
            self._trace.post_filter_started = perf_counter()
        result, status = (PostFilterResult() if self._in_group else NO_NOMINATION), None
        if not self._in_group and (self._evaluation is None or self._evaluation.runs_post_filter):
            result, status = yield from self._run_post_filter(diagnosis.statuses)
        after = status.message if status is not None else ""
        total = len(self._runner.table) if self._rows is None else len(self._rows)
        message = fit_message(total, diagnosis.statuses, diagnosis.pre_filter_message, after)
        return ScheduleFailure(
            message,
            Status.unschedulable(message),
            self.state,
            diagnosis.statuses,
            status,
            result,
            diagnosis.rejectors,
            diagnosis.pending,
        )

    def _run_post_filter(self, statuses: NodeStatuses) -> Steps[tuple[PostFilterResult, Status | None]]:
        plugins = self._runner.post_filter(self.state, self._pod, statuses)
        try:
            candidates = next(plugins)
            while True:
                candidates = plugins.send((yield from self._preempt_with_extenders(candidates)))
        except StopIteration as done:
            outcome: tuple[PostFilterResult, Status | None] = done.value
            return outcome

    def _preempt_with_extenders(self, candidates: Sequence[Candidate]) -> Steps[Sequence[Candidate] | Status]:
        """Return the candidates that the extenders keep, with their victims; or an error."""
        table = self._runner.table
        left = {table.nodes[each.row].name: each for each in candidates}
        for extender in self._extenders:
            if not extender.preempts:
                continue
            try:
                left = yield from extender.preempt(self._pod, left, table)
            except ExtenderError as error:
                self._extender_failed(extender, "preempt", error)
                if not extender.ignorable:
                    return Status.error(str(error))
                continue
            self._record(ExtenderCall(extender.name, "preempt"))
            if not left:
                break
        return tuple(left.values())

    def _nodes(self, rows: Rows) -> list[NodeInfo]:
        nodes = self._runner.table.nodes
        return [nodes[row] for row in rows.tolist()]

    def _record(self, call: ExtenderCall) -> None:
        if self._trace is not None:
            self._trace.extender_calls += (call,)

    def _extender_failed(self, extender: Extender, verb: str, error: ExtenderError) -> None:
        self._record(ExtenderCall(extender.name, verb, error=str(error)))
        if extender.ignorable and verb != "prioritize":
            log.info(
                "Skipping extender as it returned error and has ignorable flag set",
                pod=self._pod.key,
                extender=extender.name,
                verb=verb,
                err=str(error),
            )


def evaluate_pod(runner: PluginRunner, pod: Pod) -> tuple[ScheduleResult | ScheduleFailure, Evaluation]:
    """Find a node for a pod without consequences, and return the answers of all plugins.

    PostFilter does not run. The random source is left as it was, so that further decisions are the same as without it.
    """
    rng = runner.handle.random
    before = rng.getstate()
    evaluation = Evaluation(runs_post_filter=False)
    try:
        return schedule_pod(runner, pod, evaluation), evaluation
    finally:
        rng.setstate(before)
