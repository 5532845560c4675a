"""Resource: amounts of CPU, memory and other resources, with Volcano's arithmetic; and a pod's request.

Amounts are floating-point numbers: CPU and other resources in thousandths, memory in bytes, ``pods`` in whole units.
Differences below 0.1 do not count. Which resources a Resource *names* matters as well as their amounts, and so does
whether it names any (``scalars`` is None until the first): some comparisons use the names of one side only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.pod import Container, ContainerStatus, Pod
from mooring.api.quantity import QuantityLike, milli_value, parse_quantity, value
from mooring.api.resources import is_scalar

#: Smaller amounts count as zero.
MIN_RESOURCE: Final = 0.1
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL: Final = "ephemeral-storage"
_HUGEPAGES: Final = "hugepages-"
#: The greatest amounts, standing for "no limit".
UNLIMITED: Final = 1.7976931348623157e308
UNLIMITED_SCALAR: Final = float(2**63 - 1)


class Resource:
    """Amounts by resource. The methods that change it return it, so that they can be chained."""

    __slots__ = ("cpu", "max_tasks", "memory", "scalars")

    def __init__(self, cpu: float = 0.0, memory: float = 0.0, scalars: dict[str, float] | None = None) -> None:
        #: CPU in thousandths.
        self.cpu = cpu
        #: Memory in bytes.
        self.memory = memory
        #: Other resources in thousandths by name; None if there are none.
        self.scalars = scalars
        #: For a node: its pod limit.
        self.max_tasks = 0

    @classmethod
    def of(cls, amounts: Mapping[str, QuantityLike]) -> Resource:
        """Parse Kubernetes quantities; resources that are not counted are left out. Raises QuantityError."""
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
        """Return a copy."""
        copy = Resource(self.cpu, self.memory, None if self.scalars is None else dict(self.scalars))
        copy.max_tasks = self.max_tasks
        return copy

    def without(self, names: frozenset[str]) -> Resource:
        """Return the amounts without some resources other than CPU and memory; itself if it has none of them."""
        if names.isdisjoint(self.scalars or ()):
            return self
        copy = self.clone()
        copy.scalars = {name: amount for name, amount in (self.scalars or {}).items() if name not in names} or None
        return copy

    def get(self, name: str) -> float:
        """Return the amount of a resource; 0 if it is not named."""
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
        """Return the resources with a non-zero amount, including ``pods``."""
        found = [CPU] if self.cpu >= MIN_RESOURCE else []
        if self.memory >= MIN_RESOURCE:
            found.append(MEMORY)
        if self.scalars:
            found += [name for name, amount in self.scalars.items() if amount >= MIN_RESOURCE]
        return found

    @property
    def is_empty(self) -> bool:
        """Whether all amounts but ``pods`` are zero."""
        if self.cpu >= MIN_RESOURCE or self.memory >= MIN_RESOURCE:
            return False
        if self.scalars:
            for name, amount in self.scalars.items():
                if amount >= MIN_RESOURCE and name != PODS:
                    return False
        return True

    # Arithmetic

    def add(self, other: Resource) -> Resource:
        """Add the amounts of another Resource."""
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
        """Subtract the amounts of another Resource, even below zero; without scalars none are added."""
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
        """Raise every amount to at least the other's."""
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
        """Lower every amount to at most the other's; resources that it does not name are unlimited, or 0."""
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
        """Return whether all amounts are at most the other's (0 if it does not name them), CPU and memory included."""
        if not (_within(self.cpu, room.cpu) and _within(self.memory, room.memory)):
            return False
        if self.scalars:
            theirs = room.scalars or {}
            for name, amount in self.scalars.items():
                if not _within(amount, theirs.get(name, 0.0)):
                    return False
        return True

    def exceeding(self, room: Resource, asked: Resource) -> list[str]:
        """Return the requested resources (except ``pods``) whose amount exceeds the other's, even slightly."""
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
        """Return whether some amount is less than the other's; a scalar only the other names counts as less."""
        if self.cpu < other.cpu or self.memory < other.memory:
            return True
        mine, theirs = self.scalars or {}, other.scalars or {}
        if any(name not in mine for name in theirs):
            return True
        return any(amount < theirs.get(name, 0.0) for name, amount in mine.items())

    def within_some(self, room: Resource, asked: Resource) -> bool:
        """Return whether it fits in at least one requested resource that either side has (except ``pods``)."""
        return any(_within(self.get(name), room.get(name)) for name in self._relevant(room, asked))

    def _relevant(self, room: Resource, asked: Resource) -> Iterable[str]:
        for name in (CPU, MEMORY, *(asked.scalars or ())):
            idle = self.get(name) < MIN_RESOURCE and room.get(name) < MIN_RESOURCE
            if name != PODS and asked.get(name) > 0 and not idle:
                yield name

    def exceeds_some(self, limit: Resource, asked: Resource) -> bool:
        """Return whether it exceeds a limit in a requested resource that the limit has (except ``pods``)."""
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
        """Return whether all amounts are exactly equal; no scalars and empty scalars are the same."""
        return self.cpu == other.cpu and self.memory == other.memory and (self.scalars or {}) == (other.scalars or {})

    def as_dict(self) -> dict[str, float]:
        """Return the amounts by name."""
        return {CPU: self.cpu, MEMORY: self.memory, **(self.scalars or {})}

    def __repr__(self) -> str:
        return f"Resource({', '.join(f'{name} {amount:g}' for name, amount in self.as_dict().items())})"


