"""The preemption evaluator: from the statuses of a failed attempt to a node and its victims."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget
from mooring.columns.node_info import NodeInfo
from mooring.framework.handle import Handle
from mooring.framework.node_statuses import NodeStatuses, fit_message
from mooring.framework.preemption.budgets import Budgets
from mooring.framework.preemption.candidate import AskExtenders, Candidate, best
from mooring.framework.preemption.search import can_search_together, search_one, search_together
from mooring.framework.preemption.victims import PodVictims
from mooring.framework.state import CycleState
from mooring.framework.status import Code, PostFilterResult, Status

Rows = npt.NDArray[np.intp]
_NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")
_UNTOUCHED = PostFilterResult()


class VictimRules(Protocol):
    """Rules that select victims by something other than lower priority."""

    def refusal(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> str:
        """Return why the pod may not preempt (now); empty if it may."""

    def select(self, state: CycleState, pod: Pod, node: NodeInfo, budgets: Budgets) -> Candidate | Status:
        """Return the pods to evict from a node, or why that does not help. Clone the state, do not change it."""


class Evaluator:
    """Preemption for ``post_filter``: finds the node where evicting pods does the least harm, as kube-scheduler does.

    ```python
    def post_filter(self, state, pod, statuses):
        return Evaluator(self.handle).preempt(state, pod, statuses)
    ```
    """

    def __init__(
        self, handle: Handle, wanted: Callable[[int], int] | None = None, *, rules: VictimRules | None = None
    ) -> None:
        """Create an evaluator.

        Args:
            handle: The plugin's handle.
            wanted: Returns how many candidate nodes are enough, given the number of nodes; by default all.
            rules: Rules that select the victims; by default they are pods with a lower priority.
        """
        self._handle = handle
        self._wanted = wanted
        self._rules = rules
        self._victims = PodVictims(handle)

    def preempt(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses, *, rows: Rows | None = None
    ) -> tuple[PostFilterResult, Status] | AskExtenders:
        """Return the nominated node and the victims, or why preemption does not help.

        ``rows`` are the nodes where evicting pods might help; by default those that a plugin rejected as Unschedulable.
        If an extender supports preemption, the result is a request to it; return it from ``post_filter`` unchanged.
        """
        rules = self._rules
        refusal = self._ineligible(pod, statuses) if rules is None else rules.refusal(state, pod, statuses)
        if refusal:
            return _UNTOUCHED, Status.unschedulable(refusal)
        if not len(self._handle.table):
            return _UNTOUCHED, Status.error("no nodes available")
        outcome = NodeStatuses(self._handle.table, _NOT_HELPFUL)
        extenders = self._handle.extenders
        asked = extenders is not None and extenders.weigh_victims(pod)
        rows = statuses.rows_with(Code.UNSCHEDULABLE) if rows is None else rows
        found = self._candidates(state, pod, rows, outcome, every=asked)
        if found:
            return AskExtenders(tuple(found), self.chosen) if asked else self.chosen(found)
        errors = sorted(status.message for status, _ in outcome.groups() if status.code is Code.ERROR)
        if errors:
            return _UNTOUCHED, Status.error(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        text = fit_message(len(self._handle.table), outcome)
        return PostFilterResult(nominated_node=""), Status.unschedulable(text)

    def candidates(self, state: CycleState, pod: Pod, statuses: NodeStatuses, rows: Rows) -> list[Candidate]:
        """Return candidates among some rows that include the best one, for a search that pauses between rows.

        There are none if preemption is refused, or if an extender would be asked about the victims.
        """
        extenders = self._handle.extenders
        refused = self._rules is None and self._ineligible(pod, statuses)
        if refused or (extenders is not None and extenders.weigh_victims(pod)):
            return []
        return self._candidates(state, pod, rows, NodeStatuses(self._handle.table, _NOT_HELPFUL), every=False)

    def chosen(self, left: Sequence[Candidate] | Status) -> tuple[PostFilterResult, Status]:
        """Return the best of the remaining candidates."""
        if isinstance(left, Status):
            return _UNTOUCHED, left
        if not left:
            return _UNTOUCHED, Status.unschedulable("no candidate node for preemption")
        chosen = best(left, self._handle.clock())
        name = self._handle.table.nodes[chosen.row].name
        # Terminating pods need not be evicted again, unless custom rules select them.
        told = self._rules is not None
        leaving = tuple(info.pod.uid for info in chosen.victims if told or not info.pod.is_terminating)
        status = Status()
        if self._rules is None and self._handle.release.preemption_reports_success:
            count = len(chosen.victims)
            text = f"found a potential placement for pod on node {name}, preempting {count} victims"
            status = Status(Code.SUCCESS, (text,))
        return PostFilterResult(name, leaving), status

    def _ineligible(self, pod: Pod, statuses: NodeStatuses) -> str:
        if not pod.may_preempt:
            return "not eligible due to preemptionPolicy=Never."
        table = self._handle.table
        # The nomination in memory is newer than the one on the API server.
        name = self._handle.nominator.node_of(pod.uid) or pod.status.nominated_node_name
        row = table.row_of.get(name) if name else None
        if row is None or statuses.of_row(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        if is_being_emptied(table.nodes[row], pod.priority, table.evicting, self._victims):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _candidates(
        self, state: CycleState, pod: Pod, rows: Rows, outcome: NodeStatuses, *, every: bool
    ) -> list[Candidate]:
        """Return candidates that include the best one; all candidates found, with ``every``."""
        handle = self._handle
        if not len(rows):
            return []
        wanted = len(rows)
        if self._wanted is not None:
            wanted = self._wanted(len(rows))
            offset = handle.random.randrange(len(rows))
            rows = np.concatenate((rows[offset:], rows[:offset]))
        budgets = Budgets(
            handle.lister(PodDisruptionBudget).list(), stops_at_violation=handle.release.stops_at_violated_budget
        )
        together = self._rules is None and can_search_together(handle.runner.filter_plugins(state))
        found: list[Candidate] = []
        count, harmless = 0, False
        # Search in batches, since the search ends once there are enough candidates.
        size = max(wanted, 64) if together else 16
        for start in range(0, len(rows), size):
            portion = rows[start : start + size]
            crowded = self._crowded(portion) if together else portion
            if together:
                rest = portion[~np.isin(portion, crowded)] if len(crowded) else portion
                harvest = search_together(handle, state, pod, rest, budgets, outcome, every=every)
                count, harmless = count + harvest.count, harmless or harvest.harmless
                found += harvest.candidates
            for row in crowded.tolist():
                result = self._search_one(state, pod, handle.table.nodes[row], budgets)
                if isinstance(result, Candidate):
                    found.append(result)
                    count, harmless = count + 1, harmless or not result.violations
                else:
                    outcome.set(row, result)
            if harmless and count >= wanted:
                break
        return found

    def _search_one(self, state: CycleState, pod: Pod, node: NodeInfo, budgets: Budgets) -> Candidate | Status:
        if self._rules is not None:
            return self._rules.select(state, pod, node, budgets)
        return search_one(self._handle, state, pod, node, budgets, self._victims)

    def _crowded(self, rows: Rows) -> Rows:
        """Return the rows that have nominated pods, or pods of groups, which must be simulated one by one."""
        handle, single = self._handle, self._victims.rows_with_groups()
        if handle.nominator:
            known = (handle.table.row_of.get(name) for name in handle.nominator.nodes())
            single += [row for row in known if row is not None]
        return rows[np.isin(rows, single)] if single else rows[:0]


def is_being_emptied(node: NodeInfo, priority: int, evicting: Container[str], victims: PodVictims) -> bool:
    """Whether a victim of a lower priority is being evicted from a node, or still terminating there."""
    return any(
        (info.pod.uid in evicting or _leaves_for_preemption(info.pod)) and victims.priority_of(info) < priority
        for info in node.pods
    )


def _leaves_for_preemption(pod: Pod) -> bool:
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False
