"""The extension points: the methods that a plugin may define, with their signatures, types and examples.

A plugin defines the methods that it needs and no others. ``Plugin`` derives from ``ExtensionPoints`` for type checkers
and editors only. So a wrong signature is a type error, parameters without annotations have the right types in
editors, and at run time a plugin has only the methods that its author wrote.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.columns.node_info import NodeInfo, PodInfo
from mooring.columns.nodes import Nodes
from mooring.framework.device_allocations import DeviceAllocation
from mooring.framework.events import ClusterEvent
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.placements import PlacementProgress, Placements, ProposedPlacements
from mooring.framework.state import CycleState
from mooring.framework.status import PermitWait, PostFilterResult, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts
from mooring.framework.what_if import Victims, WhatIf

if TYPE_CHECKING:
    from mooring.framework.preemption.candidate import AskExtenders

#: None for success, a reason to reject the pod or node, or a Status.
Answer: TypeAlias = Status | str | None
#: The score of one node.
Score: TypeAlias = float | np.integer[Any] | np.floating[Any]
#: The scores of many nodes: an array with a score for each node, or one score for all.
Scores: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any] | np.bool_] | int


class QueuedPod(Protocol):
    """A pod in the scheduling queue, as ``less`` sees it."""

    @property
    def pod(self) -> Pod:
        """The pod."""

    @property
    def timestamp(self) -> float:
        """When the pod was added to the queue, or returned to it after an attempt, in seconds since the epoch."""

    @property
    def initial_attempt_timestamp(self) -> float | None:
        """When the pod was first ready, in seconds since the epoch; None until then."""

    @property
    def attempts(self) -> int:
        """How many scheduling attempts there were for the pod."""


class ExtensionPoints:
    """The methods that a plugin may define, in the order in which they run.

    Where an answer may be a Status, ``None`` means success and a string is the reason for a rejection
    (``Status.unschedulable``). An exception fails the attempt; the pod is tried again after a backoff. Methods that are
    not ``async`` run inside the scheduling cycle and must not wait: a decision takes less than a millisecond.
    """

    # The queue

    def pre_enqueue(self, pod: Pod) -> Answer:
        """Decide whether a pod may enter the active queue; a rejected pod is gated and is not scheduled.

        It runs when the pod is added and when one of the plugin's events occurs (see ``events_to_register``).

        ```python
        def pre_enqueue(self, pod: Pod) -> str | None:
            return "waits for a budget" if "budget" not in pod.annotations else None
        ```
        """
        raise NotImplementedError

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Return whether ``a`` is scheduled before ``b`` (QueueSort).

        All profiles of a scheduler must have the same QueueSort plugin.

        ```python
        def less(self, a: QueuedPod, b: QueuedPod) -> bool:
            return (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)
        ```
        """
        raise NotImplementedError

    # The scheduling cycle

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Answer:
        """Prepare for Filter: runs once per attempt, with all nodes.

        A rejection rejects the pod on all nodes. ``PreFilterResult.only(names)`` restricts the attempt to some nodes.
        ``Status.skip()`` skips the plugin's Filter in this attempt.

        ```python
        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
            return None if "gpu" in pod.labels else Status.skip()
        ```
        """
        raise NotImplementedError

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Answer:
        """Update what ``pre_filter`` wrote to ``state`` as if ``added`` were on ``node``.

        Nominated pods and preemption use it. Define it together with ``remove_pod`` if ``pre_filter`` counts pods.

        ```python
        def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
            state.write(COUNT, state.read(COUNT) + 1)
        ```
        """
        raise NotImplementedError

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Answer:
        """Update what ``pre_filter`` wrote to ``state`` as if ``removed`` were no longer on ``node``.

        ```python
        def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
            state.write(COUNT, state.read(COUNT) - 1)
        ```
        """
        raise NotImplementedError

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Answer:
        """Decide whether a node is feasible for the pod.

        A string, or ``Status.unschedulable``, says that evicting other pods might help; ``Status.unresolvable`` that it
        cannot.

        ```python
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
            return "the node has no GPU" if node.allocatable("nvidia.com/gpu") == 0 else None
        ```
        """
        raise NotImplementedError

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Decide about all nodes in one call, with NumPy; this replaces ``filter`` and is much faster.

        Return None if all nodes are feasible, or Verdicts with an entry for each node.

        ```python
        def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
            return Verdicts.reject(nodes.free("cpu") < 1000, Status.unschedulable("less than one core is free"))
        ```
        """
        raise NotImplementedError

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Describe how the verdicts of ``filter_nodes`` change if pods are evicted, for all candidate nodes at once.

        It makes preemption fast. Without it, preemption simulates node by node with ``add_pod`` and ``remove_pod``.

        ```python
        def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
            return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)
        ```
        """
        raise NotImplementedError

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> PostFilterResult | Answer | tuple[PostFilterResult | None, Answer] | AskExtenders:
        """Make room for a pod that fits on no node: runs if Filter rejected all nodes.

        ``statuses`` says why each node was rejected. Return the nominated node and the victims, or why there are none.
        ``mooring.framework.preemption.Evaluator`` selects victims as DefaultPreemption does.

        ```python
        def post_filter(
            self, state: CycleState, pod: Pod, statuses: NodeStatuses
        ) -> tuple[PostFilterResult, Status] | AskExtenders:
            return Evaluator(self.handle).preempt(state, pod, statuses)
        ```
        """
        raise NotImplementedError

    def may_evict(self, pod: Pod, victim: Pod) -> bool:
        """Return whether ``victim`` may be evicted to make room for ``pod``.

        It belongs to PostFilter. Preemption (DefaultPreemption, CapacityScheduling, ``Evaluator``) calls it for every
        possible victim, and so do batch sessions (preempt, reclaim, gangpreempt, gangreclaim) in the same process. One
        refusal is enough. A failure counts as a refusal and is reported as a failure of the plugin.

        ```python
        def may_evict(self, pod: Pod, victim: Pod) -> bool:
            return victim.labels.get("example.com/protected") != "true"
        ```
        """
        raise NotImplementedError

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Answer:
        """Prepare for Score: runs once per attempt, with the feasible nodes.

        ``Status.skip()`` skips the plugin's Score in this attempt.

        ```python
        def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
            state.write(COUNT, len(nodes))
        ```
        """
        raise NotImplementedError

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> Score:
        """Score a feasible node: a number from 0 to 100, the higher the better.

        ```python
        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> float:
            return 100 * node.free("cpu") / max(node.allocatable("cpu"), 1)
        ```
        """
        raise NotImplementedError

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores:
        """Score all feasible nodes in one call, with NumPy; this replaces ``score`` and is much faster.

        Return an array with a score for each node, or one score for all.

        ```python
        def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
            return 100 * nodes.free("cpu") // np.maximum(nodes.allocatable("cpu"), 1)
        ```
        """
        raise NotImplementedError

    def score_allocation(self, pod: Pod, allocation: DeviceAllocation) -> Score:
        """Score the devices that a pod would get on a node: a number from 0 to 100, the higher the better.

        It runs for pods with resource claims. Among the possible allocations on a node, the one with the highest sum of
        weighted scores is chosen; among equal ones, the one that kube-scheduler would choose. Its score is also the
        plugin's score of the node, unless the plugin defines ``score`` or ``score_nodes``.

        ```python
        def score_allocation(self, pod: Pod, allocation: DeviceAllocation) -> float:
            return 100 * sum(allocation.free_after) / len(allocation.devices)
        ```
        """
        raise NotImplementedError

    def normalize_scores(self, state: CycleState, pod: Pod, scores: npt.NDArray[np.int64]) -> Scores:
        """Scale the plugin's scores of all feasible nodes to 0..100; scores may have any range then.

        ```python
        def normalize_scores(
            self, state: CycleState, pod: Pod, scores: npt.NDArray[np.int64]
        ) -> npt.NDArray[np.int64] | int:
            return default_normalize(scores)
        ```
        """
        raise NotImplementedError

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Answer:
        """Reserve resources that the scheduler does not count: a node is chosen, and the bind will follow.

        ```python
        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            self.reserved[pod.key] = node_name
        ```
        """
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo ``reserve``: the pod was rejected later, or its bind failed.

        It must not fail, and may be called more than once, or without ``reserve``.

        ```python
        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            self.reserved.pop(pod.key, None)
        ```
        """
        raise NotImplementedError

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitWait | Answer | tuple[Status, float]:
        """Allow the bind, reject the pod, or let it wait.

        A pod that waits holds its place on the node. Something later allows it:
        ``handle.waiting_pods.get(uid).allow(self.name)``.

        ```python
        def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitWait:
            for waiting in self.handle.waiting_pods:
                waiting.allow(self.name)  # each pod releases the ones before it
            return PermitWait(60)
        ```
        """
        raise NotImplementedError

    # The binding cycle

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Answer:
        """Return ``Status.skip()`` if ``pre_bind`` has nothing to do for the pod, otherwise None.

        ```python
        def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return None if pod.spec.volumes else Status.skip()
        ```
        """
        raise NotImplementedError

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Answer | Awaitable[Answer]:
        """Prepare what the pod needs on its node before the bind; it may be ``async``. A rejection cancels the bind.

        ```python
        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> str | None:
            await asyncio.sleep(0.1)
            return None
        ```
        """
        raise NotImplementedError

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Answer | Awaitable[Answer]:
        """Bind the pod; it may be ``async``. ``Status.skip()`` leaves the bind to the next plugin.

        ```python
        def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Awaitable[Status | None] | None:
            return self.handle.binder.bind(Binding.of(pod, node_name))
        ```
        """
        raise NotImplementedError

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Awaitable[None] | None:
        """Run after a successful bind; it may be ``async``.

        ```python
        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            self.reserved.pop(pod.key, None)
        ```
        """
        raise NotImplementedError

    # Groups of pods

    def generate_placements(self, group: NativePodGroup, scheduled: Sequence[Pod], nodes: Nodes) -> Placements | Answer:
        """Return the sets of nodes, such as racks, in which the pods of a PodGroup of `scheduling.k8s.io` are tried.

        All pods of the group run in one of them. ``scheduled`` are the pods of the group that already have a node.
        Return None if the group may use all nodes, or why it cannot be scheduled. One plugin can be enabled at this
        point, `placementGenerate`, in place of TopologyPlacementGenerator. It needs the feature gate
        TopologyAwareWorkloadScheduling.

        ```python
        def generate_placements(self, group: NativePodGroup, scheduled: Sequence[Pod], nodes: Nodes) -> Placements:
            return Placements.by_label(nodes, "example.com/rack")
        ```
        """
        raise NotImplementedError

    def placement_feasible(self, group: NativePodGroup, progress: PlacementProgress) -> Answer:
        """Decide whether a PodGroup can still be scheduled: runs before its pods are tried, and after each of them.

        It belongs to Permit: enable the plugin there, or at multiPoint. None says that the group can be scheduled now,
        ``Status.wait`` that more pods must have a node, and a reason that the group cannot be scheduled in this
        placement. All plugins must agree. GangScheduling is asked first; it waits for `gang.minCount` pods.

        ```python
        def placement_feasible(self, group: NativePodGroup, progress: PlacementProgress) -> Status | None:
            leader = any(pod.labels.get("role") == "leader" for pod in progress.placed)
            return None if leader or not progress.placed else Status.wait("the leader has no node")
        ```
        """
        raise NotImplementedError

    def score_placements(self, proposed: ProposedPlacements) -> Scores:
        """Score the placements in which a PodGroup fits: numbers from 0 to 100, the higher the better.

        ``proposed.placements`` are the placements, ``proposed.pods`` says how many pods of the group each would have.
        Return an array with a score for each placement, or one score for all. The placement with the highest sum of
        weighted scores is chosen. It needs the feature gate TopologyAwareWorkloadScheduling.

        ```python
        def score_placements(self, proposed: ProposedPlacements) -> npt.NDArray[np.int64]:
            counts = proposed.pod_counts
            return 100 * counts // max(int(counts.max()), 1)
        ```
        """
        raise NotImplementedError

    # Outside attempts

    def events_to_register(self) -> Iterable[ClusterEvent]:
        """Return the events that may make a pod schedulable that this plugin rejected or gates.

        Without it, every event requeues such pods. Objects of listers count without registration.

        ```python
        def events_to_register(self) -> list[ClusterEvent]:
            return [ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL)]
        ```
        """
        raise NotImplementedError

    async def run(self) -> None:
        """Run in the background of a live scheduler until the plugin is replaced.

        If it raises, it is started again after a pause.

        ```python
        async def run(self) -> None:
            while True:
                await asyncio.sleep(60)
                self.prices = {node.name: 0.0 for node in self.handle.nodes}
        ```
        """
        raise NotImplementedError
