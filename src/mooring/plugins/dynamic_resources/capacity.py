"""Consumable capacity: how much of a device's capacity a request consumes, and whether there is room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from mooring.api.devices import CapacityRequestPolicy, DeviceCapacity
from mooring.api.quantity import (
    Quantity,
    QuantityLike,
    canonical_quantity,
    format_quantity,
    is_binary_quantity,
    parse_quantity,
)


class Amount(NamedTuple):
    """A quantity with its text, which is written back."""

    quantity: Quantity
    text: QuantityLike

    @classmethod
    def of(cls, text: QuantityLike) -> Amount:
        """Parse a quantity."""
        return cls(parse_quantity(text), text)

    @property
    def canonical(self) -> str:
        """The text as Kubernetes writes it."""
        return canonical_quantity(self.text)

    def is_same(self, other: Amount) -> bool:
        """Return whether both are equal in value and form, as upstream compares an amount with the default."""
        if self.quantity.big or other.quantity.big:
            return False
        return self.quantity == other.quantity and is_binary_quantity(self.text) == is_binary_quantity(other.text)


#: Amounts by the name of a capacity.
Amounts = Mapping[str, Amount]


class Capacity(msgspec.Struct, frozen=True):
    """A capacity of a device with its request policy."""

    value: Amount
    default: Amount | None = None
    has_policy: bool = False
    values: tuple[Amount, ...] = ()
    has_range: bool = False
    low: Amount | None = None
    high: Amount | None = None
    step: int = 0

    @classmethod
    def of(cls, given: DeviceCapacity) -> Capacity:
        """Parse a capacity."""
        policy = given.request_policy
        return cls(Amount.of(given.value)) if policy is None else _with_policy(Amount.of(given.value), policy)

    def consumed(self, requested: Amount | None) -> Amount:
        """Return what a request consumes: the requested amount rounded up, the default, or everything."""
        if requested is None:
            return self.value if self.default is None else self.default
        if self.has_range and self.low is not None:
            return self._in_range(requested, self.low)
        for value in self.values:
            if not requested.quantity.exceeds(value.quantity):
                return value
        return requested

    def _in_range(self, requested: Amount, low: Amount) -> Amount:
        if low.quantity.exceeds(requested.quantity):
            return low
        if self.step <= 0:
            return requested
        start = low.quantity.scaled(0)
        added = requested.quantity.scaled(0) - start
        steps = abs(added) // self.step * (1 if added >= 0 else -1) + bool(added % self.step)  # as Go divides
        total = start + steps * self.step
        return Amount(Quantity(total), format_quantity(total, binary=True))

    def refuses(self, consumed: Amount) -> bool:
        """Return whether the policy forbids an amount."""
        if not self.has_policy or (self.default is not None and consumed.is_same(self.default)):
            return False
        if self.has_range:
            if self.high is not None and consumed.quantity.exceeds(self.high.quantity):
                return True
            start = self.low.quantity.scaled(0) if self.low is not None else 0
            return self.step > 0 and (consumed.quantity.scaled(0) - start) % self.step != 0
        if self.values:
            return not any(_equal(consumed.quantity, value.quantity) for value in self.values)
        return False


def _with_policy(value: Amount, policy: CapacityRequestPolicy) -> Capacity:
    limits = policy.valid_range
    return Capacity(
        value,
        default=None if policy.default is None else Amount.of(policy.default),
        has_policy=True,
        values=tuple(map(Amount.of, policy.valid_values)),
        has_range=limits is not None,
        low=None if limits is None or limits.min is None else Amount.of(limits.min),
        high=None if limits is None or limits.max is None else Amount.of(limits.max),
        step=0 if limits is None or limits.step is None else parse_quantity(limits.step).scaled(0),
    )


def _equal(one: Quantity, other: Quantity) -> bool:
    return not one.exceeds(other) and not other.exceeds(one)


def consumption(requested: Amounts, capacities: Mapping[str, Capacity]) -> dict[str, Amount] | None:
    """Return what a request consumes of each capacity of a device; None if the device cannot serve the request."""
    if not all(name in capacities for name in requested):
        return None
    found: dict[str, Amount] = {}
    for name, capacity in capacities.items():
        consumed = capacity.consumed(requested.get(name))
        if capacity.refuses(consumed):
            return None
        found[name] = consumed
    return found


def has_room(
    consumed: Amounts,
    capacities: Mapping[str, Capacity],
    used: Mapping[str, Quantity],
    taken: Mapping[str, Quantity],
) -> bool:
    """Return whether a device has room for an amount besides what others use and what this search has taken."""
    for name, amount in consumed.items():
        total = amount.quantity
        if name in used:
            total = used[name].plus(total)
        if name in taken:
            total = total.plus(taken[name])
        if total.exceeds(capacities[name].value.quantity):
            return False
    return True
