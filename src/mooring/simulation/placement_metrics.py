"""Metrics of placements over time: utilization, GPU allocation and fragmentation, waiting times, balance and cost.

GAR, SOR, GFR and JWTD are named as in the Kant paper (arXiv 2510.01256); `docs/record-and-replay.md` defines them.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.meta import OwnerReference
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import amounts
from mooring.api.volcano import GROUP_ANNOTATION
from mooring.columns.node_share import group_of

#: Labels with the instance type of a node.
_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
#: The number of moments at which nodes are counted.
_SAMPLES: Final = 200
_HOUR: Final = 3600.0


def is_gpu(resource: str) -> bool:
    """Return whether a resource is whole GPUs, such as nvidia.com/gpu."""
    return resource.endswith("/gpu")


class Waiting(msgspec.Struct, frozen=True):
    """The waiting times of jobs of a size, in seconds."""

    jobs: int
    mean: float
    p50: float
    p90: float
    p99: float


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a run. Shares are between 0 and 1."""

    #: Resource -> requested amount times time, divided by allocatable amount times time.
    utilization: dict[str, float]
    #: GPU Allocation Ratio, Scheduling Occupancy Rate, GPU Node Fragmentation Ratio; None without GPUs.
    gar: float | None
    sor: float | None
    gfr: float | None
    #: Job Waiting Time Distribution: GPUs of the job -> waiting times.
    jwtd: dict[str, Waiting]
    #: The standard deviation of the CPU utilization of nodes, and the mean share of the fullest node of each workload.
    node_imbalance: float
    workload_concentration: float
    #: Node-hours of nodes with at least one pod, and their price if prices are given.
    busy_node_hours: float
    cost: float | None


class _NodeAccount:
    __slots__ = ("amounts", "busy_since", "kind", "pods", "used")

    def __init__(self, amounts: dict[str, int], kind: str) -> None:
        self.amounts = amounts
        self.kind = kind
        self.used: Counter[str] = Counter()
        self.pods = 0
        self.busy_since = 0.0


class _JobAccount:
    """A job: a gang, the pods of a Job, or a pod that belongs to neither."""

    __slots__ = ("gpus", "most_gpus", "waited")

    def __init__(self) -> None:
        self.gpus = self.most_gpus = 0
        #: The longest waiting time of a pod; None if all had a node from the start.
        self.waited: float | None = None

    def place(self, gpus: int, waited: float | None) -> None:
        self.gpus += gpus
        self.most_gpus = max(self.most_gpus, self.gpus)
        if waited is not None:
            self.waited = max(self.waited or 0.0, waited)


