"""Replay: schedules a workload with departures and queueing, and measures the result over time.

The clock is simulated: it jumps to the next arrival, departure or deadline of the queue. The engine is that of the live
scheduler, with its backoffs, queueing hints and preemption. Binds take no time.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
from collections import Counter
from typing import Final

import msgspec
import numpy as np

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework.plugin_errors import run_loop
from mooring.loading import Setup
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.simulation.bindings import Bindings
from mooring.simulation.fragmentation import fragmentation
from mooring.simulation.tuning.workload import Workload

#: The annotation or label of a node with its price per hour; 1 without it.
PRICE: Final = "mooring.dev/price-per-hour"
#: The start of the simulated time, and how many times fragmentation and spread are measured.
_START, _SAMPLES = 1_700_000_000.0, 200
#: The number of kinds of pods that fragmentation considers: the most frequent ones.
_KINDS = 40
_HOUR = 3600.0


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay measured. Means are over the time from the first to the last arrival."""

    #: The requested share of the resources that pods request, in percent.
    utilization: float
    #: The free share of the cluster, in percent, on nodes without room for a typical pod.
    fragmentation: float
    #: The price of the nodes that have pods, per hour.
    cost: float
    #: The mean waiting time of the pods in seconds, and what 95 % of them stay below.
    waiting: float
    waiting_p95: float
    #: The standard deviation of the requested share of the nodes, in percent points.
    spread: float
    #: The pods without a node at the end, and those evicted for others, in percent of all pods.
    unscheduled: float
    evicted: float
    pods: int

    def as_dict(self) -> dict[str, float]:
        """Return the measures by name."""
        return {name: float(getattr(self, name)) for name in self.__struct_fields__}


class Replay:
    """One replay of a workload with a configuration."""

    def __init__(self, workload: Workload, setup: Setup, *, seed: int = 0) -> None:
        self._workload = workload
        self._now = _START
        self._engine = Engine(
            setup.config, plugins=setup.plugins, clock=lambda: self._now, rng=random.Random(seed), warn=_ignore
        )
        self._bindings = Bindings(self._engine)
        #: (end, number, pod) of running pods, and arrivals without a node by uid.
        self._running: list[tuple[float, int, Pod]] = []
        self._number = {each.pod.uid: number for number, each in enumerate(workload.arrivals)}
        self._waiting: dict[str, float] = {}
        self._waits: list[float] = []
        self._evicted = 0
        self._totals = np.zeros(4)
        self._last = 0.0
        for item in sorted(workload.objects, key=_filling_order):
            self._engine.put(item)
        self._sampler = _Sampler(self._engine, workload)
        end = workload.arrivals[-1].time if workload.arrivals else 0.0
        self._end, self._next_sample = _START + end, _START

    def run(self) -> Measures:
        """Schedule all pods until the last one has arrived."""
        return run_loop(self._run())

    async def _run(self) -> Measures:
        engine, arrivals, next_arrival = self._engine, self._workload.arrivals, 0
        self._sampler.measure()
        while True:
            while engine.queue.ready:
                await self._attempt()
            times = [
                _START + arrivals[next_arrival].time if next_arrival < len(arrivals) else math.inf,
                self._running[0][0] if self._running else math.inf,
                engine.queue.next_tick if self._waiting else math.inf,
                *(pod.next_deadline for pod in engine.profiles.waiting_pods),
            ]
            moment = min(times)
            if moment > self._end:
                break
            self._advance(moment)
            while self._running and self._running[0][0] <= self._now:
                engine.remove(heapq.heappop(self._running)[2])
            while next_arrival < len(arrivals) and _START + arrivals[next_arrival].time <= self._now:
                pod = arrivals[next_arrival].pod
                self._waiting[pod.uid] = self._now
                engine.put(pod)
                next_arrival += 1
            engine.profiles.waiting_pods.expire(self._now)
            await self._finish_waiting()
            engine.queue.tick(self._now)
        self._advance(self._end)
        self._bindings.cancel()
        return self._measures()

    async def _attempt(self) -> None:
        result = self._engine.schedule_one()
        if isinstance(result, AssumedPod):
            if result.waits:
                self._bindings.hold(result)
            elif await self._engine.bind(result) is None:
                self._started(result.pod)
        elif isinstance(result, FailedAttempt):
            for uid in result.victims:
                self._evict(uid)
        if self._bindings:
            await self._finish_waiting()

    async def _finish_waiting(self) -> None:
        async for assumed, failed in self._bindings.finished():
            if failed is None:
                self._started(assumed.pod)

    def _started(self, pod: Pod) -> None:
        status = msgspec.structs.replace(pod.status, phase="Running")
        running = msgspec.structs.replace(pod, status=status)
        running.__dict__.update(pod.__dict__)  # its compiled template
        self._engine.put(running)
        arrived = self._waiting.pop(pod.uid, None)
        if arrived is not None:
            self._waits.append(self._now - arrived)
        number = self._number[pod.uid]
        end = self._now + self._workload.arrivals[number].seconds
        if math.isfinite(end):
            heapq.heappush(self._running, (end, number, running))

    def _evict(self, uid: str) -> None:
        """Remove a victim of preemption. It does not return."""
        held = self._engine.profiles.waiting_pods.get(uid)
        if held is not None:
            held.preempt("DefaultPreemption")
            return
        info = self._engine.cache.table.pods.get(uid)
        if info is not None:
            self._evicted += 1
            self._running = [each for each in self._running if each[2].uid != uid]
            heapq.heapify(self._running)
            self._engine.remove(info.pod)

    # Measures

    def _advance(self, moment: float) -> None:
        """Move the clock. What was measured last counts until then."""
        moment = max(moment, self._now)
        while self._next_sample <= moment:
            self._totals += self._sampler.values * (self._next_sample - self._now)
            self._now = self._next_sample
            self._sampler.measure()
            self._next_sample += max((self._end - _START) / _SAMPLES, 1e-3)
        self._totals += self._sampler.values * (moment - self._now)
        self._now = moment

    def _measures(self) -> Measures:
        span = self._end - _START
        self._sampler.measure()
        means = self._totals / span if span > 0 else self._sampler.values
        utilization, fragmented, cost, spread = means.tolist()
        waits = sorted([*self._waits, *(self._now - arrived for arrived in self._waiting.values())])
        count = len(self._workload.arrivals)
        return Measures(
            utilization=round(utilization, 4),
            fragmentation=round(fragmented, 4),
            cost=round(cost, 4),
            waiting=round(statistics.fmean(waits), 4) if waits else 0.0,
            waiting_p95=round(waits[int(0.95 * (len(waits) - 1))], 4) if waits else 0.0,
            spread=round(spread, 4),
            unscheduled=round(100 * len(self._waiting) / max(count, 1), 4),
            evicted=round(100 * self._evicted / max(count, 1), 4),
            pods=count,
        )


