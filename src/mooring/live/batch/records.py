"""What batch sessions decide, in the records that the pod-by-pod engine keeps: both are asked why in one way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.api.pod import Pod
from mooring.batch.fit_errors import FitErrors
from mooring.batch.run import PodNote
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo
from mooring.observe.decision_records import Decision, DecisionRecords, Phases, Verdict
from mooring.scheduler.observer import grouped

#: So many of the nodes that were turned down for the same reasons are named.
_NAMES = 3


class SessionRecords:
    """Keeps the last decision about each pod of the sessions; nothing where there are no records."""

    def __init__(self, records: DecisionRecords | None, clock: Callable[[], float]) -> None:
        self._records = records
        self._clock = clock

    def placed(self, session: Session, task: TaskInfo) -> None:
        """A session binds a task."""
        if self._records is None:
            return
        job = session.jobs.get(task.job)
        message = "" if job is None else f"by a session, with gang {job.uid} of queue {job.queue}"
        made = self._decision(task.pod, "placed", message, node=task.node_name, evaluated=len(session.node_list))
        self._records.put(made)

    def bound(self, pod: Pod) -> None:
        """The pod is on its node."""
        known = self._records.get(pod.key) if self._records is not None else None
        if known is not None and known.uid == pod.uid:
            known.outcome = "bound"

    def failed(self, pod: Pod, problem: str) -> None:
        """The pod could not be bound."""
        if self._records is not None:
            self._records.put(self._decision(pod, "error", problem))

    def waiting(self, session: Session, notes: Iterable[PodNote]) -> None:
        """These tasks found no node, or not enough others of their gangs did."""
        if self._records is None:
            return
        names = [node.name for node in session.node_list]
        known: dict[int, tuple[Verdict, ...]] = {}  # equal tasks share what was said of the nodes
        for task, reason in notes:
            last = self._records.get(task.pod.key)
            if last is not None and last.uid == task.uid and last.waits and last.message == reason.message:
                last.attempt, last.time = last.attempt + 1, self._clock()
                continue
            job = session.jobs.get(task.job)
            errors = job.fit_errors.get(task.uid) if job is not None else None
            if errors is not None and id(errors) not in known:
                known[id(errors)] = self._records.share(fit_verdicts(errors, names))
            verdicts = known[id(errors)] if errors is not None else ()
            made = self._decision(task.pod, "unschedulable", reason.message, evaluated=len(names), verdicts=verdicts)
            self._records.put(made)

    def gone(self, pod: Pod) -> None:
        """The pod waits no more."""
        if self._records is not None:
            self._records.settle(pod.key, pod.uid)

    def _decision(
        self,
        pod: Pod,
        outcome: str,
        message: str,
        *,
        node: str = "",
        evaluated: int = 0,
        verdicts: tuple[Verdict, ...] = (),
    ) -> Decision:
        last = self._records.get(pod.key) if self._records is not None else None
        attempt = last.attempt + 1 if last is not None and last.uid == pod.uid else 1
        return Decision(
            pod=pod.key,
            uid=pod.uid,
            profile=pod.scheduler_name,
            time=self._clock(),
            attempt=attempt,
            outcome=outcome,
            phases=Phases(),
            node=node,
            evaluated=evaluated,
            message=message,
            verdicts=verdicts,
        )


def fit_verdicts(errors: FitErrors, names: list[str]) -> tuple[Verdict, ...]:
    """What was said of the nodes, alike ones together, the most frequent first."""
    said = ((status, 1, [names[row]]) for row, verdict in errors.verdicts() for status in verdict)
    return tuple(sorted(grouped(said, names_kept=_NAMES), key=lambda verdict: -verdict.count))
