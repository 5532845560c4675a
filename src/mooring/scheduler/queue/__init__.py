"""The scheduling queue: which pod is tried next, and when a pod that failed is tried again."""

from mooring.scheduler.queue.hints import node_update_actions, pod_update_actions
from mooring.scheduler.queue.queue import SchedulingQueue
from mooring.scheduler.queue.queued_pod import Place, QueuedPod

__all__ = ["Place", "QueuedPod", "SchedulingQueue", "node_update_actions", "pod_update_actions"]
