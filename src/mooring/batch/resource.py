"""Resource: amounts of CPU, memory and whatever else, with Volcano's rules for comparing them.

Amounts are floating-point numbers: CPU and other resources in thousandths, memory in bytes, ``pods`` in whole ones.
Differences below 0.1 do not count. Which resources a Resource *names* matters beside their amounts, and so does whether
it names any at all (``scalars`` is None until the first): some comparisons look at the names of one side only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.quantity import QuantityLike, milli_value, value
from mooring.api.resources import is_scalar

#: Less than this is nothing.
MIN_RESOURCE: Final = 0.1
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL: Final = "ephemeral-storage"
#: The greatest amounts, standing for "no limit".
UNLIMITED: Final = 1.7976931348623157e308
UNLIMITED_SCALAR: Final = float(2**63 - 1)


class Resource:
    """Amounts by resource. The methods that change it return it, so that they can be chained."""

    __slots__ = ("cpu", "max_tasks", "memory", "scalars")

    def __init__(self, cpu: float = 0.0, memory: float = 0.0, scalars: dict[str, float] | None = None) -> None:
        self.cpu = cpu
        self.memory = memory
        self.scalars = scalars
        #: For a node: how many pods it takes.
        self.max_tasks = 0

    @classmethod
    def of(cls, amounts: Mapping[str, QuantityLike]) -> Resource:
        """Read amounts as Kubernetes writes them; what the scheduler does not count is left out."""
        result = cls()
        for name, quantity in amounts.items():
            if name == CPU:
                result.cpu += float(milli_value(quantity))
            elif name == MEMORY:
                result.memory += float(value(quantity))
            elif name == PODS:
                result.max_tasks += value(quantity)
                result.add_scalar(name, float(value(quantity)))
            elif name == EPHEMERAL or (not name.startswith("count/") and is_scalar(name)):
                result.add_scalar(name, float(milli_value(quantity)))
        return result

    def clone(self) -> Resource:
        """A copy that can be changed."""
        copy = Resource(self.cpu, self.memory, None if self.scalars is None else dict(self.scalars))
        copy.max_tasks = self.max_tasks
        return copy

    def get(self, name: str) -> float:
        """How much of a resource; 0 of what it does not name."""
        if name == CPU:
            return self.cpu
        if name == MEMORY:
            return self.memory
        return 0.0 if self.scalars is None else self.scalars.get(name, 0.0)

    def add_scalar(self, name: str, amount: float) -> None:
        """Add to a resource other than CPU and memory."""
        if self.scalars is None:
            self.scalars = {}
        self.scalars[name] = self.scalars.get(name, 0.0) + amount

    def names(self) -> list[str]:
        """The resources of which there is something, ``pods`` among them."""
        found = [CPU] if self.cpu >= MIN_RESOURCE else []
        if self.memory >= MIN_RESOURCE:
            found.append(MEMORY)
        if self.scalars:
            found += [name for name, amount in self.scalars.items() if amount >= MIN_RESOURCE]
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing of anything, ``pods`` aside."""
        if self.cpu >= MIN_RESOURCE or self.memory >= MIN_RESOURCE:
            return False
        if self.scalars:
            for name, amount in self.scalars.items():
                if amount >= MIN_RESOURCE and name != PODS:
                    return False
        return True

    # Arithmetic

    def add(self, other: Resource) -> Resource:
        """Add all amounts of another."""
        self.cpu += other.cpu
        self.memory += other.memory
        if other.scalars:
            mine = self.scalars
            if mine is None:
                mine = self.scalars = {}
            for name, amount in other.scalars.items():
                mine[name] = mine.get(name, 0.0) + amount
        return self

    def sub(self, other: Resource) -> Resource:
        """Subtract all amounts of another, below zero if need be; one that names no scalars keeps none."""
        self.cpu -= other.cpu
        self.memory -= other.memory
        mine = self.scalars
        if mine is not None and other.scalars:
            for name, amount in other.scalars.items():
                mine[name] = mine.get(name, 0.0) - amount
        return self

    def multiply(self, ratio: float) -> Resource:
        """Multiply all amounts."""
        self.cpu *= ratio
        self.memory *= ratio
        if self.scalars:
            self.scalars = {name: amount * ratio for name, amount in self.scalars.items()}
        return self

    def raise_to(self, other: Resource) -> Resource:
        """Make every amount at least the other's."""
        self.cpu = max(self.cpu, other.cpu)
        self.memory = max(self.memory, other.memory)
        if other.scalars:
            mine = self.scalars
            if mine is None:
                self.scalars = dict(other.scalars)
                return self
            for name, amount in other.scalars.items():
                if name not in mine or amount > mine[name]:
                    mine[name] = amount
        return self

    def limit_to(self, other: Resource, *, missing_is_unlimited: bool) -> Resource:
        """Make every amount at most the other's; what the other does not name is unlimited, or 0."""
        self.cpu = min(self.cpu, other.cpu)
        self.memory = min(self.memory, other.memory)
        mine, theirs = self.scalars, other.scalars or {}
        if mine is None:
            return self
        for name, amount in mine.items():
            if name in theirs:
                mine[name] = min(amount, theirs[name])
            elif not missing_is_unlimited:
                mine[name] = 0.0
        return self

    # Comparisons

    def fits(self, room: Resource) -> bool:
        """Whether all amounts are at most the other's (0 where it names none), CPU and memory always included."""
        if not (_within(self.cpu, room.cpu) and _within(self.memory, room.memory)):
            return False
        if self.scalars:
            theirs = room.scalars or {}
            for name, amount in self.scalars.items():
                if not _within(amount, theirs.get(name, 0.0)):
                    return False
        return True

    def lacking(self, room: Resource) -> list[str]:
        """The resources that do not fit, as ``fits`` compares: CPU first, then memory, then the others by name."""
        found = [] if _within(self.cpu, room.cpu) else [CPU]
        if not _within(self.memory, room.memory):
            found.append(MEMORY)
        if self.scalars:
            theirs = room.scalars or {}
            found += sorted(n for n, amount in self.scalars.items() if not _within(amount, theirs.get(n, 0.0)))
        return found

    def exceeding(self, room: Resource, asked: Resource) -> list[str]:
        """The resources among those asked for (``pods`` aside) whose amount exceeds the other's, however little."""
        found = [CPU] if asked.cpu > 0 and self.cpu > room.cpu else []
        if asked.memory > 0 and self.memory > room.memory:
            found.append(MEMORY)
        if self.scalars is None or not asked.scalars:
            return found
        theirs = room.scalars or {}
        for name, amount in sorted(asked.scalars.items()):
            if name != PODS and amount > 0 and self.scalars.get(name, 0.0) > theirs.get(name, 0.0):
                found.append(name)
        return found

    def less_in_some(self, other: Resource) -> bool:
        """Whether some amount is less than the other's; a scalar only the other names counts as less."""
        if self.cpu < other.cpu or self.memory < other.memory:
            return True
        mine, theirs = self.scalars or {}, other.scalars or {}
        if any(name not in mine for name in theirs):
            return True
        return any(amount < theirs.get(name, 0.0) for name, amount in mine.items())

    def within_some(self, room: Resource, asked: Resource) -> bool:
        """Whether it fits in at least one asked-for resource, of those that either side has (``pods`` aside)."""
        return any(_within(self.get(name), room.get(name)) for name in self._relevant(room, asked))

    def _relevant(self, room: Resource, asked: Resource) -> Iterable[str]:
        for name in (CPU, MEMORY, *(asked.scalars or ())):
            idle = self.get(name) < MIN_RESOURCE and room.get(name) < MIN_RESOURCE
            if name != PODS and asked.get(name) > 0 and not idle:
                yield name

    def exceeds_some(self, limit: Resource, asked: Resource) -> bool:
        """Whether it exceeds a limit in an asked-for resource that the limit has (``pods`` aside)."""
        if asked.cpu > 0 and limit.cpu >= MIN_RESOURCE and self.cpu > limit.cpu:
            return True
        if asked.memory > 0 and limit.memory >= MIN_RESOURCE and self.memory > limit.memory:
            return True
        theirs = limit.scalars or {}
        return any(
            name != PODS and amount > 0 and name in theirs and self.get(name) > theirs[name]
            for name, amount in (asked.scalars or {}).items()
        )

    def same_as(self, other: Resource) -> bool:
        """Whether all amounts are equal to the last digit; no scalars and none at all are the same."""
        return self.cpu == other.cpu and self.memory == other.memory and (self.scalars or {}) == (other.scalars or {})

    def as_dict(self) -> dict[str, float]:
        """The amounts by name."""
        return {CPU: self.cpu, MEMORY: self.memory, **(self.scalars or {})}

    def __repr__(self) -> str:
        return f"Resource({', '.join(f'{name} {amount:g}' for name, amount in self.as_dict().items())})"


