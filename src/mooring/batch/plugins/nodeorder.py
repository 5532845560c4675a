"""nodeorder: kube-scheduler's scorers, each with a weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.batch.kube_plugins import BalancedAllocation, SessionPodAffinity
from mooring.batch.plugin import BatchPlugin
from mooring.batch.registrations import UNCACHEABLE, on_node_alone
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import TaskInfo
from mooring.framework.plugin import Plugin
from mooring.framework.state import CycleState
from mooring.framework.status import Code
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.taint_toleration import TaintToleration

Ints = npt.NDArray[np.int64]


def _strategy(kind: str) -> dict[str, Any]:
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    return {"scoringStrategy": {"type": kind, "resources": resources}}


_BALANCED = {"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "nvidia.com/gpu"}]}
#: Scorers: the argument with the weight (without ".weight"), its default, the plugin, its arguments.
_SCORERS: tuple[tuple[str, int, type[Plugin], Any], ...] = (
    ("leastrequested", 1, NodeResourcesFit, _strategy("LeastAllocated")),
    ("mostrequested", 0, NodeResourcesFit, _strategy("MostAllocated")),
    ("balancedresource", 1, BalancedAllocation, _BALANCED),
    ("nodeaffinity", 2, NodeAffinity, None),
    ("podaffinity", 2, SessionPodAffinity, {"hardPodAffinityWeight": 0}),
    ("tainttoleration", 3, TaintToleration, None),
    ("podtopologyspread", 2, PodTopologySpread, None),
)


#: Scorers whose score of a node depends on that node alone.
_LOCAL = frozenset({"leastrequested", "mostrequested", "balancedresource"})


class NodeOrder(BatchPlugin):
    """Scores nodes by utilization, balance and the preferences of pods."""

    name = "nodeorder"

    def on_session_open(self, session: Session) -> None:
        """Register the scorers whose weight is not 0."""
        arguments = self.arguments
        self._session = session
        self._scorers: list[tuple[str, int, Any]] = []
        for name, default, cls, args in _SCORERS:
            weight = arguments.integer(f"{name}.weight", default)
            if weight:
                self._scorers.append((name, weight, session.kube.get(cls, args)))
        self._images = arguments.integer("imagelocality.weight", 1)
        #: A task at a position of the change log, and the scorers that skip it then: `_local` has just asked them.
        self._skipped: tuple[tuple[str, int], set[str]] = (("", -1), set())
        self._locality: Any = session.kube.get(session.kube.image_locality)
        session.add_node_order(self._image_scores, columns=True, depends=on_node_alone)
        session.add_batch_node_order(self._together, columns=True, depends=self._local)

    def _image_scores(self, task: TaskInfo, nodes: SessionNodes) -> Any:
        if not self._images:
            return 0.0
        return self._locality.score_nodes(CycleState(), task.pod, nodes.kube) * float(self._images)

    def _local(self, task: TaskInfo) -> Any:
        """Return None if the score of a node depends on that node alone, that is, if no scorer compares nodes."""
        nodes = SessionNodes(self._session)
        skipped: set[str] = set()
        self._skipped = (task.uid, self._session.changes.position), skipped
        for name, _, plugin in self._scorers:
            if name in _LOCAL:
                continue
            state = CycleState()
            status = plugin.pre_score(state, task.pod, nodes.kube)
            if status is not None and status.code is Code.SKIP:
                skipped.add(name)
                continue
            # A single number means that the taints count the same for all nodes.
            if name != "tainttoleration" or not isinstance(plugin.score_nodes(state, task.pod, nodes.kube), int):
                return UNCACHEABLE
        return None

    def _together(self, task: TaskInfo, nodes: SessionNodes) -> Any:
        total: Any = 0
        for part in self.parts(task, nodes).values():
            if isinstance(part, str):
                return part
            total = total + part
        return total

    def parts(self, task: TaskInfo, nodes: SessionNodes) -> dict[str, Any]:
        """Return each scorer's weighted scores: a vector, a number for all nodes, or the text of an error."""
        state = CycleState()
        found: dict[str, Any] = {}
        asked, skipped = self._skipped
        current = asked == (task.uid, self._session.changes.position)
        for name, weight, plugin in self._scorers:
            if current and name in skipped:
                continue
            scores = _scores(plugin, state, task, nodes)
            if isinstance(scores, str):
                return {name: scores}
            if scores is not None:
                found[name] = scores * weight
        return found


def _scores(plugin: Any, state: CycleState, task: TaskInfo, nodes: SessionNodes) -> Ints | int | str | None:
    """Return one scorer's scores from 0 to 100; None if it skips, text for an error."""
    status = plugin.pre_score(state, task.pod, nodes.kube)
    if status is not None:
        if status.code is Code.SKIP:
            return None
        if not status.is_success:
            return str(status.message)
    scores: Ints | int = plugin.score_nodes(state, task.pod, nodes.kube)
    normalize = getattr(plugin, "normalize_scores", None)
    if normalize is not None:
        if isinstance(scores, int):
            scores = np.full(len(nodes), scores, dtype=np.int64)
        scores = normalize(state, task.pod, scores)
    return scores