class _Sampler:
    """Measures the current state of the cluster: utilization, fragmentation, cost and spread."""

    def __init__(self, engine: Engine, workload: Workload) -> None:
        table = self._table = engine.cache.table
        kinds: Counter[tuple[tuple[int, int], ...]] = Counter()
        for each in workload.arrivals:
            template = table.template(each.pod)
            kinds[tuple(sorted((table.slot(name), amount) for name, amount in template.requests.items()))] += 1
        frequent = kinds.most_common(_KINDS)
        slots = sorted({slot for kind, _ in frequent for slot, amount in kind if amount})
        self._slots = slots
        self._sizes = np.zeros((len(frequent), len(slots) + 1), dtype=np.int64)
        self._sizes[:, -1] = 1
        for number, (kind, _) in enumerate(frequent):
            for slot, amount in kind:
                if amount:
                    self._sizes[number, slots.index(slot)] = amount
        counts = np.array([count for _, count in frequent], dtype=np.float64)
        self._popularity = counts / max(counts.sum(), 1.0)
        self._prices = np.array([_price(info.node) for info in table.nodes])
        self.values = np.zeros(4)

    def measure(self) -> None:
        """Measure now."""
        table, count = self._table, len(self._table)
        if not count or not self._slots:
            return
        capacity = table.allocatable[self._slots, :count].T
        used = table.requested[self._slots, :count].T
        room = (table.allowed_pods - table.pod_count)[:count]
        free = np.column_stack([capacity - used, room])
        shares = used.sum(axis=0) / np.maximum(capacity.sum(axis=0), 1)
        busiest = (used / np.maximum(capacity, 1)).max(axis=1)
        self.values = np.array(
            [
                100 * float(shares.mean()),
                fragmentation(free, capacity, self._sizes, self._popularity),
                float(self._prices[table.pod_count[:count] > 0].sum()),
                100 * float(busiest.std()),
            ]
        )


def _price(node: Node) -> float:
    text = node.metadata.annotations.get(PRICE) or node.metadata.labels.get(PRICE, "1")
    try:
        price = float(text)
    except ValueError:
        return 1.0
    return price if math.isfinite(price) else 1.0


def _filling_order(item: KubeObject) -> int:
    return 0 if isinstance(item, Node) else 2 if isinstance(item, Pod) else 1


def _ignore(event: str, **details: object) -> None:
    """Ignore warnings: a search repeats them for every candidate."""
