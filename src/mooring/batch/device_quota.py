"""Device quotas: how many devices of a class, and how much of their capacity, the pods of a queue may claim.

A queue's capability limits ``deviceclass/NAME`` (a number of devices) and ``DIMENSION.deviceclass/NAME`` (an amount of
their capacity). A claim that several pods of the queue share counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.devices import ResourceClaim
from mooring.api.quantity import Quantity, QuantityError, QuantityLike, parse_quantity, value
from mooring.batch.job import JobInfo
from mooring.batch.task import TaskInfo
from mooring.framework.handle import Handle
from mooring.plugins.dynamic_resources.pod_claims import ClaimsNotReadyError, claim_name

#: The resource that a device quota lacks, in messages.
EXCEEDED: Final = "dra-resource-exceeded"
_COUNT: Final = "deviceclass/"
_CAPACITY: Final = ".deviceclass/"

#: Amounts by the names that queues use.
Demand = dict[str, Quantity]
#: What each claim requests, by ``namespace/name``.
Demands = dict[str, Demand]


def add(total: Demand, more: Mapping[str, Quantity], times: int = 1) -> None:
    """Add amounts, or a multiple of them."""
    for name, amount in more.items():
        part = amount if times == 1 else Quantity(amount.unscaled * times, amount.scale, big=True)
        total[name] = total[name].plus(part) if name in total else part


class DeviceDemands:
    """The devices that pods claim. Requests for all devices, and prioritized lists, do not count, as in Volcano."""

    def __init__(self, handle: Handle, *, capacity: bool = False) -> None:
        """``capacity`` counts the requested capacity too."""
        self._claims = handle.lister(ResourceClaim)
        self._capacity = capacity
        self._known: dict[str, Demands] = {}

    def of(self, task: TaskInfo) -> Demands:
        """Return what the claims of a task request."""
        if not task.pod.spec.resource_claims:
            return {}
        found = self._known.get(task.uid)
        if found is None:
            found = self._known[task.uid] = self._read(task)
        return found

    def _read(self, task: TaskInfo) -> Demands:
        found: Demands = {}
        for entry in task.pod.spec.resource_claims:
            try:
                name = claim_name(task.pod, entry)
            except ClaimsNotReadyError:
                return {}  # the filters hold the pod back
            claim = None if name is None else self._claims.get(name, task.namespace)
            demand = None if claim is None else self._requested(claim)
            if claim is not None and demand:
                found[claim.key] = demand
        return found

    def _requested(self, claim: ResourceClaim) -> Demand:
        found: Demand = {}
        for request in claim.spec.devices.requests:
            exact = request.exactly
            if exact is None or request.first_available or exact.allocation_mode == "All":
                continue
            if not exact.device_class_name:
                continue
            count = exact.count or 1
            add(found, {f"{_COUNT}{exact.device_class_name}": Quantity(count)})
            if self._capacity and exact.capacity is not None:
                add(found, _capacities(exact.device_class_name, exact.capacity.requests), count)
        return found

    def minimum(self, job: JobInfo) -> Demand:
        """Return what the tasks request that a job needs to start. A shared claim counts for each, as in Volcano."""
        tasks = sorted(job.tasks.values(), key=lambda task: (task.namespace, task.name, task.uid))
        claiming = [task for task in tasks if self.of(task)]
        total: Demand = {}
        if not job.role_minimums:
            for task in claiming[: max(job.min_available, 0)]:
                self._add(total, task, 1)
            return total
        roles: dict[str, TaskInfo] = {}
        for task in claiming:
            roles.setdefault(task.role, task)
        for role, task in roles.items():
            self._add(total, task, max(job.role_minimums.get(role, 0), 0))
        return total

    def _add(self, total: Demand, task: TaskInfo, times: int) -> None:
        for demand in self.of(task).values() if times else ():
            add(total, demand, times)


def _capacities(device_class: str, requests: Mapping[str, QuantityLike]) -> Demand:
    try:
        return {f"{name}{_CAPACITY}{device_class}": parse_quantity(amount) for name, amount in requests.items()}
    except QuantityError:
        return {}  # the API server does not accept such a claim


class DeviceQuota:
    """The device quota of a queue, and what its pods have claimed."""

    __slots__ = ("_classes", "_users", "allocated", "inqueue", "limits")

    def __init__(self, capability: Mapping[str, QuantityLike]) -> None:
        self.limits: Demand = {}
        self._classes: set[str] = set()
        for name, amount in capability.items():
            if name.find(_CAPACITY) > 0:
                self.limits[name] = parse_quantity(amount)
                self._classes.add(name.partition(_CAPACITY)[2])
            elif name.startswith(_COUNT):
                self.limits[name] = Quantity(value(amount))
                self._classes.add(name.removeprefix(_COUNT))
        #: What tasks with a node have claimed, and what jobs that were admitted in this session will claim.
        self.allocated: Demand = {}
        self.inqueue: Demand = {}
        #: The number of tasks with a node that use a claim.
        self._users: dict[str, int] = {}

    def copy(self) -> DeviceQuota:
        """Return a copy for a simulation."""
        made = DeviceQuota({})
        made.limits, made._classes = self.limits, self._classes
        made.allocated, made.inqueue, made._users = dict(self.allocated), dict(self.inqueue), dict(self._users)
        return made

    def take(self, demands: Demands) -> None:
        """Count the claims of a task; those that another task uses are counted already."""
        for claim, demand in demands.items():
            users = self._users.get(claim, 0)
            if not users:
                add(self.allocated, demand)
            self._users[claim] = users + 1

    def give_back(self, demands: Demands) -> None:
        """Stop counting the claims of a task, unless another task uses them."""
        for claim, demand in demands.items():
            users = self._users.pop(claim, 0)
            if users > 1:
                self._users[claim] = users - 1
            elif users:
                add(self.allocated, demand, -1)

    def allows_task(self, demands: Demands) -> bool:
        """Return whether the claims of a task are within the quota."""
        total: Demand = {}
        for claim, demand in demands.items():
            if not self._users.get(claim):
                add(total, demand)
        return self._fits(total, (self.allocated,))

    def allows_job(self, minimum: Demand) -> bool:
        """Return whether a job can be admitted."""
        return self._fits(minimum, (self.allocated, self.inqueue))

    def admit(self, minimum: Demand) -> None:
        """Count the devices that an admitted job will claim."""
        add(self.inqueue, minimum)

    def _fits(self, wanted: Demand, used: Iterable[Demand]) -> bool:
        for name, amount in wanted.items():
            is_capacity = _CAPACITY in name
            device_class = name.partition(_CAPACITY)[2] if is_capacity else name.removeprefix(_COUNT)
            limit = self.limits.get(name)
            if device_class not in self._classes or (limit is None and not is_capacity):
                continue  # no limit
            if limit is None:
                return False
            if not is_capacity and limit.unscaled <= 0:
                continue  # a count of 0 is no limit
            future = amount
            for each in used:
                future = future.plus(each.get(name, Quantity(0)))
            if future.exceeds(limit):
                return False
        return True


def device_quota(capability: Mapping[str, QuantityLike]) -> DeviceQuota | None:
    """Return the device quota of a queue; None if it has none."""
    quota = DeviceQuota(capability)
    return quota if quota.limits else None


def device_counts(demands: Iterable[Demands]) -> dict[str, str]:
    """Return the numbers of devices that tasks have claimed, for the status of a queue."""
    quota = DeviceQuota({})
    for each in demands:
        quota.take(each)
    return {name: str(amount.scaled(0)) for name, amount in quota.allocated.items() if name.startswith(_COUNT)}
