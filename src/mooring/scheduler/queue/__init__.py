"""The scheduling queue: the pods that wait for an attempt."""

from mooring.scheduler.queue.queued_pod import GroupAttempt, Place, QueuedPod
from mooring.scheduler.queue.queueing_hints import node_update_actions, pod_update_actions
from mooring.scheduler.queue.scheduling_queue import SchedulingQueue

__all__ = ["GroupAttempt", "Place", "QueuedPod", "SchedulingQueue", "node_update_actions", "pod_update_actions"]
