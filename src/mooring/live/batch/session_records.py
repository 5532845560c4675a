"""SessionRecords: decision records of batch sessions, in the store of the pod-by-pod engine that `explain` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.api.pod import Pod
from mooring.batch.fit_errors import FitErrors
from mooring.batch.rankings import Rankings
from mooring.batch.run import PodNote
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo
from mooring.observe.decision_records import Decision, DecisionRecords, Phases, Verdict
from mooring.scheduler.observer import grouped

#: The maximum number of named nodes per verdict.
_NAMES = 3


class SessionRecords:
    """The records of the last decision about each pod of sessions, unless records are disabled."""

    def __init__(self, records: DecisionRecords | None, clock: Callable[[], float]) -> None:
        self._records = records
        self._clock = clock

    def rankings(self, session: Session) -> Rankings | None:
        """Return the recorder of the best nodes of a session's tasks; None if records are disabled."""
        return None if self._records is None else Rankings(session.node_list)

    def placed(self, session: Session, task: TaskInfo) -> None:
        """Record that a session binds a task."""
        if self._records is None:
            return
        job = session.jobs.get(task.job)
        message = "" if job is None else f"by a session, with gang {job.uid} of queue {job.queue}"
        made = self._decision(task.pod, "placed", message, node=task.node_name, evaluated=len(session.nodes))
        ranking = session.rankings.of(task.uid) if session.rankings is not None else None
        if ranking is not None and (not ranking.candidates or ranking.candidates[0].node == task.node_name):
            made.feasible, made.scorers, made.candidates = ranking
        self._records.put(made)

    def bound(self, pod: Pod) -> None:
        """Record that a pod is bound."""
        known = self._records.get(pod.key) if self._records is not None else None
        if known is not None and known.uid == pod.uid:
            known.outcome = "bound"

    def failed(self, pod: Pod, problem: str) -> None:
        """Record that a bind failed."""
        if self._records is not None:
            self._records.put(self._decision(pod, "error", problem))

    def waiting(self, session: Session, notes: Iterable[PodNote]) -> None:
        """Record why tasks are pending: they have no feasible node, or their gang is incomplete."""
        if self._records is None:
            return
        names = [node.name for node in session.node_list]
        known: dict[int, tuple[Verdict, ...]] = {}  # equal tasks share their verdicts
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
        """Record that a pod was deleted."""
        if self._records is not None:
            self._records.finish(pod.key, pod.uid)

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
    """Return the verdicts about nodes, grouped, the most frequent first."""
    verdicts = (
        (status, len(rows), [names[row] for row in rows[:_NAMES].tolist()])
        for verdict, rows in errors.groups()
        for status in verdict
    )
    return tuple(sorted(grouped(verdicts, names_kept=_NAMES), key=lambda verdict: -verdict.count))
