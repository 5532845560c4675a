"""DynamicResources: devices that pods claim.

This version allocates nothing: it rejects pods with resource claims. For all other pods the plugin returns the same
statuses as kube-scheduler's, which are part of the messages of preemption.

"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from mooring.api.pod import Pod
from mooring.framework import (
    ClusterEvent,
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    depends_on,
)

UNSUPPORTED = "pod has resourceClaims, which this version of Mooring does not support yet (dynamic resource allocation)"

_REJECTED = Status.unresolvable(UNSUPPORTED)
_NOTHING_TO_FREE = Status.unschedulable("no new claims to deallocate")
_UNPREPARED = Status.error("not found")
_SEEN: StateKey[bool] = StateKey("DynamicResources")


class DynamicResourcesArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Timeouts of allocation and binding (durations such as ``10s``); not used yet."""

    filter_timeout: Any = None
    binding_timeout: Any = None


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Rejects pods that claim dynamic resources."""

    @depends_on("template")
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
        """Skip pods without claims."""
        state.write(_SEEN, True)
        return _REJECTED if pod.spec.resource_claims else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Reject pods with claims if PreFilter is disabled."""
        if not pod.spec.resource_claims:
            return None
        return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), _REJECTED)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        return _REJECTED if pod.spec.resource_claims else None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    def post_filter(self, state: CycleState, pod: Pod, statuses: object) -> Status:
        """Report that there is no claim to deallocate; without PreFilter, the error of kube-scheduler's plugin."""
        return _UNPREPARED if state.get(_SEEN) is None else _NOTHING_TO_FREE

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for no events: none makes claims supported."""
        return []
