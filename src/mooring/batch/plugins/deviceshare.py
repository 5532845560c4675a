"""deviceshare: shares of GPUs and NPUs, GPU memory and whole GPUs, with the annotations of Volcano's device plugins.

Pods without such a request cost nothing. Verdicts are kept by request and computed again for nodes that changed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.batch.device_kinds import device_kinds
from mooring.batch.device_pools import DeviceKind, Fit, Policy, Pool
from mooring.batch.mindcluster_npus import (
    DVPP_LABEL,
    LEVEL_LABEL,
    NPU_CORES,
    NPU_LABEL,
    MindClusterNpus,
    requested_cores,
)
from mooring.batch.node_locks import NodeLock, locked
from mooring.batch.plugin import BatchPlugin
from mooring.batch.registrations import UNCACHEABLE
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.shared_gpus import SharedCards, exclusive_rules, request_key, rules_for
from mooring.batch.task import RELEASING, TaskInfo
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts

Floats = npt.NDArray[np.float64]
_NO_DEVICE = Fit("no ascend device available", final=True)
_NO_CORES = Fit("not enough idle AI cores", final=True)
#: The labels of pods that choose the template of a vNPU.
_NPU_LABELS = (NPU_LABEL[0], LEVEL_LABEL, DVPP_LABEL)
#: The score of the node with the fewest idle AI cores.
_FIRST = 8.0


class DeviceShare(BatchPlugin):
    """Assigns devices to pods that request shares of them, and prefers nodes by the policy."""

    name = "deviceshare"

    def on_session_open(self, session: Session) -> None:
        """Read the devices, if a pod requests one, and register callbacks."""
        self._session = session
        arguments = self.arguments
        policy = arguments.text("deviceshare.SchedulePolicy")
        self._policy: Policy = "binpack" if policy == "binpack" else "spread" if policy == "spread" else ""
        self._weight = arguments.integer("deviceshare.ScheduleWeight", 0)
        self._locks = arguments.boolean("deviceshare.NodeLockEnable", False)
        self._rules = exclusive_rules(arguments.get("deviceshare.GPUExclusiveRules"))
        self._kinds = device_kinds(arguments, session.device_config)
        self._requested = frozenset(name for kind in self._kinds for name in kind.requested)
        self._uncounted = frozenset(name for kind in self._kinds for name in kind.uncounted)
        if self._weight > 0 and any(kind.idle for kind in self._kinds):
            session.add_batch_node_order(self._by_idle_cores, columns=True, depends=self._cacheable, live=True)
        tasks = (task for job in session.jobs.values() for task in job.tasks.values())
        if not self._kinds or not any(not task.node_name and self._asks(task) for task in tasks):
            return
        #: Row -> the devices of the node by kind.
        self._pools: dict[int, dict[str, Pool]] = {}
        self._verdicts: dict[tuple[object, ...], _Kept] = {}
        #: The rows whose devices changed, in order.
        self._changed: list[int] = []
        #: The locks that pods of this session get: node and annotation.
        self._taken: set[tuple[str, str]] = set()
        for node in session.node_list:
            self._read(node)
        session.add_predicate(self._judge, columns=True, depends=self._cacheable)
        session.add_node_order(self._score, columns=True, depends=self._cacheable)
        session.add_reservation(self._assign, self._release)

    def _read(self, node: SessionNode) -> None:
        """Read the devices of a node, and those that its pods hold."""
        pools = {kind.name: pool for kind in self._kinds if (pool := kind.pool(node.node)) is not None}
        if not pools:
            return
        self._pools[node.row] = pools
        reported = next((pool for pool in pools.values() if isinstance(pool, MindClusterNpus)), None)
        if reported is not None:
            reported.start((self._current(task), task.status == RELEASING) for task in node.tasks.values())
        for task in node.tasks.values():
            if not self._asks(task):
                continue
            pod = self._current(task)
            for kind in self._asked(pod):
                pool = pools.get(kind.name)
                if pool is reported:
                    continue
                if pool is not None and task.status != RELEASING:
                    pool.add(pod)
                elif isinstance(pool, SharedCards):
                    pool.keep_rules(pod)

    def _asks(self, task: TaskInfo) -> bool:
        if not self._requested.isdisjoint(task.request.scalars or ()):
            return True
        # The request of a task has no resources that are not counted.
        return bool(self._uncounted) and any(
            not self._uncounted.isdisjoint(each.resources.limits) for each in task.pod.spec.containers
        )

    def _asked(self, pod: Pod) -> list[DeviceKind]:
        return [kind for kind in self._kinds if kind.asked_by(pod)]

    def _current(self, task: TaskInfo) -> Pod:
        """Return the pod with its annotations, also if its bind is still in flight."""
        known = self._session.table.pods.get(task.uid)
        return task.pod if known is None else known.pod

    def _cacheable(self, task: TaskInfo) -> object:
        return UNCACHEABLE if self._asks(task) else None

    def _judge(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts | None:
        if not self._asks(task):
            return None
        kept = self._fits(task)
        codes = kept.codes if nodes.rows is None else kept.codes[nodes.rows]
        return Verdicts(codes, kept.status)

    def _score(self, task: TaskInfo, nodes: SessionNodes) -> Floats | float:
        if self._weight <= 0 or not self._asks(task):
            return 0.0
        scores = self._fits(task).scores
        return np.floor((scores if nodes.rows is None else scores[nodes.rows]) + 0.5) * self._weight

    def _fits(self, task: TaskInfo) -> _Kept:
        """Return the verdicts on all nodes for a task."""
        pod = task.pod
        key = (*request_key(pod), rules_for(pod, self._rules), *(pod.labels.get(name) for name in _NPU_LABELS))
        kept = self._verdicts.get(key)
        if kept is None:
            kept = self._verdicts[key] = _Kept(len(self._session.node_list))
            if any(not self._uncounted.isdisjoint(each.resources.limits) for each in pod.spec.containers):
                kept.set_all(_NO_DEVICE)
            rows = set(self._pools)
        else:
            rows = set(self._changed[kept.position :])
        kinds = self._asked(pod)
        for row in rows:
            kept.set(row, self._fit(self._session.node_list[row], kinds, pod))
        kept.position = len(self._changed)
        return kept

    def _fit(self, node: SessionNode, kinds: list[DeviceKind], pod: Pod) -> Fit:
        """Return whether the devices of a node suffice. As in Volcano, a node that has none of a kind is not judged.

        But resources that are not counted only come from devices.
        """
        score, reduced = 0.0, False
        pools = self._pools[node.row]
        for kind in kinds:
            pool = pools.get(kind.name)
            if pool is not None:
                if kind.idle and (node.idle.scalars or {}).get(kind.idle, 0.0) < requested_cores(pod) * 1000:
                    return _NO_CORES
                fit = pool.fit(pod, self._policy)
                if fit.reason:
                    return fit
                score += fit.score
                reduced = reduced or fit.reduced
            elif any(not kind.uncounted.isdisjoint(each.resources.limits) for each in pod.spec.containers):
                return _NO_DEVICE
        return Fit("", score, reduced=reduced)

    def _by_idle_cores(self, task: TaskInfo, nodes: SessionNodes) -> Floats | float:
        """Prefer the node with the fewest idle AI cores, also for pods that request none, as in Volcano.

        Nodes on which the pod gets fewer AI CPUs come after the first one on which it does not.
        """
        offered = np.flatnonzero(nodes.allocatable(NPU_CORES) > 0)
        if not len(offered):
            return 0.0
        ranked = offered[np.argsort(nodes.idle(NPU_CORES)[offered], kind="stable")]
        reduced = np.zeros(len(ranked), dtype=np.bool_)
        if self._asks(task):
            kept = self._fits(task).reduced
            reduced = (kept if nodes.rows is None else kept[nodes.rows])[ranked]
        scores = np.zeros(len(nodes))
        if not reduced.any():
            scores[ranked[0]] = _FIRST * self._weight
            return scores
        full = int(np.argmin(reduced)) if not reduced.all() else len(ranked)
        scores[ranked[:full]] = _FIRST * self._weight
        scores[ranked[full : full + 1]] = 2 * _FIRST * self._weight
        return scores

    def _assign(self, task: TaskInfo) -> str | None:
        """Assign devices to a task that is placed; a task that had devices before keeps them."""
        node = self._session.nodes.get(task.node_name)
        pools = None if node is None else self._pools.get(node.row)
        if node is None or pools is None or not self._asks(task):
            return None
        given = [(kind, pool) for kind in self._asked(task.pod) if (pool := pools.get(kind.name)) is not None]
        if not task.pod.node_name:
            annotations: dict[str, str] = {}
            for kind, pool in given:
                fit = pool.fit(task.pod, self._policy)
                reason = fit.reason or self._lock_problem(node, kind)
                if reason:
                    return reason
                annotations |= pool.bind_annotations(fit.annotations, self._session.now)
            task.annotate(annotations)
            self._lock(task, node, [kind for kind, _ in given])
        for _, pool in given:
            pool.add(task.pod)
        self._changed.append(node.row)
        return None

    def _lock_problem(self, node: SessionNode, kind: DeviceKind) -> str:
        if not self._locks or not kind.lock:
            return ""
        if (node.name, kind.lock) in self._taken:
            return f"node {node.name} is locked for another pod of this session (annotation {kind.lock})"
        problem = locked(node.node.annotations, kind.lock, self._session.now)
        return f"node {node.name} is locked: {problem}" if problem else ""

    def _lock(self, task: TaskInfo, node: SessionNode, kinds: list[DeviceKind]) -> None:
        wanted = [NodeLock(kind.lock, kind.keeps_lock) for kind in kinds if kind.lock and self._locks]
        if wanted:
            self._session.node_locks[task.uid] = wanted
            self._taken.update((node.name, lock.name) for lock in wanted if lock.stays)

    def _release(self, task: TaskInfo) -> None:
        node = self._session.nodes.get(task.node_name)
        pools = None if node is None else self._pools.get(node.row)
        if node is None or pools is None or not self._asks(task):
            return
        for pool in pools.values():
            pool.remove(task.pod)
        self._changed.append(node.row)
        task.annotate({})
        for lock in self._session.node_locks.pop(task.uid, ()):
            self._taken.discard((node.name, lock.name))


class _Kept:
    """The verdicts and scores of all nodes for equal requests, at a position of the list of changed rows."""

    def __init__(self, count: int) -> None:
        self.codes = np.zeros(count, dtype=np.int32)
        self.scores = np.zeros(count)
        self.reduced = np.zeros(count, dtype=np.bool_)
        self.position = 0
        self._reasons: list[Status] = []
        self._codes: dict[str, int] = {}

    def set(self, row: int, fit: Fit) -> None:
        """Store the verdict on a row."""
        self.scores[row] = fit.score
        self.reduced[row] = fit.reduced
        self.codes[row] = self._code(fit) if fit.reason else 0

    def set_all(self, fit: Fit) -> None:
        """Store a refusal of all rows."""
        self.codes[:] = self._code(fit)

    def _code(self, fit: Fit) -> int:
        code = self._codes.get(fit.reason, 0)
        if not code:
            self._reasons.append((Status.error if fit.final else Status.unschedulable)(fit.reason))
            code = self._codes[fit.reason] = len(self._reasons)
        return code

    def status(self, code: int) -> Status:
        """Return the status of a code."""
        return self._reasons[code - 1]