def _within(amount: float, room: float) -> bool:
    return amount < room or abs(amount - room) < MIN_RESOURCE


def exceeded_part(left: Resource, right: Resource) -> Resource:
    """By how much each amount exceeds the other's, 0 where it does not."""
    return changes(left, right)[0]


def changes(new: Resource, old: Resource) -> tuple[Resource, Resource]:
    """What was added to each amount, and what was taken away."""
    more, less = Resource(scalars={}), Resource(scalars={})
    more.cpu, less.cpu = max(new.cpu - old.cpu, 0.0), max(old.cpu - new.cpu, 0.0)
    more.memory, less.memory = max(new.memory - old.memory, 0.0), max(old.memory - new.memory, 0.0)
    for name in {**(new.scalars or {}), **(old.scalars or {})}:
        difference = new.get(name) - old.get(name)
        if difference > 0:
            more.add_scalar(name, difference)
        else:
            less.add_scalar(name, -difference)
    return more, less


def highest(left: Resource, right: Resource) -> Resource:
    """The greater of each amount."""
    result = Resource(max(left.cpu, right.cpu), max(left.memory, right.memory))
    if left.scalars is None and right.scalars is None:
        return result
    result.scalars = {name: amount for name, amount in (left.scalars or {}).items() if amount >= 0}
    for name, amount in (right.scalars or {}).items():
        if amount >= 0:
            result.scalars[name] = max(amount, result.scalars.get(name, 0.0))
    return result


def share(part: float, whole: float) -> float:
    """What part of a whole; of nothing, nothing is 0 and anything is all."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def shared_names(left: Resource, right: Resource) -> list[str]:
    """The resources of which both have something."""
    mine = set(left.names())
    return [name for name in right.names() if name in mine]
