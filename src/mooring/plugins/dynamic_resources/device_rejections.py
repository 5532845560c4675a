"""Device rejections: why the devices of a node were not allocated to a pod, for explanations.

The allocator stops at the first solution and does not record why it skipped a device. This module finds the reasons
again, for a few nodes and devices only, after an attempt failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import thread_time
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.devices import ResourceClaim
from mooring.framework.device_allocations import DeviceRejection
from mooring.plugins.dynamic_resources.allocator import Usage
from mooring.plugins.dynamic_resources.capacity import CapacityError, has_room
from mooring.plugins.dynamic_resources.claim_plan import CLAIM, RequestPlan
from mooring.plugins.dynamic_resources.device_index import DeviceIndex, NodePools
from mooring.plugins.dynamic_resources.device_state import NodePlan
from mooring.plugins.dynamic_resources.pools import Pool

Rows = npt.NDArray[np.intp]

#: The limits on nodes, on reasons, on named devices for each reason, and on the length of a reason.
_MOST_NODES: Final = 3
_MOST_REASONS: Final = 12
_MOST_NAMES: Final = 5
_MOST_TEXT: Final = 300
#: The limits on devices that are examined, and on the CPU time: on a busy machine the reasons are the same.
_MOST_DEVICES: Final = 500
_MOST_SECONDS: Final = 0.02

_FITS: Final = "it matches, but not enough devices do, or the constraints or counters exclude it"


class RejectedDevices:
    """The devices of nodes that a pod's claims did not get."""

    def __init__(self, index: DeviceIndex, usage: Usage, plan_of: Callable[[int], NodePlan | None]) -> None:
        self._index = index
        self._usage = usage
        #: Returns what is to be allocated on a row.
        self._plan_of = plan_of

    def on(self, rows: Rows) -> Sequence[DeviceRejection]:
        """Return the reasons on a few of some nodes. Nodes with equal devices have the same reasons."""
        self._index.refresh()
        found: list[DeviceRejection] = []
        self._left, self._until = _MOST_DEVICES, thread_time() + _MOST_SECONDS
        for row in self._chosen(rows):
            plan = self._plan_of(row)
            if plan is not None:
                found += self._on_row(plan, row)
        return found[:_MOST_REASONS]

    def _chosen(self, rows: Rows) -> list[int]:
        """Return the first rows with devices whose devices differ."""
        _, firsts = np.unique(self._index.column[rows], return_index=True)
        with_devices = (row for row in rows[np.sort(firsts)].tolist() if self._index.of_row(row).pools)
        return [row for _, row in zip(range(_MOST_NODES), with_devices, strict=False)]

    def _on_row(self, plan: NodePlan, row: int) -> list[DeviceRejection]:
        grouped: dict[tuple[str, str, str], list[str]] = {}
        for claim, compiled in zip(plan.claims, plan.plan.claims, strict=True):
            for request in (each for alternatives in compiled.requests for each in alternatives):
                for device, reason in self._reasons(self._index.of_row(row), request, claim):
                    grouped.setdefault((claim.key, request.name, reason[:_MOST_TEXT]), []).append(device)
        node = self._index.name_of(row)
        return [
            DeviceRejection(node, claim, request, reason, len(devices), tuple(devices[:_MOST_NAMES]))
            for (claim, request, reason), devices in grouped.items()
        ]

    def _reasons(self, pools: NodePools, request: RequestPlan, claim: ResourceClaim) -> Iterator[tuple[str, str]]:
        for pool in pools.pools:
            if not pool.is_usable:
                yield "/".join(pool.id), f"the pool is {'being updated' if pool.is_incomplete else 'invalid'}"
            for place, device in enumerate(pool.ids):
                self._left -= 1
                if self._left < 0 or thread_time() > self._until:
                    return
                if not pool.on_node or pool.on_node[place]:
                    yield "/".join(device), self._reason(pool, place, request).replace(CLAIM, claim.key)

    def _reason(self, pool: Pool, place: int, request: RequestPlan) -> str:
        device, content = pool.ids[place], pool.contents[place]
        if device in self._usage.allocated and not request.admin:
            return "it is allocated"
        if pool.refused and pool.refused[place]:
            return "the node does not declare DRAOptionalNodeOperations, or the gate is off"
        if not content.is_selectable:
            return "it has binding conditions, which feature gates disable"
        if content.lacks_counters:
            return "it consumes counters, which the feature gate DRAPartitionableDevices disables"
        if mismatch := request.first_mismatch(content):
            return mismatch
        if (taint := request.first_untolerated(content)) is not None:
            return f"the taint {taint.key}:{taint.effect} is not tolerated"
        if not request.has_capacity:
            return _FITS
        try:
            consumed = request.consumption(content)
        except CapacityError as error:
            return str(error)
        if consumed is None or not has_room(consumed, content.capacities, self._usage.capacity.get(device, {}), {}):
            return "its free capacity does not suffice"
        return _FITS
