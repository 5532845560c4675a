"""Pools: the devices that one node can use, from the ResourceSlices that reach it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec

from mooring.api.affinity import NodeSelector
from mooring.api.devices import Device, DeviceAttribute, DeviceTaint, ResourceSlice
from mooring.api.quantity import Quantity, parse_quantity
from mooring.plugins.dynamic_resources.allocator_features import AllocatorFeatures, allocator_features
from mooring.plugins.dynamic_resources.capacity import Capacity
from mooring.releases import Release

if TYPE_CHECKING:
    from mooring.cel.devices import CelDevice

#: Driver, pool and name of a device.
DeviceID = tuple[str, str, str]
PoolID = tuple[str, str]
#: Counter set -> counter -> amount.
Counters = Mapping[str, Mapping[str, Quantity]]
#: Decides whether the node matches a selector. Raises PoolError if the selector is invalid.
NodeMatches = Callable[[NodeSelector], bool]

#: The declared feature of nodes whose kubelet can skip operations on devices.
SKIPS_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
#: Effects that keep a device from being allocated. Others, also unknown ones, are ignored.
_PREVENTING: Final = frozenset({"NoSchedule", "NoExecute"})


class PoolError(ValueError):
    """The slices of a node cannot be evaluated. The text is kube-scheduler's."""


class DeviceContent:
    """What a device is, apart from its name: devices with the same content are interchangeable."""

    __slots__ = (
        "__weakref__",
        "attributes",
        "binding_conditions",
        "binds_to_node",
        "capacities",
        "cel_device",
        "counters",
        "device",
        "driver",
        "failure_conditions",
        "groups",
        "is_selectable",
        "lacks_counters",
        "multiple",
        "number",
        "seen_multiple",
        "taints",
    )

    def __init__(self, number: int, driver: str, device: Device, features: AllocatorFeatures) -> None:
        #: Equal for equal content.
        self.number = number
        self.driver = driver
        self.device = device
        self.attributes: Mapping[str, DeviceAttribute] = device.attributes
        self.capacities = {name: Capacity.of(each) for name, each in device.capacity.items()}
        self.counters: tuple[tuple[str, tuple[tuple[str, Quantity], ...]], ...] = tuple(
            (each.counter_set, tuple((name, parse_quantity(counter.value)) for name, counter in each.counters.items()))
            for each in (device.consumes_counters if features.partitionable_devices else ())
        )
        #: The compatibility groups of the device, by counter set.
        self.groups = tuple(
            (each.counter_set, frozenset(each.compatibility_groups)) for each in device.consumes_counters
        )
        #: Whether it consumes counters although partitionable devices are disabled, so it cannot be allocated.
        self.lacks_counters = bool(device.consumes_counters) and not features.partitionable_devices
        self.taints: tuple[DeviceTaint, ...] = tuple(each for each in device.taints if each.effect in _PREVENTING)
        self.multiple = bool(device.allow_multiple_allocations) and features.consumable_capacity
        #: Whether selectors see a device that can be shared.
        self.seen_multiple = bool(device.allow_multiple_allocations) and not features.is_oldest
        self.binds_to_node = bool(device.binds_to_node) and not features.is_oldest
        self.binding_conditions = device.binding_conditions
        self.failure_conditions = device.binding_failure_conditions if features.binding_conditions else ()
        #: Whether requests can select it. It cannot be selected if its binding conditions are disabled.
        self.is_selectable = features.binding_conditions or not device.binding_conditions
        #: The device as CEL selectors see it; set on first use.
        self.cel_device: CelDevice | None = None

    def attribute(self, name: str) -> DeviceAttribute | None:
        """Return an attribute by its full name; the driver's own attributes may be written without its domain."""
        found = self.attributes.get(name)
        if found is not None:
            return found
        domain, slash, plain = name.partition("/")
        return self.attributes.get(plain) if slash and domain == self.driver else None


class DeviceContents:
    """The contents of the devices of slices, each once. A content that no slice has any more is dropped."""

    def __init__(self, features: AllocatorFeatures) -> None:
        self._features = features
        self._known: WeakValueDictionary[tuple[str, bytes], DeviceContent] = WeakValueDictionary()
        #: Numbers are not used again, since answers are cached by number.
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, driver: str, device: Device) -> DeviceContent:
        """Return the content of a device."""
        plain = msgspec.structs.replace(device, name="", node_name=None, node_selector=None, all_nodes=None)
        key = (driver, _encode(plain))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = DeviceContent(next(self._numbers), driver, device, self._features)
        return found


