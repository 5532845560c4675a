"""usage: rejects nodes with a high measured load, and prefers nodes with a low one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.batch.plugin import BatchPlugin
from mooring.batch.registrations import on_node_alone
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import PENDING, TaskInfo
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts

#: Older measurements are ignored.
FRESH_SECONDS = 300.0
#: The reason of events about jobs that are placed without measurements.
NO_MEASUREMENTS = "NoMeasurements"
_UNMEASURED = (
    "the plugin usage has no current measurements of any node and does not limit or rank nodes: "
    "set metrics.type to prometheus and metrics.address in the configuration, and see the log for errors"
)
_CPU_BUSY = Status.unresolvable("the CPU load of the node exceeds the upper limit.")
_MEMORY_BUSY = Status.unresolvable("the memory load of the node exceeds the upper limit.")


class Usage(BatchPlugin):
    """Filters and scores nodes by their measured CPU and memory load."""

    name = "usage"

    def on_session_open(self, session: Session) -> None:
        """Read the measurements and register callbacks."""
        arguments = self.arguments
        self._weight = arguments.integer("usage.weight", 5)
        self._cpu_weight = arguments.integer("cpu.weight", 1)
        self._memory_weight = arguments.integer("memory.weight", 1)
        thresholds = arguments.mapping("thresholds")
        self._cpu_limit = _threshold(thresholds.get("cpu"), given="cpu" in thresholds)
        self._memory_limit = _threshold(thresholds.get("mem"), given="mem" in thresholds)
        now = session.now
        self._usage = [session.usage.get(node.name) for node in session.node_list]
        self._usage = [u if u is not None and now - u.measured <= FRESH_SECONDS else None for u in self._usage]
        if any(self._usage):
            session.add_predicate(self._judge, columns=True, depends=on_node_alone)
            session.add_node_order(self._score, columns=True, depends=on_node_alone)
        elif session.nodes:
            waiting = [job for job in session.jobs.values() if PENDING in job.by_status]
            session.job_warnings += [(job, NO_MEASUREMENTS, _UNMEASURED) for job in waiting]
            session.warnings.append(_UNMEASURED)

    def _judge(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts:
        statuses: list[Status | None] = []
        for node in nodes:
            usage = self._usage[node.row]
            if usage is None:
                statuses.append(None)
            elif usage.cpu > self._cpu_limit:
                statuses.append(_CPU_BUSY)
            else:
                statuses.append(_MEMORY_BUSY if usage.memory > self._memory_limit else None)
        return Verdicts.of(statuses)

    def _score(self, task: TaskInfo, nodes: SessionNodes) -> npt.NDArray[np.float64]:
        scores = []
        for node in nodes:
            usage = self._usage[node.row]
            if usage is None:
                scores.append(0.0)
                continue
            cpu = (100 - usage.cpu) / 100 * float(self._cpu_weight)
            memory = (100 - usage.memory) / 100 * float(self._memory_weight)
            mean = (cpu + memory) / float(self._cpu_weight + self._memory_weight)
            scores.append(mean * float(100 * self._weight))
        return np.array(scores)


def _threshold(value: object, *, given: bool) -> float:
    """Return a percentage; one that is not an integer counts as 0, as in Volcano."""
    if not given:
        return 80.0
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else 0.0