def _within(amount: float, room: float) -> bool:
    return amount < room or abs(amount - room) < MIN_RESOURCE


def exceeded_part(left: Resource, right: Resource) -> Resource:
    """Return by how much each amount exceeds the other's, at least 0."""
    return changes(left, right)[0]


def changes(new: Resource, old: Resource) -> tuple[Resource, Resource]:
    """Return what was added to each amount, and what was removed."""
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
    """Return the greater of each amount."""
    result = Resource(max(left.cpu, right.cpu), max(left.memory, right.memory))
    if left.scalars is None and right.scalars is None:
        return result
    result.scalars = {name: amount for name, amount in (left.scalars or {}).items() if amount >= 0}
    for name, amount in (right.scalars or {}).items():
        if amount >= 0:
            result.scalars[name] = max(amount, result.scalars.get(name, 0.0))
    return result


def share(part: float, whole: float) -> float:
    """Return part / whole. If the whole is 0, return 0 if the part is 0, otherwise 1."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def shared_names(left: Resource, right: Resource) -> list[str]:
    """Return the resources that are non-zero on both sides."""
    mine = set(left.names())
    return [name for name in right.names() if name in mine]


def pod_request(pod: Pod) -> Resource:
    """Return a pod's request as Volcano computes it: its peak, its overhead, and one of ``pods``."""
    statuses = {status.name: status for status in pod.status.container_statuses}
    result = Resource()
    for container in pod.spec.containers:
        result.add(Resource.of(_requests(pod, container, statuses.get(container.name))))
    _count_init_containers(pod, result)
    result.add_scalar(PODS, 1.0)
    _apply_pod_level(pod, result)
    if pod.spec.overhead:
        result.add(Resource.of(pod.spec.overhead))
    return result


def _count_init_containers(pod: Pod, result: Resource) -> None:
    statuses = {status.name: status for status in pod.status.init_container_statuses}
    beside, peak = Resource(), Resource()
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            own = Resource.of(_requests(pod, container, statuses.get(container.name)))
            result.add(own)
            beside.add(own)
            peak.raise_to(beside)
        else:
            peak.raise_to(Resource.of(container.resources.requests).add(beside))
    result.raise_to(peak)


def _requests(pod: Pod, container: Container, status: ContainerStatus | None) -> Mapping[str, QuantityLike]:
    """Return a container's requests; during a resize the greater of the current and the desired amounts."""
    desired = container.resources.requests
    if status is None or status.resources is None:
        return desired
    infeasible = any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible" for condition in pod.status.conditions
    )
    given = [status.resources.requests, status.allocated_resources]
    amounts: dict[str, QuantityLike] = {} if infeasible else dict(desired)
    for other in given:
        for name, quantity in other.items():
            if name not in amounts or parse_quantity(quantity).exceeds(parse_quantity(amounts[name])):
                amounts[name] = quantity
    return amounts


def _apply_pod_level(pod: Pod, result: Resource) -> None:
    if pod.spec.resources is None:
        return
    asked = Resource.of(pod.spec.resources.requests)
    for name in pod.spec.resources.requests:
        if name == CPU:
            result.cpu = asked.cpu
        elif name == MEMORY:
            result.memory = asked.memory
        elif name.startswith(_HUGEPAGES):
            result.add_scalar(name, asked.get(name) - result.get(name))
