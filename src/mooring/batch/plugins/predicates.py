"""predicates: kube-scheduler's filters and the pod limit of nodes; the search checks the resources itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.batch.fit_errors import SEVERE, Verdict
from mooring.batch.kube_plugins import SessionPodAffinity
from mooring.batch.plugin import BatchPlugin
from mooring.batch.queue import QueueInfo
from mooring.batch.registrations import UNCACHEABLE
from mooring.batch.session import Session
from mooring.batch.session_claims import SessionClaims
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.task import TaskInfo
from mooring.columns.distinct import distinct, numbered
from mooring.columns.nodes import Nodes
from mooring.framework.plugin import Plugin
from mooring.framework.state import CycleState, MissingStateError
from mooring.framework.status import Code, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.node_volume_limits.plugin import NodeVolumeLimits
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.taint_toleration import TaintToleration
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_zone import VolumeZone

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

_FILTER_TIMEOUT_SECONDS = 10
_FULL = Status.unschedulable("node(s) pod number exceeded")
#: Filters in their order, with the argument that disables them.
_FILTERS: tuple[tuple[type[Plugin], str], ...] = (
    (NodeUnschedulable, ""),
    (NodeAffinity, "predicate.NodeAffinityEnable"),
    (TaintToleration, "predicate.TaintTolerationEnable"),
    (NodePorts, "predicate.NodePortsEnable"),
    (SessionPodAffinity, "predicate.PodAffinityEnable"),
    (NodeVolumeLimits, "predicate.NodeVolumeLimitsEnable"),
    (VolumeZone, "predicate.VolumeZoneEnable"),
    (PodTopologySpread, "predicate.PodTopologySpreadEnable"),
    (VolumeBinding, "predicate.VolumeBindingEnable"),
    (SessionClaims, ""),
)


#: Filters whose verdict on a node depends on that node alone.
_LOCAL = frozenset({"NodeUnschedulable", "NodeAffinity", "TaintToleration", "NodePorts"})


class Filtered:
    """The verdicts of the filters on all nodes; those on a node end with the first that evictions cannot resolve."""

    def __init__(self, full: Mask | None, verdicts: list[Verdicts], count: int) -> None:
        self._full = full
        self._verdicts = verdicts
        self.failed: Mask = np.zeros(count, dtype=np.bool_) if full is None else full.copy()
        self.severe: Mask = np.zeros(count, dtype=np.bool_)
        self._hopeless: Mask = np.zeros(count, dtype=np.bool_)
        for each in verdicts:
            bad = each.codes != 0
            self.failed |= bad
            for code in distinct(each.codes[bad]):
                status = each.status(code)
                if status.code in SEVERE:
                    where = (each.codes == code) & ~self.severe
                    self.severe |= where
                    if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                        self._hopeless |= where

    def verdict(self, row: int) -> Verdict:
        """Return the verdict on a row."""
        said = [_FULL] if self._full is not None and self._full[row] else []
        for verdicts in self._verdicts:
            code = int(verdicts.codes[row])
            if code:
                status = verdicts.status(code)
                said.append(status)
                if status.code in SEVERE:
                    break
        return tuple(said)

    def kinds(self, rows: Rows) -> Rows:
        """Number the combinations of codes."""
        found: Rows = np.zeros(len(rows), dtype=np.intp) if self._full is None else self._full[rows].astype(np.intp)
        for each in self._verdicts:
            codes = each.codes[rows]
            if codes.any():
                first, dense = numbered(codes)
                _, found = numbered(found * len(first) + dense)
        return found

    def unresolvable(self) -> Mask:
        """Return the rows on which no eviction can help."""
        return self._hopeless


class Predicates(BatchPlugin):
    """Runs kube-scheduler's filters, and reserves volumes and devices for placed tasks."""

    name = "predicates"

    def on_session_open(self, session: Session) -> None:
        """Register the filters and the handlers."""
        self._session = session
        self._table = session.table
        arguments = self.arguments
        chosen = [cls for cls, switch in _FILTERS if not switch or arguments.boolean(switch, True)]
        timeout = arguments.integer("dynamicresources.filterTimeoutSeconds", _FILTER_TIMEOUT_SECONDS)
        args: dict[type[Plugin], Any] = {SessionClaims: {"filterTimeout": f"{max(timeout, 0)}s"}}
        self._filters: list[Any] = [session.kube.get(cls, args.get(cls)) for cls in chosen]
        self._pre_filters = [each for each in self._filters if hasattr(each, "pre_filter")]
        self._reserving = [each for each in self._filters if isinstance(each, VolumeBinding | SessionClaims)]
        self._affinity = next((each for each in self._filters if isinstance(each, SessionPodAffinity)), None)
        #: Filters that depend on other nodes too, unless they are skipped for a task.
        self._not_local = {each.name for each in self._filters} - _LOCAL
        #: Tasks (uid) for which PreFilter has run; nothing can be reserved for others.
        self._prepared: set[str] = set()
        self._limits = session.amounts.max_tasks
        session.add_reservation(self._reserve, self._unreserve)
        session.add_pre_predicate(self._prepare)
        session.add_predicate(self._judge, columns=True, depends=self._local)
        session.add_simulation(self._simulate)

    # Filters

    def _prepare(self, task: TaskInfo) -> str | None:
        state = self._session.state_of(task)
        nodes = Nodes(self._table)
        for plugin in self._pre_filters:
            answer = plugin.pre_filter(state, task.pod, nodes)
            if answer is None or isinstance(answer, PreFilterResult):
                continue  # the PreFilter result is not used: the filter rejects the same nodes
            if answer.code is Code.SKIP:
                state.skip_filter.add(plugin.name)
            elif not answer.is_success:
                return f"plugin {plugin.name} pre-predicates failed {answer.message}"
        self._prepared.add(task.uid)
        return None

    def _judge(self, task: TaskInfo, nodes: SessionNodes) -> Filtered | None:
        state, count = self._session.state_of(task), len(nodes)
        limits, counts = self._limits, self._table.pod_count[: len(self._limits)]
        if nodes.rows is not None:
            limits, counts = limits[nodes.rows], counts[nodes.rows]
        too_many: Mask = limits <= counts
        full = too_many if too_many.any() else None
        found = []
        for plugin in self._filters:
            if plugin.name in state.skip_filter:
                continue
            verdicts = self._ask(plugin, state, task, nodes.kube)
            if verdicts is not None and verdicts.codes.any():
                found.append(verdicts)
        return Filtered(full, found, count) if found or full is not None else None

    def _local(self, task: TaskInfo) -> Any:
        """Return None if the verdict on a node depends on that node alone: without affinity, spread or volumes."""
        skipped = self._session.state_of(task).skip_filter
        return None if self._not_local <= skipped else UNCACHEABLE

    @staticmethod
    def _ask(plugin: Any, state: CycleState, task: TaskInfo, nodes: Nodes) -> Verdicts | None:
        try:
            verdicts: Verdicts | None = plugin.filter_nodes(state, task.pod, nodes)
        except MissingStateError as error:
            return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), Status.error(str(error)))
        return verdicts

    # Volumes and devices

    def _reserve(self, task: TaskInfo) -> str | None:
        prepared = task.uid in self._prepared
        if not prepared and self._session.kube.hides_unevicted:
            # Volcano reserves volumes and claims for every task, also when an eviction is rolled back, and fails if
            # PreFilter has not run for the task: the filters do not see the pod for the rest of the session.
            return "the filters were not prepared for the task"
        for plugin in self._reserving if prepared and _reserves(task) else ():
            answer = plugin.reserve(self._session.state_of(task), task.pod, task.node_name)
            if answer is not None and not answer.is_success:
                return str(answer.message)
        return None

    def _unreserve(self, task: TaskInfo) -> None:
        for plugin in reversed(self._reserving) if _reserves(task) else ():
            plugin.unreserve(self._session.state_of(task), task.pod, task.node_name)

    # Dry runs of preemption evaluate inter-pod affinity only

    def _simulate(self, task: TaskInfo) -> _AffinityTrial:
        return _AffinityTrial(self, self._session.state_of(task).clone())

    def affinity_trial(self) -> tuple[SessionPodAffinity | None, Session]:
        """Return the affinity plugin and the session for a dry run."""
        return self._affinity, self._session


