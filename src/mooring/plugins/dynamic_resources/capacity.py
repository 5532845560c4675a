"""Consumable capacity: how much of a device's capacity a request consumes, and whether there is room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api.devices import CapacityRequestPolicy, DeviceCapacity
from mooring.api.quantity import (
    ZERO,
    Quantity,
    QuantityLike,
    canonical_quantity,
    format_quantity,
    is_binary_quantity,
    parse_quantity,
)
from mooring.releases import Release


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


class CapacityError(ValueError):
    """The attempt has to stop: a requested capacity makes no sense. The text is kube-scheduler's."""


_NOT_REPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"
_MAX_INT64: Final = 2**63 - 1

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
    step: Amount | None = None

    @classmethod
    def of(cls, given: DeviceCapacity) -> Capacity:
        """Parse a capacity."""
        policy = given.request_policy
        return cls(Amount.of(given.value)) if policy is None else _with_policy(Amount.of(given.value), policy)

    def consumed(self, requested: Amount | None, release: Release) -> Amount:
        """Return what a request consumes: the requested amount rounded up, the default, or everything.

        Raises CapacityError.
        """
        if requested is None:
            return self.value if self.default is None else self.default
        if self.has_range and self.low is not None:
            return self._in_range(requested, self.low, release)
        for value in self.values:
            if not requested.quantity.exceeds(value.quantity):
                return value
        return requested

    def _in_range(self, requested: Amount, low: Amount, release: Release) -> Amount:
        if low.quantity.exceeds(requested.quantity):
            return low
        scale = self._scale(release)
        step = self._step_at(scale)
        if self.step is None or step <= 0:
            return requested
        checks = release.checks_capacity_requests
        if scale < 0 and not _is_whole(requested.quantity, scale):
            raise CapacityError(
                f"{_NOT_REPRESENTABLE}: request {requested.canonical} is not a representable milli value"
            )
        if checks and scale == 0 and requested.quantity.exceeds(Quantity(_MAX_INT64)):
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested.canonical} exceeds MaxInt64")
        start = low.quantity.scaled(scale)
        added = requested.quantity.scaled(scale) - start
        steps = abs(added) // step * (1 if added >= 0 else -1) + bool(added % step)  # as Go divides
        total = start + steps * step
        if checks and start >= 0 and total > _MAX_INT64:
            limit = "the milli-value range" if scale < 0 else "MaxInt64"
            text = f"rounding request {requested.canonical} up to the next step passes {limit}"
            raise CapacityError(f"{_NOT_REPRESENTABLE}: {text}")
        if scale < 0 and total % 1000:
            return Amount(Quantity(total, scale), format_quantity(total, milli=True))
        if scale < 0:
            total //= 1000
        binary = not checks or is_binary_quantity(self.step.text)
        return Amount(Quantity(total), format_quantity(total, binary=binary))

    def _scale(self, release: Release) -> int:
        """Return the unit of a range's arithmetic, as a power of ten: thousandths if all limits allow it."""
        if not release.enabled("DRAFractionalCapacityRange"):
            return 0
        limits = (self.low, self.high, self.step)
        exact = all(each is None or _is_whole(each.quantity, -3) for each in limits)
        return -3 if exact and (self.step is None or self.step.quantity.scaled(-3) >= 1) else 0

    def _step_at(self, scale: int) -> int:
        return 0 if self.step is None else self.step.quantity.scaled(scale)

    def refuses(self, consumed: Amount, release: Release) -> bool:
        """Return whether the policy forbids an amount."""
        if not self.has_policy or (self.default is not None and consumed.is_same(self.default)):
            return False
        if self.has_range:
            if self.high is not None and consumed.quantity.exceeds(self.high.quantity):
                return True
            scale = self._scale(release)
            if scale < 0 and self.step is not None and not _is_whole(consumed.quantity, scale):
                return True
            start, step = self.low.quantity.scaled(scale) if self.low is not None else 0, self._step_at(scale)
            return step > 0 and (consumed.quantity.scaled(scale) - start) % step != 0
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
        step=None if limits is None or limits.step is None else Amount.of(limits.step),
    )


def _equal(one: Quantity, other: Quantity) -> bool:
    return not one.exceeds(other) and not other.exceeds(one)


def _is_whole(amount: Quantity, scale: int) -> bool:
    """Return whether an amount is a multiple of a power of ten, and fits into 64 bits in that unit."""
    return _equal(amount, Quantity(amount.scaled(scale), scale))


def consumption(requested: Amounts, capacities: Mapping[str, Capacity], release: Release) -> dict[str, Amount] | None:
    """Return what a request consumes of each capacity of a device; None if the device cannot serve the request.

    Raises CapacityError.
    """
    if not all(name in capacities for name in requested):
        return None
    found: dict[str, Amount] = {}
    for name, capacity in capacities.items():
        try:
            found[name] = capacity.consumed(requested.get(name), release)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if release.checks_capacity_requests and ZERO.exceeds(found[name].quantity):
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    if any(capacity.refuses(found[name], release) for name, capacity in capacities.items()):
        return None
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