class SliceDevices:
    """A slice with the contents of its devices."""

    __slots__ = (
        "contents", "counter_sets", "ids", "is_for_all", "is_ignored", "is_unusable", "node_name", "selection",
        "skipping", "spec", "value",
    )  # fmt: skip

    def __init__(self, value: ResourceSlice, contents: DeviceContents, release: Release) -> None:
        spec = self.spec = value.spec
        features = allocator_features(release)
        #: Whether no node can use the slice, although it counts as a part of its pool.
        self.is_unusable = not features.partitionable_devices and (
            spec.per_device_node_selection is not None or bool(spec.shared_counters)
        )
        #: Whether the slice is relevant for all nodes, because it has counters.
        self.is_for_all = (
            bool(spec.shared_counters)
            and not self.is_unusable
            and (features.is_oldest or not release.counter_slices_select_nodes)
        )
        #: Whether the slice is ignored, so its pool is incomplete.
        self.is_ignored = (
            release.refuses_alpha_device_fields
            and not release.enabled("DRADeviceCompatibilityGroups")
            and any(consumed.compatibility_groups for device in spec.devices for consumed in device.consumes_counters)
        )
        #: Whether the devices of nodes that declare the feature, and of those that do not, are refused, because the
        #: kubelet would have to skip operations.
        self.skipping = (False, False)
        if spec.skip_node_operations and release.has_experimental_allocator:
            self.skipping = (not release.enabled(SKIPS_NODE_OPERATIONS), True)
        self.value = value
        self.contents = tuple(contents.of(spec.driver, device) for device in spec.devices)
        self.ids: tuple[DeviceID, ...] = tuple((spec.driver, spec.pool.name, device.name) for device in spec.devices)
        #: The node that the slice belongs to.
        self.node_name = "" if self.is_for_all else spec.node_name or ""
        self.counter_sets = tuple(
            (each.name, {name: parse_quantity(counter.value) for name, counter in each.counters.items()})
            for each in (() if self.is_unusable else spec.shared_counters)
        )
        #: How the nodes of the slice are selected, as it affects the node selector of an allocation.
        self.selection: object = True if spec.node_name is not None else None
        if spec.per_device_node_selection:
            self.selection = tuple((each.node_name is not None, _key(each.node_selector)) for each in spec.devices)
        elif spec.node_name is None:
            self.selection = _key(spec.node_selector)

    @property
    def pool(self) -> PoolID:
        """The pool."""
        return self.spec.driver, self.spec.pool.name

    def reaches(self, node_name: str, matches: NodeMatches) -> bool:
        """Return whether a node can use the slice."""
        spec = self.spec
        if self.is_ignored or self.is_unusable:
            return False
        if self.is_for_all:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return _selected(spec.node_name, spec.all_nodes, spec.node_selector, node_name, matches)
        return bool(spec.per_device_node_selection) and any(self.devices_on(node_name, matches))

    def refuses(self, *, skips: bool) -> bool:
        """Return whether the devices cannot be allocated; ``skips`` is whether the node can skip operations."""
        return self.skipping[0] if skips else self.skipping[1]

    def devices_on(self, node_name: str, matches: NodeMatches) -> tuple[bool, ...]:
        """Return for each device whether the node can use it; empty if the slice selects the nodes."""
        if not self.spec.per_device_node_selection:
            return ()
        return tuple(
            _selected(each.node_name, each.all_nodes, each.node_selector, node_name, matches)
            for each in self.spec.devices
        )


def _key(selector: NodeSelector | None) -> object:
    return None if selector is None else _encode(selector)


def _selected(
    name: str | None, all_nodes: bool | None, selector: NodeSelector | None, node_name: str, matches: NodeMatches
) -> bool:
    if name:
        return name == node_name
    return bool(all_nodes) or (selector is not None and matches(selector))


class Pool:
    """A pool as a node sees it.

    An incomplete pool lacks slices, because its driver is updating it. An invalid pool contradicts itself. No device of
    either is allocated.
    """

    __slots__ = (
        "contents",
        "counter_sets",
        "id",
        "ids",
        "is_incomplete",
        "is_invalid",
        "layout",
        "on_node",
        "other_contents",
        "other_ids",
        "refused",
        "slices",
        "state",
        "users",
    )

    def __init__(self, pool: PoolID, *, incomplete: bool = False, invalid: bool = False) -> None:
        self.id = pool
        self.is_incomplete = incomplete
        self.is_invalid = invalid
        #: The devices in the order in which they are tried.
        self.ids: tuple[DeviceID, ...] = ()
        self.contents: tuple[DeviceContent, ...] = ()
        #: The slice of each device, and its place there.
        self.slices: tuple[tuple[SliceDevices, int], ...] = ()
        #: Whether the node can use each device; empty if it can use all.
        self.on_node: tuple[bool, ...] = ()
        #: Whether each device is refused on the node; empty if none is.
        self.refused: tuple[bool, ...] = ()
        #: Devices of the pool on other nodes, which consume counters too.
        self.other_ids: tuple[DeviceID, ...] = ()
        self.other_contents: tuple[DeviceContent, ...] = ()
        self.counter_sets: Counters = {}
        #: Equal for pools that are searched in the same way, apart from what is in use.
        self.layout: object = (pool, incomplete, invalid)
        #: A number for the layout and for what is in use; the owner sets it.
        self.state = -1
        #: The names of the nodes that use the pool.
        self.users: set[str] = set()

    @property
    def is_usable(self) -> bool:
        """Whether devices of the pool can be allocated."""
        return not (self.is_incomplete or self.is_invalid)

    @property
    def has_binding_conditions(self) -> bool:
        """Whether a device has binding conditions. Such pools are tried last."""
        return any(content.binding_conditions for content in self.contents)

    @property
    def sort_key(self) -> tuple[bool, PoolID]:
        """The order of pools."""
        return self.has_binding_conditions, self.id


