"""Mistakes that type checkers must report: each marked line, and no other."""

import numpy as np
import numpy.typing as npt

from mooring.batch import JobInfo, QueueInfo, Session, SessionNode, SessionNodes, SessionPlugin, TaskInfo
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    DeviceAllocation,
    Hint,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PermitWait,
    Plugin,
    Pod,
    PostFilterResult,
    QueuedPod,
    StateKey,
    Status,
    Verdicts,
)

COUNT: StateKey[int] = StateKey("count")


class Args:
    label: str = "example.com/tag"
    limit: int = 0


class Arguments(Plugin[Args]):
    def pre_enqueue(self, pod: Pod) -> str | None:
        return "on hold" if self.args.lable in pod.labels else None  # mistake

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        limit: str = self.args.limit  # mistake
        return len(limit)


class Names(Plugin):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:
        if pod.nmae == node.name:  # mistake
            return None
        if node.lables:  # mistake
            return None
        if self.handle.waitingpods:  # mistake
            return None
        return "no" if node.free("cpu") > pod.priority else 1  # mistake

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        free = nodes.avalable("cpu")  # mistake
        return Verdicts.reject(free > 0, "too small")  # mistake


class Parameters(Plugin):
    def filter(self, state: CycleState, pod: Pod) -> str | None:  # mistake
        return None

    def score(self, state: CycleState, pod: Pod, node: Nodes) -> int:  # mistake
        return 0

    def pre_filter(self, state: CycleState, pod: str, nodes: Nodes) -> None:  # mistake
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str, extra: int) -> None:  # mistake
        return None

    def less(self, a: Pod, b: QueuedPod) -> bool:  # mistake
        return True


class Results(Plugin):
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> str:  # mistake
        return "high"

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[int]:  # mistake
        return [0] * len(nodes)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> npt.NDArray[np.bool_]:  # mistake
        return nodes.free("cpu") > 0

    def pre_enqueue(self, pod: Pod) -> bool:  # mistake
        return True

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> float:  # mistake
        return 3.0

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> tuple[str, list[str]]:  # mistake
        return "node-1", []

    def events_to_register(self) -> list[str]:  # mistake
        return ["Node"]

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> str:  # mistake
        return "cannot"

    def may_evict(self, pod: Pod, victim: Pod) -> str:  # mistake
        return "yes"

    def score_allocation(self, pod: Pod, allocation: DeviceAllocation) -> str:  # mistake
        return "good"


class Declarations(Plugin):
    watch_files = (3,)  # mistake
    score_range = "0 to 1"  # mistake

    def may_evict(self, victim: Pod) -> bool:  # mistake
        self.handle.retry(victim)  # mistake
        return True


class Waits(Plugin):
    async def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> str | None:  # mistake
        return None

    def run(self) -> None:  # mistake
        return None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> int:  # mistake
        return 1


class Calls(Plugin):
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        state.write(COUNT, "one")  # mistake
        text: str = state.read(COUNT)  # mistake
        self.handle.waiting_pods.get(pod.uid).allow(self.name)  # mistake
        self.handle.activate(3)  # mistake
        return Status.unschedulable(text, 4)  # mistake

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitWait:
        return PermitWait("30s")  # mistake

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        return PostFilterResult(victims=statuses.get(1).reasons)  # mistake

    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(ActionType.ADD, "Node"),  # mistake
            ClusterEvent("Node", ActionType.UPDATED),  # mistake
            ClusterEvent("Pod", ActionType.ADD, lambda pod: Hint.QUEUE),  # mistake
        ]


class SessionArgs:
    weight: float = 1.0


class InSessions(SessionPlugin[SessionArgs]):
    def on_session_open(self, session: Session) -> None:
        session.add_queue_oder(self.queues)  # mistake
        session.add_queue_order(self.jobs)  # mistake
        session.add_job_order(self.jobs)
        session.add_predicate(self.score)  # mistake
        session.add_predicate(self.columns, columns=True)
        session.add_predicate(self.columns)  # mistake
        session.add_node_order(self.score)
        session.add_may_evict(self.score)  # mistake
        session.add_overused(lambda queue: queue.wieght > 1)  # mistake

    def on_session_close(self) -> None:  # mistake
        return None

    def queues(self, left: QueueInfo, right: QueueInfo) -> int:
        return left.priority - right.priority

    def jobs(self, left: JobInfo, right: JobInfo) -> int:
        return left.min_available - right.min_avilable  # mistake

    def score(self, task: TaskInfo, node: SessionNode) -> float:
        return self.args.wieght * node.idle.cpu / len(task.nane)  # mistake

    def columns(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts:
        return Verdicts.reject(nodes.idle("cpu") < task.request.cpu, Status.unschedulable("too small"))
