"""DynamicResources: devices that pods claim.

This version allocates nothing: a pod with resource claims is turned down with a clear reason. For all other pods the
plugin answers as kube-scheduler's does, which shows in the messages of preemption.
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


class DynamicResources(Plugin):
    """Turns down pods that claim dynamic resources; leaves all others alone."""

    class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
        """Time limits of allocating and binding devices (durations such as ``10s``); nothing here uses them yet."""

        filter_timeout: Any = None
        binding_timeout: Any = None

    @depends_on("template")
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
        """Skip pods without claims."""
        state.write(_SEEN, True)
        return _REJECTED if pod.spec.resource_claims else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Asked only where PreFilter is disabled: a claim must not pass unseen there either."""
        if not pod.spec.resource_claims:
            return None
        return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), _REJECTED)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same for one node."""
        return _REJECTED if pod.spec.resource_claims else None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Other pods make no difference."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    def post_filter(self, state: CycleState, pod: Pod, statuses: object) -> Status:
        """There is never a claim to deallocate; without PreFilter kube-scheduler's plugin misses its state."""
        return _UNPREPARED if state.get(_SEEN) is None else _NOTHING_TO_FREE

    def events_to_register(self) -> list[ClusterEvent]:
        """None: nothing that happens in the cluster makes claims supported."""
        return []