def gather_pool(
    pool: PoolID,
    relevant: Sequence[SliceDevices],
    in_cluster: Iterable[SliceDevices],
    node_name: str,
    matches: NodeMatches,
    *,
    skips: bool = False,
) -> Pool | None:
    """Build a pool from the slices that reach a node; ``in_cluster`` are all slices of the pool.

    ``skips`` is whether the node declares that it can skip operations on devices.

    Return None if the driver is replacing the slices, and none of the new ones reaches the node.
    """
    generation = max(each.spec.pool.generation for each in relevant)
    current = [each for each in relevant if each.spec.pool.generation == generation]
    count = current[0].spec.pool.resource_slice_count
    others: list[SliceDevices] = []
    if len(current) != count:
        every = list(in_cluster)
        if any(each.spec.pool.generation > generation for each in every):
            return None
        every = [each for each in every if each.spec.pool.generation == generation and not each.is_ignored]
        if len(every) != count:
            return Pool(pool, incomplete=True)
        names = {each.value.name for each in current}
        others = [each for each in every if each.value.name not in names]
    current.sort(key=lambda each: each.value.name)
    return _build(pool, current, others, node_name, matches, skips=skips)


def _build(
    pool: PoolID,
    current: Sequence[SliceDevices],
    others: Sequence[SliceDevices],
    node_name: str,
    matches: NodeMatches,
    *,
    skips: bool,
) -> Pool:
    with_devices = [each for each in current if not each.spec.shared_counters]
    ids = tuple(device for each in with_devices for device in each.ids)
    counter_sets: dict[str, Mapping[str, Quantity]] = {}
    duplicate = len(set(ids)) != len(ids)
    for each in (*current, *others):
        for name, counters in each.counter_sets:
            duplicate |= name in counter_sets
            counter_sets[name] = counters
    if duplicate or not all(_consumes_known(each, counter_sets) for each in (*current, *others)):
        return Pool(pool, invalid=True)
    made = Pool(pool)
    made.ids = ids
    made.contents = tuple(content for each in with_devices for content in each.contents)
    made.slices = tuple((each, place) for each in with_devices for place in range(len(each.ids)))
    if any(each.spec.per_device_node_selection for each in with_devices):
        made.on_node = tuple(
            on_node
            for each in with_devices
            for on_node in (each.devices_on(node_name, matches) or (True,) * len(each.ids))
        )
    if any(each.refuses(skips=skips) for each in with_devices):
        made.refused = tuple(each.refuses(skips=skips) for each in with_devices for _ in each.ids)
    if counter_sets:
        made.other_ids = tuple(device for each in others for device in each.ids)
        made.other_contents = tuple(content for each in others for content in each.contents)
    made.counter_sets = counter_sets
    made.layout = (
        pool[0],
        tuple(content.number for content in made.contents),
        tuple(content.number for content in made.other_contents),
        tuple((len(each.ids), each.selection) for each in with_devices),
        made.on_node,
        made.refused,
        _encode({name: dict(counters) for name, counters in counter_sets.items()}) if counter_sets else b"",
    )
    return made


def _consumes_known(devices: SliceDevices, counter_sets: Counters) -> bool:
    """Return whether all counters that the devices consume exist."""
    return all(
        name in counter_sets and all(counter in counter_sets[name] for counter, _ in counters)
        for content in devices.contents
        for name, counters in content.counters
    )


def gather_pools(
    node_name: str,
    slices: Iterable[SliceDevices],
    in_pool: Callable[[PoolID], Iterable[SliceDevices]],
    matches: NodeMatches,
    *,
    skips: bool = False,
) -> list[Pool]:
    """Return the pools of a node, in the order in which they are tried."""
    relevant: dict[PoolID, list[SliceDevices]] = {}
    for each in slices:
        if each.reaches(node_name, matches):
            relevant.setdefault(each.pool, []).append(each)
    found = [gather_pool(pool, mine, in_pool(pool), node_name, matches, skips=skips) for pool, mine in relevant.items()]
    return sorted((pool for pool in found if pool is not None), key=lambda pool: pool.sort_key)