def _reserves(task: TaskInfo) -> bool:
    """Return whether a task may need volumes or devices."""
    return bool(task.pod.spec.volumes or task.pod.spec.resource_claims)


class _AffinityTrial:
    """A simulation of inter-pod affinity without some pods."""

    def __init__(self, owner: Predicates, state: CycleState) -> None:
        self._plugin, self._session = owner.affinity_trial()
        self._state = state
        self._pod: TaskInfo | None = None
        if self._plugin is not None and self._plugin.name in state.skip_filter:
            self._plugin = None

    def remove(self, task: TaskInfo, node: SessionNode) -> bool:
        """Simulate the removal of a pod."""
        return self._shift(task, node, added=False)

    def add(self, task: TaskInfo, node: SessionNode) -> bool:
        """Simulate the addition of a pod."""
        return self._shift(task, node, added=True)

    def _shift(self, task: TaskInfo, node: SessionNode, *, added: bool) -> bool:
        table = self._session.table
        info = table.pods.get(task.uid)
        if self._plugin is None or info is None:
            return True
        change = self._plugin.add_pod if added else self._plugin.remove_pod
        try:
            change(self._state, task.pod, info, table.nodes[node.row])
        except MissingStateError:
            return False
        return True

    def allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """Return True: predicates limits no queue."""
        return True

    def predicate(self, task: TaskInfo, node: SessionNode) -> bool:
        """Return whether affinity allows the node."""
        if self._plugin is None:
            return True
        nodes = Nodes(self._session.table, np.array([node.row]))
        try:
            verdicts = self._plugin.filter_nodes(self._state, task.pod, nodes)
        except MissingStateError:
            return False
        return verdicts is None or not verdicts.codes[0]
