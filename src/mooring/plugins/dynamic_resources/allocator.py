"""The allocator: searches devices for the claims of a pod on one node, and stops at the first solution.

It is a depth-first search with backtracking over claims, their requests and the devices of each request. Nothing is
random. The search runs on an explicit stack, because a pod can claim more devices than Python allows nested calls.

A solution names devices by pool and place, not by name, so it holds for all nodes whose pools look the same and have
the same devices in use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mooring.api.devices import DeviceAttribute
from mooring.api.quantity import ZERO, Quantity
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.capacity import Amount, CapacityError, has_room
from mooring.plugins.dynamic_resources.claim_plan import (
    CLAIM,
    CLAIM_NAME,
    DEVICE,
    DEVICE_NAME,
    MOST_DEVICES,
    AllocationError,
    ClaimPlan,
    ConstraintPlan,
    RequestPlan,
    attribute_value,
    attribute_values,
)
from mooring.plugins.dynamic_resources.compatibility_groups import CompatibilityGroups
from mooring.plugins.dynamic_resources.pools import DeviceContent, DeviceID, Pool
from mooring.releases import Release

#: The pool and the place of a device on a node.
Position = tuple[int, int]
#: What a step calls: the claim, the request, the alternative (-1: none chosen), the number of the device, the start.
_Call = tuple[int, int, int, int, Position]
_Steps = Generator[_Call, bool, bool]

_FIRST: Final = (0, 0)
_NOTHING: Final[Mapping[str, Quantity]] = {}


class SearchLimitError(Exception):
    """The search takes too long."""


class _TooManyDevices(Exception):  # it unwinds the search and is no error
    """The claim would get more devices than the API allows."""


class Usage(NamedTuple):
    """What is in use."""

    #: Devices that are allocated as a whole.
    allocated: Mapping[DeviceID, int]
    #: Devices with shares.
    shared: Mapping[DeviceID, int]
    #: Device -> the used amounts of its capacity.
    capacity: Mapping[DeviceID, Mapping[str, Quantity]]

    def is_allocated(self, device: DeviceID) -> bool:
        """Return whether a device is allocated, as a whole or in shares."""
        return device in self.allocated or device in self.shared or device in self.capacity


class Chosen(NamedTuple):
    """A device of a solution."""

    request: RequestPlan
    position: Position
    #: What a share consumes; None for a device that is allocated as a whole.
    consumed: dict[str, Amount] | None = None


class ClaimSolution(NamedTuple):
    """The devices of a claim, and the chosen alternative of each request."""

    devices: tuple[Chosen, ...]
    alternatives: tuple[int, ...]


Solution = tuple[ClaimSolution, ...]


class _MatchAttribute:
    """All devices have the same value."""

    def __init__(self, plan: ConstraintPlan) -> None:
        self.plan = plan
        self._value: tuple[str, object] | None = None
        self._count = 0

    def add(self, request: RequestPlan, attribute: DeviceAttribute) -> bool:
        value = attribute_value(attribute)
        if self._count == 0:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._count += 1
        return True

    def remove(self, request: RequestPlan) -> None:
        self._count -= 1


class _DistinctAttribute:
    """All devices have different values."""

    def __init__(self, plan: ConstraintPlan) -> None:
        self.plan = plan
        self._values: list[tuple[str, object] | None] = []

    def add(self, request: RequestPlan, attribute: DeviceAttribute) -> bool:
        value = attribute_value(attribute)
        if self._values and (value is None or value in self._values):
            return False
        self._values.append(value)
        return True

    def remove(self, request: RequestPlan) -> None:
        self._values.pop()


class _DistinctByRequest:
    """Devices have different values. As release 1.36 does, it remembers one value for each request, the newest."""

    def __init__(self, plan: ConstraintPlan) -> None:
        self.plan = plan
        self._values: dict[str, tuple[str, object] | None] = {}
        self._count = 0

    def add(self, request: RequestPlan, attribute: DeviceAttribute) -> bool:
        value = attribute_value(attribute)
        if self._count and self._values and (value is None or value in self._values.values()):
            return False
        self._values[request.base_name] = value
        self._count += 1
        return True

    def remove(self, request: RequestPlan) -> None:
        self._values.pop(request.base_name, None)
        self._count -= 1


class _MatchValues:
    """All devices have a value in common."""

    def __init__(self, plan: ConstraintPlan) -> None:
        self.plan = plan
        #: What the devices have in common, after each device.
        self._common: list[tuple[str, frozenset[object]]] = []

    def add(self, request: RequestPlan, attribute: DeviceAttribute) -> bool:
        found = attribute_values(attribute)
        if found is not None and self._common:
            kind, values = self._common[-1]
            found = (kind, values & found[1]) if found[0] == kind else None
        if found is None or not found[1]:
            return False
        self._common.append(found)
        return True

    def remove(self, request: RequestPlan) -> None:
        self._common.pop()


class _DistinctValues:
    """No two devices have a value in common."""

    def __init__(self, plan: ConstraintPlan) -> None:
        self.plan = plan
        self._values: list[tuple[str, frozenset[object]]] = []

    def add(self, request: RequestPlan, attribute: DeviceAttribute) -> bool:
        found = attribute_values(attribute)
        if found is None or any(kind == found[0] and values & found[1] for kind, values in self._values):
            return False
        self._values.append(found)
        return True

    def remove(self, request: RequestPlan) -> None:
        self._values.pop()


_Constraint = _MatchAttribute | _DistinctAttribute | _DistinctByRequest | _MatchValues | _DistinctValues


def _constraint(plan: ConstraintPlan, release: Release) -> _Constraint:
    if allocator_features(release).list_constraints:
        return _MatchValues(plan) if plan.is_match else _DistinctValues(plan)
    if plan.is_match:
        return _MatchAttribute(plan)
    return _DistinctAttribute(plan) if release.distinct_attribute_compares_all else _DistinctByRequest(plan)


def _do_nothing() -> None:
    pass


class Search:
    """A search for devices on one node."""

    def __init__(
        self, claims: Sequence[ClaimPlan], pools: Sequence[Pool], usage: Usage, spend: Callable[[], None]
    ) -> None:
        """``spend`` is called at every step; it raises SearchLimitError when the search takes too long."""
        self._claims = claims
        self._pools = pools
        self._usage = usage
        self._spend = spend
        #: Request -> the devices of a request for all devices.
        self._all: dict[RequestPlan, list[Position]] = {}
        self._need: dict[RequestPlan, int] = {}
        self._constraints: list[list[_Constraint]] = []
        #: Devices that the search has taken, with the claims.
        self._taken: dict[Position, list[int]] = {}
        self._taken_capacity: dict[Position, dict[str, Quantity]] = {}
        self._available: dict[int, dict[str, dict[str, Quantity]]] = {}
        self._consumed: dict[int, dict[tuple[str, str], Quantity]] = {}
        #: Pool -> the compatibility groups of its devices in use; not used while the gate is off.
        self._groups: dict[int, CompatibilityGroups] = {}
        self._checks_groups = any(each.release.enabled("DRADeviceCompatibilityGroups") for each in claims)
        self._results: list[list[Chosen]] = [[] for _ in claims]
        self._alternatives: dict[tuple[int, int], int] = {}
        #: Whether a device that does not help excludes equal ones. A distinct constraint depends on the history.
        self._prunes = not any(not each.is_match for claim in claims for each in claim.constraints)

    def run(self) -> Solution | None:
        """Return the first solution; None if there is none. Raises AllocationError and SearchLimitError."""
        for number, claim in enumerate(self._claims):
            self._prepare(number, claim)
        if not self._search():
            return None
        solution = tuple(
            ClaimSolution(tuple(devices), tuple(self._alternatives.get((number, r), 0) for r in range(len(c.requests))))
            for number, (c, devices) in enumerate(zip(self._claims, self._results, strict=True))
        )
        for number, each in enumerate(solution):
            self._check_node_selectors(number, each)
        return solution

    # Before the search

    def _prepare(self, number: int, claim: ClaimPlan) -> None:
        total = 0
        for alternatives in claim.requests:
            for request in alternatives:
                if request.problem:
                    raise AllocationError(request.problem, number)
                if request.takes_all:
                    self._all[request] = self._find_all(number, request)
                    self._need[request] = len(self._all[request])
                else:
                    self._need[request] = request.count
            least = min(self._need[request] for request in alternatives)
            if claim.release.device_limit_by_request and least > MOST_DEVICES - total:
                where = f"claim {CLAIM}, request {alternatives[0].base_name}"
                limit = f"exceeds the claim limit of {MOST_DEVICES}, with {total} already accounted for"
                raise AllocationError(f"{where}: adding {least} devices {limit}", number)
            total += least
        if total > MOST_DEVICES:
            text = f"claim {CLAIM}: number of requested devices {total} exceeds the claim limit of {MOST_DEVICES}"
            raise AllocationError(text, number)
        for place, constraint in enumerate(claim.constraints):
            if constraint.is_empty:
                text = f"claim {CLAIM}, constraint #{place}: empty constraint (unsupported constraint type?)"
                raise AllocationError(text, number)
        self._constraints.append([_constraint(each, claim.release) for each in claim.constraints])

    def _find_all(self, number: int, request: RequestPlan) -> list[Position]:
        """Return the devices of a request for all devices, in use or not."""
        found: list[Position] = []
        for index, pool in enumerate(self._pools):
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                where = f"claim {CLAIM}, request {request.bare_name}"
                text = f"{where}: asks for all devices, but resource pool {'/'.join(pool.id)} is currently {state}"
                raise AllocationError(text, number)
            for place, content in enumerate(pool.contents):
                self._spend()
                position = (index, place)
                if not self._selectable(number, request, position):
                    continue
                if self._has_room(number, request, position, content, unused=request.release.all_devices_need_room):
                    found.append(position)
        return found

    # The search

    def _search(self) -> bool:
        """Run the steps on a stack."""
        stack = [self._step((0, 0, -1, 0, _FIRST))]
        answer = False
        unwinding: _TooManyDevices | None = None
        sent: bool | None = None
        while stack:
            step = stack[-1]
            try:
                call = step.send(sent) if unwinding is None else step.throw(unwinding)  # type: ignore[arg-type]
            except StopIteration as done:
                stack.pop()
                answer, sent, unwinding = done.value, done.value, None
            except _TooManyDevices as error:
                stack.pop()
                answer, sent, unwinding = False, None, error
            else:
                stack.append(self._step(call))
                sent, unwinding = None, None
        return answer

    def _step(self, call: _Call) -> _Steps:
        number, index, chosen, count, start = call
        self._spend()
        if number == len(self._claims):
            return self._complete()
        claim = self._claims[number]
        if index == len(claim.requests):
            try:
                return (yield number + 1, 0, -1, 0, _FIRST)
            except _TooManyDevices:
                return False  # an earlier list may leave room for smaller alternatives of the next claim
        if claim.is_list[index] and chosen < 0:
            return (yield from self._try_alternatives(number, index))
        request = claim.requests[index][max(chosen, 0)]
        if request.takes_all and not self._all[request]:
            return False
        need = self._need[request]
        if count >= need:
            return (yield number, index + 1, -1, 0, _FIRST)
        if len(self._results[number]) + need - count > MOST_DEVICES:
            raise _TooManyDevices
        if request.takes_all:
            return (yield from self._take_next_of_all(number, index, chosen, count, request))
        return (yield from self._try_devices(number, index, chosen, count, start, request))

    def _complete(self) -> bool:
        """Return whether the search ends with this solution."""
        return True

    def _try_alternatives(self, number: int, index: int) -> _Steps:
        all_too_many = True
        for place in range(len(self._claims[number].requests[index])):
            try:
                found = yield number, index, place, 0, _FIRST
            except _TooManyDevices:
                continue
            all_too_many = False
            if found:
                self._alternatives[number, index] = place
                return True
        if all_too_many:
            raise _TooManyDevices
        return False

    def _take_next_of_all(self, number: int, index: int, chosen: int, count: int, request: RequestPlan) -> _Steps:
        undo = self._take(number, request, self._all[request][count], must=True)
        if undo is None:
            return False
        try:
            found = yield number, index, chosen, count + 1, _FIRST
        except _TooManyDevices:
            undo()
            raise
        if not found:
            undo()
        return found

    def _try_devices(
        self, number: int, index: int, chosen: int, count: int, start: Position, request: RequestPlan
    ) -> _Steps:
        first_pool, first_place = start
        useless: set[tuple[int, int]] = set()
        for pool_index in range(first_pool, len(self._pools)):
            pool = self._pools[pool_index]
            if not pool.is_usable:
                continue
            for place in range(first_place if pool_index == first_pool else 0, len(pool.contents)):
                self._spend()
                position, content = (pool_index, place), pool.contents[place]
                equal = (pool_index, content.number)
                same = not pool.on_node and not pool.refused  # otherwise equal devices may differ in these
                if equal in useless and same and pool.ids[place] not in self._usage.capacity:
                    continue
                if self._in_use(number, request, pool, position):
                    continue
                if not self._selectable(number, request, position):
                    continue
                if not self._has_room(number, request, position, content):
                    continue
                undo = self._take(number, request, position, must=False)
                if undo is not None:
                    try:
                        found = yield number, index, chosen, count + 1, (pool_index, place + 1)
                    except _TooManyDevices:
                        undo()
                        raise
                    if found:
                        return True
                    undo()
                prunes = self._prunes and not request.admin and not content.multiple
                if prunes and pool.ids[place] not in self._usage.capacity:
                    useless.add(equal)
        return False

    # One device

    def _in_use(self, number: int, request: RequestPlan, pool: Pool, position: Position) -> bool:
        taken = self._taken.get(position)
        if request.admin:
            return taken is not None and number in taken
        return pool.ids[position[1]] in self._usage.allocated or bool(taken)

    def _selectable(self, number: int, request: RequestPlan, position: Position) -> bool:
        pool, place = self._pools[position[0]], position[1]
        content = pool.contents[place]
        if not content.is_selectable or not request.selects(content, number, position):
            return False
        return not pool.on_node or pool.on_node[place]

    def _consumption(
        self, number: int, request: RequestPlan, position: Position, content: DeviceContent, device: str = DEVICE
    ) -> dict[str, Amount] | None:
        try:
            return request.consumption(content)
        except CapacityError as error:
            where = f"claim {CLAIM}, request {request.bare_name}"
            text = f"{where}: checking capacity for device {device}: {error}"
            raise AllocationError(text, number, position) from None

    def _has_room(
        self, number: int, request: RequestPlan, position: Position, content: DeviceContent, *, unused: bool = False
    ) -> bool:
        """Return whether a device has room; with ``unused``, whether it would have room if nothing used it."""
        if not request.has_capacity or (not content.capacities and not request.requested):
            return True
        consumed = self._consumption(number, request, position, content, DEVICE_NAME if unused else DEVICE)
        if consumed is None:
            return False
        if unused:
            return has_room(consumed, content.capacities, _NOTHING, _NOTHING)
        used = self._usage.capacity.get(self._pools[position[0]].ids[position[1]], _NOTHING)
        return has_room(consumed, content.capacities, used, self._taken_capacity.get(position, _NOTHING))

    def _take(self, number: int, request: RequestPlan, position: Position, *, must: bool) -> Callable[[], None] | None:
        """Take a device. Return how to undo it; None if that is not possible. ``must`` is for all devices."""
        pool_index, place = position
        pool = self._pools[pool_index]
        content, multiple = pool.contents[place], pool.contents[place].multiple
        if content.lacks_counters or (
            not (request.admin and multiple) and self._in_use(number, request, pool, position)
        ):
            return None
        if pool.refused and pool.refused[place]:
            return None
        counters = bool(content.counters) and not (multiple and self._has_shares(request, pool.ids[place], position))
        leave_groups = self._groups_of(pool_index).add(content) if counters and self._checks_groups else _do_nothing
        if leave_groups is None:
            return None
        if counters and not self._consume_counters(pool_index, content):
            leave_groups()
            return None
        added: list[_Constraint] = []

        def undo() -> None:
            for constraint in reversed(added):
                constraint.remove(request)
            leave_groups()
            if counters:
                self._release_counters(pool_index, content)

        if content.taints and not request.tolerates(content):
            undo()
            return None
        for constraint in self._constraints[number]:
            if not constraint.plan.covers(request):
                continue
            attribute = request.attribute(constraint.plan.attribute, content, number, position)
            if attribute is None or not constraint.add(request, attribute):
                undo()
                if must:
                    where = f"claim {CLAIM}, request {request.bare_name}"
                    text = f"{where}: cannot add device {DEVICE} because a claim constraint would not be satisfied"
                    raise AllocationError(text, number, position)
                return None
            added.append(constraint)
        if not self._has_room(number, request, position, content):
            undo()
            return None
        return self._record(number, request, position, content, undo)

    def _record(
        self, number: int, request: RequestPlan, position: Position, content: DeviceContent, undo: Callable[[], None]
    ) -> Callable[[], None]:
        """Record a taken device in the result."""
        results, before = self._results[number], self._taken_capacity.get(position)
        consumed: dict[str, Amount] | None = None
        if content.multiple:
            consumed = request.consumption(content) or {}
            now = dict(before or {})
            for name, amount in consumed.items():
                now[name] = now[name].plus(amount.quantity) if name in now else amount.quantity
            self._taken_capacity[position] = now
        else:
            self._taken.setdefault(position, []).append(number)
        results.append(Chosen(request, position, consumed))

        def undo_all() -> None:
            results.pop()
            if not content.multiple:
                self._taken[position].pop()
            elif before is None:
                del self._taken_capacity[position]
            else:
                self._taken_capacity[position] = before
            undo()

        return undo_all

    def _has_shares(self, request: RequestPlan, device: DeviceID, position: Position) -> bool:
        if request.release.bare_shares_use_counters and device in self._usage.shared:
            return True
        return device in self._usage.capacity or position in self._taken_capacity

    # Counters

    def _consume_counters(self, pool_index: int, content: DeviceContent) -> bool:
        """Consume the counters of a device, if all counters of the pool suffice then."""
        available = self._available.get(pool_index)
        if available is None:
            available = self._available[pool_index] = self._count_available(self._pools[pool_index])
        consumed = self._consumed.setdefault(pool_index, {})
        for name, counters in content.counters:
            for counter, amount in counters:
                consumed[name, counter] = consumed.get((name, counter), ZERO).plus(amount)
        for name, left in available.items():
            for counter, amount in left.items():
                if consumed.get((name, counter), ZERO).exceeds(amount):
                    self._release_counters(pool_index, content)
                    return False
        return True

    def _release_counters(self, pool_index: int, content: DeviceContent) -> None:
        consumed = self._consumed[pool_index]
        for name, counters in content.counters:
            for counter, amount in counters:
                consumed[name, counter] = consumed[name, counter].minus(amount)

    def _count_available(self, pool: Pool) -> dict[str, dict[str, Quantity]]:
        """Return the counters of a pool without those of allocated devices; they may be negative."""
        left = {name: dict(counters) for name, counters in pool.counter_sets.items()}
        for content in self._consumers(pool):
            for name, counters in content.counters:
                for counter, amount in counters:
                    left[name][counter] = left[name][counter].minus(amount)
        return left

    def _consumers(self, pool: Pool) -> Iterator[DeviceContent]:
        """Return the allocated devices of a pool that consume counters."""
        pairs = (*zip(pool.ids, pool.contents, strict=True), *zip(pool.other_ids, pool.other_contents, strict=True))
        return (content for device, content in pairs if content.counters and self._usage.is_allocated(device))

    def _groups_of(self, pool_index: int) -> CompatibilityGroups:
        found = self._groups.get(pool_index)
        if found is None:
            found = self._groups[pool_index] = CompatibilityGroups(self._consumers(self._pools[pool_index]))
        return found

    # After the search

    def _check_node_selectors(self, number: int, solution: ClaimSolution) -> None:
        """Raise AllocationError if the node selector of the allocation cannot be built."""
        for each in solution.devices:
            pool = self._pools[each.position[0]]
            devices, place = pool.slices[each.position[1]]
            source = devices.spec.devices[place] if devices.spec.per_device_node_selection else devices.spec
            if source.node_name is not None or pool.contents[each.position[1]].binds_to_node:
                return
            terms = source.node_selector.node_selector_terms if source.node_selector is not None else ()
            if len(terms) > 1:
                text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
                raise AllocationError(f"create NodeSelector for claim {CLAIM_NAME}: {text}", number)
