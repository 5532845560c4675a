"""DeviceScoring: scores the devices that a pod would get, and so chooses nodes and devices.

kube-scheduler does not score devices: it takes the first ones that satisfy the claims. This plugin is disabled by
default.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from mooring.api.pod import Pod
from mooring.framework import ArgsError, DeviceAllocation, NodeDevice, Plugin


class DeviceScoringArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The strategy, the attribute that it reads, and the scores of the attribute's values."""

    strategy: str = "Fragmentation"
    attribute: str = ""
    scores: Mapping[str, int] = {}


class DeviceScoring(Plugin[DeviceScoringArgs]):
    """Scores allocations by one of four strategies.

    ``MostAllocated`` and ``LeastAllocated`` count the devices of the node that are not free afterwards.
    ``Fragmentation`` keeps whole groups of devices free: the partitions of one device or, with ``attribute``, the
    devices with the same value of it, such as a NUMA node or a link domain. ``Attribute`` scores the chosen devices by
    the value of an attribute.
    """

    def setup(self) -> None:
        """Check the arguments. Raises ArgsError."""
        strategies: dict[str, Callable[[DeviceAllocation], float]] = {
            "MostAllocated": lambda allocation: 100 - _free_percent(allocation),
            "LeastAllocated": _free_percent,
            "Fragmentation": self._unfragmented,
            "Attribute": self._by_attribute,
        }
        found = strategies.get(self.args.strategy)
        if found is None:
            problem = f"{self.args.strategy} is unknown; use one of {', '.join(strategies)}"
            raise ArgsError(self.name, "strategy", problem)
        if self.args.strategy == "Attribute" and not (self.args.attribute and self.args.scores):
            raise ArgsError(self.name, "strategy", "Attribute needs attribute and scores")
        self._strategy = found
        #: Allocations are the same objects in later attempts, as long as no device of the nodes changes.
        self._known: weakref.WeakKeyDictionary[DeviceAllocation, float] = weakref.WeakKeyDictionary()

    def score_allocation(self, pod: Pod, allocation: DeviceAllocation) -> float:
        """Score by the strategy."""
        found = self._known.get(allocation)
        if found is None:
            found = self._known[allocation] = self._strategy(allocation)
        return found

    def _unfragmented(self, allocation: DeviceAllocation) -> float:
        """Return the share of pairs of devices of one group that stay together: both free, or both for the pod."""
        groups = [self._group(place, device) for place, device in enumerate(allocation.devices)]
        sizes = Counter(groups)
        before = Counter(group for group, free in zip(groups, allocation.free_before, strict=True) if free)
        after = Counter(group for group, free in zip(groups, allocation.free_after, strict=True) if free)
        mine = Counter(groups[place] for place in allocation.chosen)
        pairs = sum(size * size for size in sizes.values())
        broken = sum(count**2 - after[group] ** 2 - mine[group] ** 2 for group, count in before.items())
        return 100 * (1 - broken / pairs) if pairs else 100.0

    def _group(self, place: int, device: NodeDevice) -> object:
        if self.args.attribute:
            value = device.attribute(self.args.attribute)
            return place if value is None else (device.driver, value)
        return (device.pool, device.counter_sets) if device.counter_sets else place

    def _by_attribute(self, allocation: DeviceAllocation) -> float:
        values = [device.attribute(self.args.attribute) for device in allocation.chosen_devices]
        scores = [0 if value is None else self.args.scores.get(_text(value), 0) for value in values]
        return sum(scores) / len(scores) if scores else 0.0


def _free_percent(allocation: DeviceAllocation) -> float:
    """Return the share of free devices, among those of the drivers of the chosen ones."""
    drivers = {device.driver for device in allocation.chosen_devices}
    free = [
        is_free
        for device, is_free in zip(allocation.devices, allocation.free_after, strict=True)
        if device.driver in drivers
    ]
    return 100 * sum(free) / len(free) if free else 100.0


def _text(value: str | int | bool) -> str:
    """Return a value with its spelling in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
