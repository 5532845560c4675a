"""DeviceState: what all profiles share about devices and claims, and the outcomes of searches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from time import thread_time
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.devices import (
    DeviceClass,
    DeviceRequest,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from mooring.api.pod import ContainerExtendedResourceRequest
from mooring.framework import Handle, Lister
from mooring.plugins.dynamic_resources.allocator import Search, SearchLimitError, Solution, Usage
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.claim_plan import MOST_ALTERNATIVES, AllocationError, ClaimPlan
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.plugins.dynamic_resources.device_index import DeviceIndex, NodePools
from mooring.plugins.dynamic_resources.extended_resources import ExtendedResources
from mooring.plugins.dynamic_resources.selectors import Selectors
from mooring.plugins.dynamic_resources.taint_rules import TaintedSlices, UntaintedSlices

Ints = npt.NDArray[np.int64]

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
#: The maximum number of cached plans.
_MOST_PLANS: Final = 1024
#: A search ends after this many steps, and all searches of an attempt together after this processor time. A search is
#: exponential in the worst case, and the event loop must not wait for it.
_MOST_STEPS: Final = 200_000
_MOST_SECONDS: Final = 1.0
_STEPS_PER_CHECK: Final = 256
#: These limits are multiplied by this where nothing else waits, so that a search ends as in kube-scheduler.
_PATIENCE: Final = 60

#: Kinds of outcomes.
UNKNOWN, FOUND, NOTHING, INVALID_POOLS, FAILED, TIMED_OUT = range(6)


class Outcome:
    """The outcome of a search for all nodes with one signature."""

    __slots__ = ("candidates", "error", "kind", "score", "solution")

    def __init__(
        self, kind: int, solution: Solution | None = None, error: AllocationError | None = None, score: int = 0
    ) -> None:
        self.kind = kind
        self.solution = solution
        self.error = error
        self.score = score
        #: The solutions that plugins can choose from; see ``DeviceChoice``.
        self.candidates: Sequence[object] = ()


class Budget:
    """Limits a search."""

    def __init__(self, steps: int, seconds: float) -> None:
        self._steps = steps
        self._left = steps
        self._until = thread_time() + seconds
        #: Whether the time is over. The outcome of the search depends on the machine then and is not cached.
        self.out_of_time = False

    def renew(self) -> None:
        """Start another search; the time is that of all searches."""
        self._left = self._steps

    def is_over(self) -> bool:
        """Return whether the time is over."""
        self.out_of_time = self.out_of_time or thread_time() > self._until
        return self.out_of_time

    def spend(self) -> None:
        """Count a step. Raises SearchLimitError."""
        self._left -= 1
        if self._left < 0:
            raise SearchLimitError
        if self._left % _STEPS_PER_CHECK == 0 and thread_time() > self._until:
            self.out_of_time = True
            raise SearchLimitError


class AllocationPlan:
    """Claims that are allocated together, with the outcome for each signature of nodes."""

    def __init__(self, claims: tuple[ClaimPlan, ...]) -> None:
        self.claims = claims
        self._outcomes: dict[int, Outcome] = {}
        self._kinds: npt.NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self._scores: Ints = np.zeros(0, dtype=np.int64)

    def grow(self, count: int) -> None:
        """Make room for signatures."""
        if count > len(self._kinds):
            more = max(64, 2 * count) - len(self._kinds)
            self._kinds = np.concatenate([self._kinds, np.zeros(more, dtype=np.int8)])
            self._scores = np.concatenate([self._scores, np.zeros(more, dtype=np.int64)])

    def kinds(self, signatures: Ints) -> npt.NDArray[np.int8]:
        """Return the kind of outcome for each signature."""
        return self._kinds[signatures]

    def scores(self, signatures: Ints) -> Ints:
        """Return the score of each signature."""
        return self._scores[signatures]

    def outcome(self, signature: int) -> Outcome | None:
        """Return the outcome for a signature."""
        return self._outcomes.get(signature)

    def store(self, signature: int, outcome: Outcome) -> None:
        """Cache an outcome."""
        self._outcomes[signature] = outcome
        self._kinds[signature] = outcome.kind
        self._scores[signature] = outcome.score

    def forget(self, signature: int) -> None:
        """Remove an outcome that depends on the speed of the machine."""
        self._outcomes.pop(signature, None)
        self._kinds[signature] = UNKNOWN


class NodePlan:
    """The claims to allocate on nodes that provide the same extended resources through classes."""

    __slots__ = ("claims", "mappings", "plan", "requests")

    def __init__(
        self,
        plan: AllocationPlan,
        claims: list[ResourceClaim],
        requests: tuple[DeviceRequest, ...],
        mappings: tuple[ContainerExtendedResourceRequest, ...],
    ) -> None:
        self.plan = plan
        #: The claims in the order of the plan, for messages.
        self.claims = claims
        #: The requests of the claim for extended resources, and which container uses which.
        self.requests = requests
        self.mappings = mappings


class DeviceState:
    """Claims, devices, classes and plans. All profiles on one cache share it."""

    def __init__(self, handle: Handle) -> None:
        # Sessions have the release of Volcano's libraries, and share this state with profiles of the emulated release.
        objects, release = handle.objects, handle.table.release
        has_shares = allocator_features(release).consumable_capacity
        self.tracker = ClaimTracker(objects.lister(ResourceClaim), has_shares=has_shares)
        #: The slices as the allocator sees them.
        self.slices = objects.lister(ResourceSlice)
        if release.enabled("DRADeviceTaintRules"):
            self.slices = TaintedSlices(self.slices, objects.lister(DeviceTaintRule), release).slices
        elif not release.enabled("DRADeviceTaints"):
            self.slices = UntaintedSlices(self.slices).slices
        self.index = DeviceIndex(handle.table, self.slices, self.tracker.usage, release)
        self.classes = objects.lister(DeviceClass)
        self.extended = extended_resources(handle)
        self.selectors = Selectors(release)
        self.release = release
        self._version: tuple[int, int] = (-1, -1)
        self._claim_plans: dict[bytes, ClaimPlan] = {}
        self._plans: OrderedDict[tuple[bytes, ...], AllocationPlan] = OrderedDict()

    def plan(self, specs: Sequence[ResourceClaimSpec]) -> AllocationPlan:
        """Return the plan for claims with these specifications."""
        version = (self.classes.version, self.index.epoch)
        if version != self._version or len(self._claim_plans) > _MOST_PLANS:
            self._version = version
            self._claim_plans.clear()
            self._plans.clear()
        key = tuple(map(_encode, specs))
        found = self._plans.get(key)
        if found is None:
            found = AllocationPlan(tuple(map(self._claim_plan, key, specs)))
            self._plans[key] = found
            if len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return found

    def _claim_plan(self, key: bytes, spec: ResourceClaimSpec) -> ClaimPlan:
        found = self._claim_plans.get(key)
        if found is None:
            found = self._claim_plans[key] = ClaimPlan(spec, self.classes.get, self.selectors, self.release)
        return found

    def search(self, plan: AllocationPlan, pools: NodePools, budget: Budget, usage: Usage | None = None) -> Outcome:
        """Search devices on the nodes with a signature; ``usage`` is what is in use, if it is hypothetical."""
        budget.renew()
        if pools.error:
            return Outcome(FAILED, error=AllocationError(pools.error))
        try:
            solution = Search(plan.claims, pools.pools, usage or self.tracker.usage.view, budget.spend).run()
        except AllocationError as error:
            return Outcome(FAILED, error=error)
        except SearchLimitError:
            return Outcome(TIMED_OUT)
        if solution is None:
            invalid = any(pool.is_invalid for pool in pools.pools)
            return Outcome(INVALID_POOLS if invalid else NOTHING)
        return Outcome(FOUND, solution, score=_score(plan, solution))


def _score(plan: AllocationPlan, solution: Solution) -> int:
    """Return the score of the chosen alternatives: the earlier in its list, the better."""
    return sum(
        MOST_ALTERNATIVES - chosen
        for claim, part in zip(plan.claims, solution, strict=True)
        for is_list, chosen in zip(claim.is_list, part.alternatives, strict=True)
        if is_list
    )


def new_budget(filter_timeout: float, *, patient: bool = False) -> Budget:
    """Return the limits of an attempt; a timeout of 0 means the default limits."""
    share = min(filter_timeout, _MOST_SECONDS) if filter_timeout > 0 else _MOST_SECONDS
    if patient and share == _MOST_SECONDS:
        share *= _PATIENCE
    return Budget(int(_MOST_STEPS * share / _MOST_SECONDS), share)


def device_state(handle: Handle) -> DeviceState:
    """Return the state that all profiles on a cache share."""
    return handle.objects.derived(DeviceState, lambda: DeviceState(handle))


def extended_resources(handle: Handle) -> ExtendedResources:
    """Return the extended resources that classes provide; all plugins on a cache share them."""
    is_on = handle.table.release.enabled("DRAExtendedResource")
    classes = handle.objects.lister(DeviceClass) if is_on else Lister[DeviceClass]()
    return handle.objects.derived(ExtendedResources, lambda: ExtendedResources(classes))
