"""Queueing hints: which changes may make a pod schedulable that DynamicResources rejected."""

from __future__ import annotations

from mooring.api.devices import DeviceTaintRule, ResourceClaim
from mooring.api.pod import Pod
from mooring.framework import ActionType, ClusterEvent, Hint
from mooring.plugins.dynamic_resources.device_state import DeviceState
from mooring.plugins.dynamic_resources.pod_claims import ClaimsNotReadyError, claims_of
from mooring.plugins.dynamic_resources.taint_rules import changes_taints
from mooring.releases import Release


class DeviceHints:
    """The events that may create claims, free devices, or add some."""

    def __init__(self, state: DeviceState, release: Release) -> None:
        self._state = state
        self._release = release
        self._of_groups = release.enabled("DRAWorkloadResourceClaims")

    def events(self) -> list[ClusterEvent]:
        """Return the events of the release."""
        release = self._release
        change = claim = ActionType.ADD | ActionType.UPDATE
        if release.claim_deletion_requeues:
            claim |= ActionType.DELETE
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        events = [
            ClusterEvent("Node", node),
            ClusterEvent("ResourceClaim", claim, self._after_claim_changed),
            self._own_pod(),
            ClusterEvent("DeviceClass", change),
            ClusterEvent("ResourceSlice", change),
        ]
        if release.enabled("DRADeviceTaintRules"):
            any_change = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
            events.append(ClusterEvent("DeviceTaintRule", any_change, self._after_taint_rule_changed))
        return events

    def _own_pod(self) -> ClusterEvent:
        """Return the event of a claim that was created for the pod. In 1.36, the events of all pods are hinted."""
        if self._release.own_pod_event == "TargetPod":
            return ClusterEvent("TargetPod", ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._after_update)
        return ClusterEvent("Pod", ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._after_pod_changed)

    def _after_claim_changed(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> Hint:
        if new is None:
            return Hint.QUEUE if old is not None and old.status.allocation is not None else Hint.SKIP
        try:
            claims = claims_of(pod, self._state.tracker, of_groups=self._of_groups)
        except ClaimsNotReadyError:
            return Hint.SKIP
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return Hint.QUEUE
        if not any(claim.uid == new.uid for claim in claims):
            return Hint.SKIP
        return Hint.QUEUE if old is None or old.status != new.status else Hint.SKIP

    def _after_pod_changed(self, pod: Pod, old: Pod | None, new: Pod) -> Hint:
        return Hint.SKIP if pod.uid != new.uid else self._after_update(pod, old, new)

    def _after_update(self, _pod: Pod, _old: Pod | None, new: Pod) -> Hint:
        try:
            claims_of(new, self._state.tracker, of_groups=self._of_groups)
        except ClaimsNotReadyError:
            return Hint.SKIP
        return Hint.QUEUE

    def _after_taint_rule_changed(self, _pod: Pod, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> Hint:
        changed = changes_taints(old, new, self._state.slices.list(), self._state.release)
        return Hint.QUEUE if changed else Hint.SKIP
