"""ClaimPreemption: evicts pods of lower priority whose devices satisfy the claims of a pod.

kube-scheduler evicts no pods for devices. This plugin is disabled by default.
"""

from __future__ import annotations

import numpy as np

from mooring.api.pod import Pod
from mooring.framework import CycleState, NodeStatuses, Plugin, PostFilterResult, Status
from mooring.framework.preemption import AskExtenders, Evaluator
from mooring.framework.status import Code
from mooring.plugins.default_preemption import candidate_nodes
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.device_release import DEVICE_RELEASE, DeviceRelease
from mooring.plugins.dynamic_resources.device_state import device_state
from mooring.plugins.dynamic_resources.pod_devices import DEVICES

_SILENT = Status.unschedulable()


class ClaimPreemption(Plugin):
    """Finds victims as DefaultPreemption does, but evicted pods also release the claims that only they use."""

    def setup(self) -> None:
        """Create the evaluator."""
        self._evaluator = Evaluator(self.handle, candidate_nodes)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult, Status] | AskExtenders | Status:
        """Choose a node and its victims, for pods that need devices."""
        found = state.get(DEVICES)
        if found is None or not found.to_allocate:
            return _SILENT
        rejected = [rows for status, rows in statuses.groups() if status.plugin == DynamicResources.name]
        release = DeviceRelease(device_state(self.handle), found.plan_of, self._is_leaving)
        for row in (row for rows in rejected for row in rows.tolist()):
            if release.fits(row):
                name = self.handle.table.nodes[row].name
                # This status ends PostFilter, so that no other plugin clears the nomination.
                return Status.unresolvable(f"claim preemption: devices on node {name} are being released.")
        state = state.clone()
        state.write(DEVICE_RELEASE, release)
        rows = np.unique(np.concatenate([*rejected, statuses.rows_with(Code.UNSCHEDULABLE)]))
        answer = self._evaluator.preempt(state, pod, statuses, rows=rows)
        return answer.and_then(_worded) if isinstance(answer, AskExtenders) else _worded(answer)

    def _is_leaving(self, uid: str) -> bool:
        """Return whether a pod is gone or terminating, so that its claims are released without an eviction."""
        table = self.handle.table
        info = table.pods.get(uid)
        return info is None or info.pod.is_terminating or uid in table.evicting


def _worded(outcome: tuple[PostFilterResult, Status]) -> tuple[PostFilterResult, Status]:
    result, status = outcome
    return (result, Status(status.code, (f"claim preemption: {status.message}",))) if status.message else outcome
