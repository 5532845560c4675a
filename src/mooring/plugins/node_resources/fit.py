"""NodeResourcesFit: rejects nodes without enough free resources, and scores the others by their allocation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.devices import DEVICE_CLASS_PREFIX, DeviceClass
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import RequestRules, amounts, is_extended
from mooring.columns.table import NOT_OFFERED
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    Lister,
    NodeInfo,
    Nodes,
    Plugin,
    PodTemplate,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    depends_on,
)
from mooring.framework.placements import ProposedPlacements
from mooring.framework.what_if import Ints
from mooring.plugins.dynamic_resources.device_state import extended_resources
from mooring.plugins.dynamic_resources.extended_resources import ExtendedResources, is_device_resource
from mooring.plugins.node_resources.columns import FreeColumns
from mooring.plugins.node_resources.device_counts import device_counts
from mooring.plugins.node_resources.resource_allocation import (
    AllocationScorer,
    Plan,
    fits_empty,
    freed_by,
    grown,
    has_given_amounts,
    tracked,
    tracked_requests,
)
from mooring.plugins.node_resources.scoring import ScoringStrategy

Mask = npt.NDArray[np.bool_]

#: The bits of a verdict code: unresolvable, too many pods, and from _FIRST_RESOURCE on one bit per offered resource.
_UNRESOLVABLE, _TOO_MANY_PODS, _FIRST_RESOURCE = 0, 1, 2
#: The number of bits of a code that fit in an int64.
_CODE_BITS = 63

_UNPREPARED = Status.error('error reading "PreFilterNodeResourcesFit" from cycleState: not found')


class Provided:
    """Which of a pod's resources DeviceClasses provide.

    Attributes:
        delegated: The places of resources that a class provides on nodes where no device plugin does.
        missing: The places of resources that neither a node nor a class provides.
    """

    __slots__ = ("delegated", "missing")

    def __init__(self, delegated: frozenset[int], missing: frozenset[int]) -> None:
        self.delegated = delegated
        self.missing = missing


_NONE: frozenset[int] = frozenset()
_NOTHING_PROVIDED = Provided(_NONE, _NONE)


class Demand:
    """The requests of a pod, and the statuses of nodes where they do not fit.

    A tenant can request thousands of resources that no node offers. They are insufficient on all nodes, or a
    DeviceClass provides them; they have no bit in the codes and no column.
    """

    __slots__ = ("_absent", "_narrow", "_resolved", "_statuses", "amounts", "names", "places", "resources")

    def __init__(self, resources: list[str], amounts: list[tuple[int, int]]) -> None:
        self.resources = resources
        #: The places in ``resources`` of those that a node offers, their names, and their slots and requests.
        self.places: Sequence[int] = range(len(resources))
        self.names, self.amounts, self._absent = resources, amounts, _NONE
        for slot, _ in amounts:
            if slot == NOT_OFFERED:
                self._leave_out()
                break
        self._narrow = len(self.places) + _FIRST_RESOURCE <= 8
        #: The version of the classes, and what they mean for the requests.
        self._resolved: tuple[int, Provided] = (-1, _NOTHING_PROVIDED)
        self._statuses: dict[tuple[int, Provided], Status] = {}

    def _leave_out(self) -> None:
        """Leave out the resources that no node offers."""
        amounts = self.amounts
        self.places = [place for place, (slot, _) in enumerate(amounts) if slot != NOT_OFFERED]
        self.names = [self.resources[place] for place in self.places]
        self.amounts = [amounts[place] for place in self.places]
        self._absent = frozenset(place for place, (slot, _) in enumerate(amounts) if slot == NOT_OFFERED)

    def provided(self, classes: ExtendedResources) -> Provided:
        """Return which resources DeviceClasses provide."""
        version, found = self._resolved
        if version != classes.version:
            if not classes and not self._absent:
                self._resolved = classes.version, _NOTHING_PROVIDED
                self._statuses.clear()
                return _NOTHING_PROVIDED
            delegated = frozenset(
                place
                for place, name in enumerate(self.resources)
                if classes.get(name) is not None and is_device_resource(name)
            )
            found = Provided(delegated, self._absent - delegated)
            self._resolved = classes.version, found
            self._statuses.clear()
        return found

    def code(self, mask: Mask, number: int) -> npt.NDArray[np.integer]:
        """Return codes with one bit set where the mask is true."""
        return mask.view(np.uint8) * np.uint8(1 << number) if self._narrow else mask.astype(np.int64) << number

    def status(self, provided: Provided, code: int) -> Status:
        """Return the status that the bits of a code stand for, with all reasons."""
        status = self._statuses.get((code, provided))
        if status is None:
            reasons = ["Too many pods"] if code >> _TOO_MANY_PODS & 1 else []
            bits = enumerate(self.places, start=_FIRST_RESOURCE)
            lacking = provided.missing.union(place for number, place in bits if code >> number & 1)
            reasons += [f"Insufficient {self.resources[place]}" for place in sorted(lacking)]
            make = Status.unresolvable if code >> _UNRESOLVABLE & 1 else Status.unschedulable
            status = self._statuses[code, provided] = make(*reasons)
        return status


_DEMAND: StateKey[Demand] = StateKey("PreFilterNodeResourcesFit")
_PLAN: StateKey[Plan] = StateKey("PreScoreNodeResourcesFit")


class NodeResourcesFitArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Resources to ignore, and the scoring strategy."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesFit(Plugin[NodeResourcesFitArgs]):
    """Rejects nodes without room; scores by LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    template_part = "requests"

    classes = Lister(DeviceClass, events=ActionType(0))

    def setup(self) -> None:
        """Create the scorer."""
        self._extended = extended_resources(self.handle)
        self._rules = RequestRules.of(self.handle.release)
        self.handle.lister(DeviceClass).listen(self._class_changed)
        names = (spec.name for spec in self.args.scoring_strategy.resources)
        self._device_resources = frozenset(filter(is_device_resource, names))
        self._devices = device_counts(self.handle) if self._device_resources else None
        self._ignored = frozenset(self.args.ignored_resources)
        self._ignored_groups = frozenset(self.args.ignored_resource_groups)
        self._scorer = AllocationScorer(self.handle.table, self.args.scoring_strategy)
        packing = ScoringStrategy(type="MostAllocated", resources=self.args.scoring_strategy.resources)
        self._packing = AllocationScorer(self.handle.table, packing)
        self._plan_key = (self, "plan")
        self._room = FreeColumns(self.handle.table)

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Drop the cached answers if a class provides other resources than before."""
        names = {each.spec.extended_resource_name if each is not None else None for each in (old, new)}
        if old is None or new is None or len(names) > 1:
            for name in tuple(self.handle.table.row_of):
                self.handle.touch(name)

    # Filter

    @depends_on("template")
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Store the pod's requests."""
        template = self.handle.template(pod)
        demand: Demand | None = template.cache.get(self)  # type: ignore[assignment]  # the key is private to this class
        if demand is None:
            demand = template.cache[self] = self._demand(template)
        state.write(_DEMAND, demand)
        return None

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the requests."""
        return template.resource_key

    @depends_on("node", "pods")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Filter with one comparison per resource; more only if something does not fit."""
        demand = state.get(_DEMAND)
        if demand is None:
            return Verdicts(np.ones(len(nodes), dtype=np.int8), lambda _code: _UNPREPARED, may_fail=True)
        provided = demand.provided(self._extended)
        if nodes.rows is not None:
            room = [nodes.free(name) for name in demand.names]
            allocatable = [nodes.allocatable(name) for name in demand.names]
            return _compare(demand, provided, nodes.allowed_pods - nodes.pod_count, room, allocatable)
        self._room.refresh()
        if not provided.missing and self._room.fits_everywhere(demand.amounts):
            return None
        self._room.flush()
        table, columns, count = nodes.table, self._room.amounts, len(nodes)
        room = [columns[slot] for slot, _ in demand.amounts]
        allocatable = [table.allocatable[slot, :count] for slot, _ in demand.amounts]
        return _compare(demand, provided, self._room.pods, room, allocatable)

    @depends_on("node", "pods")
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        demand = state.get(_DEMAND)
        if demand is None:
            return _UNPREPARED
        table, row = node.table, node.row
        live = type(node) is NodeInfo
        provided = demand.provided(self._extended)
        code = 1 << _TOO_MANY_PODS if node.pod_count >= table.allowed_pods.item(row) else 0
        if provided.missing:
            code |= 1 << _UNRESOLVABLE
        for index, (slot, wanted) in enumerate(demand.amounts):
            allocatable = table.allocatable.item(slot, row)
            if allocatable <= 0 and demand.places[index] in provided.delegated:
                continue
            used = table.requested.item(slot, row) if live else node.requested(demand.names[index])
            if wanted > allocatable - used:
                code |= 1 << _FIRST_RESOURCE + index | (wanted > allocatable) << _UNRESOLVABLE
        return demand.status(provided, code) if code else None

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Count pods and requests; a victim frees its requests."""
        demand, nodes = state.read(_DEMAND), victims.nodes
        allocatable = [nodes.allocatable(name) for name in demand.names]
        values = np.stack([nodes.pod_count, *(nodes.requested(name) for name in demand.names)])
        freed = (victims.amounts(slot) for slot, _ in demand.amounts)
        effects = np.stack([victims.present.astype(np.int64), *freed])
        offered = np.stack([nodes.allowed_pods, *allocatable])
        provided = demand.provided(self._extended)

        def verdicts(taken: Ints) -> Verdicts | None:
            room = offered - taken
            return _compare(demand, provided, room[0], list(room[1:]), allocatable)

        return WhatIf(values, effects, verdicts)

    def _demand(self, template: PodTemplate) -> Demand:
        slots, pod = self.handle.table.slots, template.pod
        asked = tracked_requests(pod, self._rules) if has_given_amounts(pod) else tracked(template.requests)
        ignores = self._ignored or self._ignored_groups
        resources: list[str] = []
        amounts: list[tuple[int, int]] = []
        for name, amount in asked.items():
            if amount > 0 and not (ignores and self._is_ignored(name)):
                resources.append(name)
                amounts.append((slots.get(name, NOT_OFFERED), amount))
        return Demand(resources, amounts)

    def _is_ignored(self, name: str) -> bool:
        ignored = name in self._ignored or name.split("/", 1)[0] in self._ignored_groups
        return ignored and is_extended(name)

    # Score

    @depends_on("template")
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Store the resources that apply to the pod."""
        state.write(_PLAN, self._plan(pod))
        return None

    @depends_on("node", "pods")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Return the strategy's weighted mean over the configured resources."""
        plan = state.get(_PLAN)
        if plan is None:
            plan = self._plan(pod)
        if self._devices is not None and (counts := self._counts(plan)):
            return self._scorer.score_with_devices(plan, nodes.rows, counts)
        return self._scorer.score_rows(plan, nodes.rows)

    @depends_on("node", "pods")
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node."""
        plan = state.get(_PLAN)
        plan = self._plan(pod) if plan is None else plan
        counts = self._counts(plan)
        if counts:
            rows = np.array([node.row], dtype=np.intp)
            return int(self._scorer.score_with_devices(plan, rows, counts)[0])
        return self._scorer.score_row(plan, node.row)

    def score_placements(self, proposed: ProposedPlacements) -> Ints:
        """Score sets of nodes for a PodGroup: prefer those with fewer free resources, whatever the strategy is."""
        return self._packing.score_placements(proposed.placements, proposed.pods)

    def _counts(self, plan: Plan) -> Mapping[str, tuple[Ints, Ints]]:
        """Return the devices, and the allocated ones, of the resources that a class provides, by row."""
        if self._devices is None:
            return {}
        return self._devices.of(self._device_resources.intersection(self._scorer.names_of(plan)))

    def _plan(self, pod: Pod) -> Plan:
        template = self.handle.template(pod)
        plan = template.cache.get(self._plan_key)
        if plan is None:
            plan = template.cache[self._plan_key] = self._scorer.plan(template)
        return plan  # type: ignore[return-value]  # the key is private to this class

    # Events

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for pods that are deleted or scaled down, and nodes that are added or grow."""
        events = [
            ClusterEvent("Pod", ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, self._room_left),
            ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, self._room_added),
        ]
        if self.handle.release.enabled("DRAExtendedResource"):
            events.append(ClusterEvent("DeviceClass", ActionType.ADD | ActionType.UPDATE, _class_provides))
        return events

    def _room_left(self, pod: Pod, old: Pod, new: Pod | None) -> Hint:
        if new is None:
            return Hint.QUEUE if old.node_name or old.status.nominated_node_name else Hint.SKIP
        if new.uid == pod.uid:
            return Hint.QUEUE
        # As upstream, this hint always counts pod-level requests.
        rules = self._rules._replace(pod_level=True)
        return Hint.QUEUE if new.node_name and freed_by(pod, old, new, rules) else Hint.SKIP

    def _room_added(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        offered = amounts(new.status.allocatable)
        asked = [name for name, amount in pod.requests.items() if amount > 0 and is_device_resource(name)]
        delegated = {n for n in asked if offered.get(n, 0) <= 0 and self._extended.get(n) is not None}
        if not fits_empty(pod, new, delegated, self._rules):
            return Hint.SKIP
        return Hint.QUEUE if old is None or delegated or grown(pod, old, new, self._rules) else Hint.SKIP


def _compare(
    demand: Demand, provided: Provided, pods: Ints, room: list[Ints], allocatable: list[Ints]
) -> Verdicts | None:
    """Return verdicts from the free pods, and the free amounts and capacities of each offered resource."""
    rejected = full = pods < 1
    lacking: list[Mask] = []
    for index, (left, (_, wanted)) in enumerate(zip(room, demand.amounts, strict=True)):
        lack = left < wanted
        if demand.places[index] in provided.delegated:  # does not count on nodes whose capacity is 0
            lack &= allocatable[index] > 0
        lacking.append(lack)
        rejected = rejected | lack
    if not provided.missing and not np.count_nonzero(rejected):
        return None
    hopeless = np.full(len(full), bool(provided.missing))
    for lack, offered, (_, wanted) in zip(lacking, allocatable, demand.amounts, strict=True):
        hopeless |= lack & (offered < wanted)
    masks = [hopeless, full, *lacking]
    if len(masks) > _CODE_BITS:
        return _compare_wide(demand, provided, masks)
    codes = demand.code(full, _TOO_MANY_PODS)
    codes |= hopeless.view(np.uint8)  # bit _UNRESOLVABLE
    for number, lack in enumerate(lacking, start=_FIRST_RESOURCE):
        if np.count_nonzero(lack):
            codes |= demand.code(lack, number)
    return Verdicts(codes, partial(demand.status, provided))


def _compare_wide(demand: Demand, provided: Provided, masks: list[Mask]) -> Verdicts:
    """Return verdicts whose codes have more bits than an integer: number the combinations that occur."""
    packed = np.packbits(np.stack(masks, axis=1), axis=1, bitorder="little")
    found, codes = np.unique(packed, axis=0, return_inverse=True)
    bits = [int.from_bytes(each.tobytes(), "little") for each in found]
    if bits and bits[0]:  # there is no feasible node, whose code is 0 and the first
        bits.insert(0, 0)
        codes = codes + 1
    return Verdicts(codes.reshape(-1), lambda code: demand.status(provided, bits[code]))


def _class_provides(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> Hint:
    """Queue if a class now provides a resource that the pod requests."""
    name, asked = new.spec.extended_resource_name, pod.requests
    if old is None:
        if DEVICE_CLASS_PREFIX + new.name in asked:
            return Hint.QUEUE
    elif (old.spec.extended_resource_name or "") == (name or ""):
        return Hint.SKIP
    return Hint.QUEUE if name is not None and name in asked else Hint.SKIP
