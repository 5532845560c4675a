"""Device release: whether claims could be allocated on a node if the claims of some pods were released.

ClaimPreemption uses it. In kube-scheduler, the eviction of a pod never frees devices for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.devices import DeviceRequestAllocationResult, ResourceClaim
from mooring.framework import StateKey, Verdicts, Victims, WhatIf
from mooring.plugins.dynamic_resources.device_index import NodePools
from mooring.plugins.dynamic_resources.device_state import FOUND, DeviceState, NodePlan, new_budget

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: The code of a verdict about a node whose devices do not suffice.
CANNOT_ALLOCATE: Final = 1
#: The number of victims that one counter has bits for.
_BITS: Final = 62


class DeviceRelease:
    """Searches devices as if some pods, and the claims that only they use, were gone."""

    def __init__(
        self, state: DeviceState, plan_of: Callable[[int], NodePlan | None], is_leaving: Callable[[str], bool]
    ) -> None:
        """``plan_of`` returns what is to be allocated on a row; ``is_leaving``, whether a pod (uid) ends anyway."""
        self._state = state
        self._plan_of = plan_of
        self._is_leaving = is_leaving
        self._budget = new_budget(0)
        #: The uids of the pods that are gone in a simulation.
        self.gone: set[str] = set()
        #: The plan, the signature of the node and the released devices -> whether the claims can be allocated.
        self._known: dict[tuple[int, int, frozenset[tuple[int, int]]], bool] = {}

    def clone(self) -> DeviceRelease:
        """Return a copy for another simulation. They share the results and the time limit."""
        made = DeviceRelease(self._state, self._plan_of, self._is_leaving)
        made._budget, made._known, made.gone = self._budget, self._known, set(self.gone)
        return made

    def fits(self, row: int, gone: Iterable[str] = ()) -> bool:
        """Return whether the claims can be allocated on a row once pods (uids) are gone, and all that are leaving."""
        plan, pools, away = self._plan_of(row), self._state.index.of_row(row), frozenset(gone)
        if plan is None or self._budget.is_over():
            return False
        released, places = self._released(pools, away)
        if not released:
            return False
        key = (id(plan), pools.signature, frozenset(places))
        shared = any(each.share_id for claim in released for each in _results(claim))
        found = None if shared else self._known.get(key)  # shares of a device differ in what they consume
        if found is None:
            usage = self._state.tracker.usage.part(
                each for pool in pools.pools for each in (*pool.ids, *pool.other_ids)
            )
            for claim in released:
                if claim.status.allocation is not None:
                    usage.remove(claim.status.allocation)
            found = self._state.search(plan.plan, pools, self._budget, usage.view).kind == FOUND
            if not shared:
                self._known[key] = found
        return found

    def _released(self, pools: NodePools, gone: frozenset[str]) -> tuple[list[ResourceClaim], list[tuple[int, int]]]:
        """Return the claims with devices of a node that only leaving pods use, and the places of the devices."""
        claims: dict[str, ResourceClaim] = {}
        places: list[tuple[int, int]] = []
        for number, pool in enumerate(pools.pools):
            for place, device in enumerate((*pool.ids, *pool.other_ids)):
                for claim in self._state.tracker.holders(device):
                    users = claim.status.reserved_for
                    if users and all(each.uid in gone or self._is_leaving(each.uid) for each in users):
                        claims[claim.uid] = claim
                        places.append((number, place))
        return list(claims.values()), places

    def retry(self, codes: npt.NDArray[np.int32], rows: Rows) -> None:
        """Accept the nodes on which the claims can be allocated without the pods that are gone in this simulation."""
        if self.gone:
            for place in np.flatnonzero(codes == CANNOT_ALLOCATE).tolist():
                if self.fits(int(rows[place]), self.gone):
                    codes[place] = 0

    def what_if(self, verdicts: Verdicts | None, victims: Victims) -> WhatIf:
        """Return a model whose counters have a bit for each victim that is present."""
        if verdicts is None:
            return WhatIf.constant(None, victims)
        base, bits = verdicts.codes, self._bits(victims)
        tried = np.flatnonzero(base == CANNOT_ALLOCATE).tolist()
        rows = victims.nodes.rows
        assert rows is not None

        def with_victims(present: Ints) -> Verdicts:
            codes = base.copy()
            for place in tried:
                absent = ((present[:, place, None] & bits[:, place]) == 0).all(axis=0)
                gone = np.flatnonzero(victims.present[place] & absent)
                uids = (victims.info(place, each).pod.uid for each in gone.tolist())
                if self.fits(int(rows[place]), uids):
                    codes[place] = 0
            return Verdicts(codes, verdicts.status, may_fail=verdicts.may_fail)

        return WhatIf(bits.sum(axis=2), bits, with_victims)

    @staticmethod
    def _bits(victims: Victims) -> Ints:
        """Return a bit for each victim, as an array [m, C, V]."""
        candidates, count = victims.index.shape
        bits = np.zeros((count // _BITS + 1, candidates, count), dtype=np.int64)
        for number in range(count):
            bits[number // _BITS, :, number] = victims.present[:, number].astype(np.int64) << (number % _BITS)
        return bits


def _results(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


#: Written by ClaimPreemption: evicted pods release their claims.
DEVICE_RELEASE: Final[StateKey[DeviceRelease]] = StateKey("DynamicResources/release")
