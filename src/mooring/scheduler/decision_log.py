"""DecisionLog: logs attempts, bindings and, with ``-v=5``, every plugin's answer about every node.

An attempt is evaluated again for the log, with its own cycle state, so that an engine without a log does no extra
work. For many nodes, the log contains a summary.
"""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.framework.node_statuses import NodeStatuses
from mooring.logs import get_logger
from mooring.observe.attempt_trace import Evaluation, ExtenderCall
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.schedule_pod import schedule_pod

log = get_logger("mooring.scheduler")

#: The maximum number of nodes that are logged one by one.
_LINES = 50
#: The verbosity at which attempts, bindings, and nodes and scores are logged; as in kube-scheduler where it logs them.
_ATTEMPTS, _BINDINGS, _NODES = 3, 4, 5


class DecisionLog:
    """A log of scheduling decisions at a verbosity."""

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity

    @classmethod
    def at(cls, verbosity: int) -> DecisionLog | None:
        """Return a log, or None if nothing is logged at this verbosity."""
        return cls(verbosity) if verbosity >= _ATTEMPTS else None

    def unscheduled_pod_added(self, pod: Pod) -> None:
        """Log an added pod without a node."""
        log.info("Add event for unscheduled pod", pod=pod.key, scheduler=pod.scheduler_name)

    def scheduled_pod_added(self, pod: Pod, *, waited: bool) -> None:
        """Log a pod with a node; ``waited`` is true if it was unscheduled before."""
        if waited:
            log.info("Delete event for unscheduled pod", pod=pod.key)
        log.info("Add event for scheduled pod", pod=pod.key)

    def attempt(self, queued: QueuedPod) -> None:
        """Log the start of an attempt."""
        if self._verbosity >= _BINDINGS:
            log.info("About to try and schedule pod", pod=queued.key)
        log.info("Attempting to schedule pod", pod=queued.key, attempt=queued.attempts)

    def placed(self, runner: PluginRunner, pod: Pod, result: ScheduleResult, *, scored: bool) -> None:
        """Log the chosen node."""
        if self._verbosity >= _NODES:
            self._nodes(runner, pod, scored=scored)
        if self._verbosity >= _BINDINGS:
            log.info("Attempting to bind pod to node", pod=pod.key, node=result.node_name)

    def failed(self, pod: Pod, failure: ScheduleFailure) -> None:
        """Log a failed attempt."""
        if self._verbosity < _NODES:
            return
        if failure.statuses is not None:
            _verdicts(pod, failure.statuses)
        status = failure.post_filter
        if status is not None:
            log.info(
                "Tried to make room",
                pod=pod.key,
                plugin=status.plugin,
                status=status.code.title,
                message=status.message,
                victims=len(failure.result.victims),
            )

    def extended(self, pod: Pod, said: tuple[ExtenderCall, ...]) -> None:
        """Log the extender calls of an attempt."""
        if self._verbosity < _NODES:
            return
        for each in said:
            who = {"pod": pod.key, "extender": each.extender}
            if each.error:
                log.info("Extender failed", verb=each.verb, error=each.error, **who)
            for node, status in list(each.rejected.items())[:_LINES]:
                log.info("Extender rejected node", node=node, status=status.code.title, reason=status.message, **who)
            for node, score in list(each.scores.items())[:_LINES]:
                log.info("Extender scored node for pod", node=node, score=score, **who)

    @staticmethod
    def _nodes(runner: PluginRunner, pod: Pod, *, scored: bool) -> None:
        """Evaluate every node again, and log each plugin's answer."""
        evaluation = Evaluation(runs_post_filter=False)
        outcome = schedule_pod(runner, pod, evaluation)
        if isinstance(outcome, ScheduleFailure) and not outcome.status.is_rejected:
            log.warning("could not evaluate the plugins again", pod=pod.key, error=outcome.message)
            return
        if evaluation.statuses is None:
            return
        feasible, nodes = evaluation.feasible, runner.table.nodes
        _verdicts(pod, evaluation.statuses, passing=frozenset(feasible.tolist()))
        for row in feasible[:_LINES].tolist():
            log.info("Node passes all filters", pod=pod.key, node=nodes[row].name)
        if len(feasible) > _LINES:
            log.info("Nodes pass all filters", pod=pod.key, nodes=len(feasible))
        if not scored:
            return
        for place, row in enumerate(feasible[:_LINES].tolist()):
            each = {plugin: int(values[place]) for plugin, values in evaluation.scores.items()}
            for plugin, score in each.items():
                log.info("Plugin scored node for pod", pod=pod.key, plugin=plugin, node=nodes[row].name, score=score)
            log.info("Calculated node's final score", pod=pod.key, node=nodes[row].name, score=sum(each.values()))


def _verdicts(pod: Pod, statuses: NodeStatuses, passing: frozenset[int] = frozenset()) -> None:
    """Log each rejected node, or each reason if there are many nodes."""
    nodes = statuses.table.nodes
    each = len(nodes) <= _LINES
    for status, rows in statuses.groups():
        named = [nodes[row].name for row in rows.tolist() if row not in passing]
        said = {"plugin": status.plugin, "status": status.code.title, "reason": status.message}
        if each:
            for name in named:
                log.info("Node rejected", pod=pod.key, node=name, **said)
        elif named:
            log.info("Nodes rejected", pod=pod.key, nodes=len(named), first=named[0], **said)