class PlacementMetrics:
    """Accounts for placements as time passes. Times must not decrease."""

    def __init__(self, *, start: float, end: float, prices: Mapping[str, float] | None = None) -> None:
        """``prices`` has the price of a node-hour by instance type, or by the name of the node."""
        self._now = self._start = start
        self._step = (end - start) / _SAMPLES or 1.0
        self._next = start + self._step
        self._prices = prices
        self._nodes: dict[str, _NodeAccount] = {}
        #: UID -> requests, node, workload, job.
        self._placed: dict[str, tuple[dict[str, int], str, str, _JobAccount]] = {}
        self._jobs: defaultdict[str, _JobAccount] = defaultdict(_JobAccount)
        self._total: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._total_time: defaultdict[str, float] = defaultdict(float)
        self._used_time: defaultdict[str, float] = defaultdict(float)
        self._busy: defaultdict[str, float] = defaultdict(float)
        self._workloads: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._allocation: list[float] = []
        self._fragmented: list[float] = []
        self._imbalance: list[float] = []
        self._concentration: list[float] = []

    def advance(self, now: float) -> None:
        """Let time pass."""
        while self._next <= now:
            self._integrate(self._next)
            self._sample()
            self._next += self._step
        self._integrate(now)

    def _integrate(self, now: float) -> None:
        elapsed = now - self._now
        if elapsed <= 0:
            return
        for name, amount in self._total.items():
            self._total_time[name] += amount * elapsed
        for name, amount in self._used.items():
            self._used_time[name] += amount * elapsed
        self._now = now

    def _sample(self) -> None:
        gpus = [name for name in self._total if is_gpu(name)]
        shares: list[float] = []
        with_gpus = fragmented = 0
        for node in self._nodes.values():
            cpu = node.amounts.get("cpu", 0)
            if cpu:
                shares.append(node.used["cpu"] / cpu)
            total = sum(node.amounts.get(name, 0) for name in gpus)
            if total:
                used = sum(node.used[name] for name in gpus)
                with_gpus += 1
                fragmented += 0 < used < total
        if shares:
            self._imbalance.append(statistics.pstdev(shares))
        if with_gpus:
            self._fragmented.append(fragmented / with_gpus)
            self._allocation.append(sum(self._used[name] for name in gpus) / sum(self._total[name] for name in gpus))
        several = [max(nodes.values()) / total for nodes in self._workloads.values() if (total := nodes.total()) > 1]
        if several:
            self._concentration.append(statistics.fmean(several))

    # Changes

    def put_node(self, node: Node) -> None:
        """Add a node, or change its allocatable amounts."""
        allocatable = amounts(node.status.allocatable)
        known = self._nodes.get(node.name)
        if known is None:
            kind = next((node.labels[label] for label in _TYPES if label in node.labels), node.name)
            self._nodes[node.name] = _NodeAccount(allocatable, kind)
        else:
            self._total.subtract(known.amounts)
            known.amounts = allocatable
        self._total.update(allocatable)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        node = self._nodes.pop(name, None)
        if node is None:
            return
        self._total.subtract(node.amounts)
        if node.pods:
            self._busy[node.kind] += self._now - node.busy_since

    def place(self, pod: Pod, node_name: str, *, waited: float | None) -> None:
        """Place a pod. ``waited`` is the time since it was created; None if it had a node from the start."""
        if pod.uid in self._placed:
            return
        requests = pod.requests
        owner = next((each for each in pod.metadata.owner_references if each.controller), None)
        workload = f"{pod.namespace}/{owner.kind}/{owner.name}" if owner is not None else ""
        job = self._jobs[_job(pod, owner)]
        job.place(_gpus(requests), waited)
        self._placed[pod.uid] = (requests, node_name, workload, job)
        self._used.update(requests)
        node = self._nodes.get(node_name)
        if node is not None:
            node.used.update(requests)
            if not node.pods:
                node.busy_since = self._now
            node.pods += 1
        if workload:
            self._workloads[workload][node_name] += 1

    def remove(self, uid: str) -> None:
        """Remove a pod from its node."""
        found = self._placed.pop(uid, None)
        if found is None:
            return
        requests, node_name, workload, job = found
        job.gpus -= _gpus(requests)
        self._used.subtract(requests)
        node = self._nodes.get(node_name)
        if node is not None:
            node.used.subtract(requests)
            node.pods -= 1
            if not node.pods:
                self._busy[node.kind] += self._now - node.busy_since
        if workload:
            nodes = self._workloads[workload]
            nodes[node_name] -= 1
            if not nodes[node_name]:
                del nodes[node_name]
                if not nodes:
                    del self._workloads[workload]

    # Results

    def result(self, end: float) -> Metrics:
        """Return the metrics until a time."""
        self.advance(end)
        for node in self._nodes.values():
            if node.pods:
                self._busy[node.kind] += end - node.busy_since
        gpus = [name for name in self._total_time if is_gpu(name)]
        available = sum(self._total_time[name] for name in gpus)
        hours = {kind: seconds / _HOUR for kind, seconds in self._busy.items()}
        prices = self._prices
        waits: defaultdict[str, list[float]] = defaultdict(list)
        for job in self._jobs.values():
            if job.waited is not None:
                waits[_size(job.most_gpus)].append(job.waited)
        return Metrics(
            utilization={
                name: round(self._used_time[name] / total, 4)
                for name, total in sorted(self._total_time.items())
                if total and self._used_time[name]
            },
            gar=_mean(self._allocation) if available else None,
            sor=round(sum(self._used_time[name] for name in gpus) / available, 4) if available else None,
            gfr=_mean(self._fragmented) if available else None,
            jwtd={size: _waiting(waits[size]) for size in SIZES if size in waits},
            node_imbalance=_mean(self._imbalance) or 0.0,
            workload_concentration=_mean(self._concentration) or 0.0,
            busy_node_hours=round(sum(hours.values()), 3),
            cost=None if not prices else round(sum(prices.get(kind, 0.0) * each for kind, each in hours.items()), 2),
        )


#: The sizes of jobs by their GPUs.
SIZES: Final = ("no GPU", "1 GPU", "2-4 GPUs", "5-8 GPUs", "9-64 GPUs", "more than 64 GPUs")


def _size(gpus: int) -> str:
    for limit, size in zip((0, 1, 4, 8, 64), SIZES, strict=False):
        if gpus <= limit:
            return size
    return SIZES[-1]


def _gpus(requests: Mapping[str, int]) -> int:
    return sum(amount for name, amount in requests.items() if is_gpu(name))


def _job(pod: Pod, owner: OwnerReference | None) -> str:
    """Return what the pod waits together with: its gang, its Job (of any API group), or itself."""
    gang = pod.annotations.get(GROUP_ANNOTATION) or group_of(pod)
    if gang:
        return f"gang {pod.namespace}/{gang}"
    if owner is not None and owner.kind.endswith("Job"):
        return f"{pod.namespace}/{owner.kind}/{owner.name}"
    return f"pod {pod.uid}"


def _waiting(seconds: Sequence[float]) -> Waiting:
    ordered = sorted(seconds)

    def quantile(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return Waiting(len(ordered), round(statistics.fmean(ordered), 3), quantile(0.5), quantile(0.9), quantile(0.99))


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(statistics.fmean(found), 4) if found else None


def changes(before: Metrics, after: Metrics) -> list[dict[str, Any]]:
    """Return the metrics of two runs side by side."""
    rows: list[dict[str, Any]] = []

    def add(name: str, one: float | None, other: float | None) -> None:
        if one is not None or other is not None:
            rows.append({"metric": name, "before": one, "after": other})

    for name in sorted({*before.utilization, *after.utilization}):
        add(f"utilization of {name}", before.utilization.get(name), after.utilization.get(name))
    for field, title in (
        ("gar", "GPU allocation ratio (GAR)"),
        ("sor", "scheduling occupancy rate (SOR)"),
        ("gfr", "GPU node fragmentation ratio (GFR)"),
        ("node_imbalance", "imbalance of nodes"),
        ("workload_concentration", "concentration of workloads"),
        ("busy_node_hours", "busy node-hours"),
        ("cost", "cost"),
    ):
        add(title, getattr(before, field), getattr(after, field))
    for size in SIZES:
        one, other = before.jwtd.get(size), after.jwtd.get(size)
        for name in ("p50", "p90", "p99"):
            add(f"waiting time {name}, {size} (JWTD)", getattr(one, name, None), getattr(other, name, None))
    return rows
