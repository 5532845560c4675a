"""A simulation: the engine with a cluster in memory.

The clock is simulated: when no pod is ready, it jumps to the next time of the queue or of a pod at Permit. Bindings and
evictions succeed at once and are reported to the engine as watch events. The run ends when the final cluster has
rejected every remaining pod, because further attempts would repeat.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mooring.api.meta import format_time
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.queue.queued_pod import Place
from mooring.simulate.bindings import Bindings
from mooring.simulate.outcome import Outcome
from mooring.simulate.results import Books
from mooring.simulate.scenario import Scenario

#: Failures without a change in the cluster after which a pod is not tried again. A rejection repeats; an error or a
#: timeout at Permit may not.
_TURNED_DOWN, _BROKEN = 1, 3
#: Attempts a pod, and seconds, after which a cluster that does not change is taken to be at rest, whatever plugins do.
_MOST_IN_VAIN: Final = 20
_LONGEST_WAIT: Final = 3600.0

#: Called with how many pods have come to an end, and how many there are.
Progress = Callable[[int, int], None]


def simulate(
    scenario: Scenario,
    config: SchedulerConfiguration,
    *,
    plugins: Mapping[str, type[Plugin]] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """Schedule a scenario to its end. The same arguments give the same outcome."""
    return asyncio.run(Run(scenario, config, plugins=plugins, seed=seed, progress=progress).run())


class Run:
    """One simulation, from the first pod to the last."""

    def __init__(
        self,
        scenario: Scenario,
        config: SchedulerConfiguration,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self._scenario = scenario
        self._now = scenario.start
        self._engine = Engine(config, plugins=plugins, clock=lambda: self._now, rng=random.Random(seed))
        self._books = Books(scenario, seed=seed, profiles=tuple(self._engine.profiles.runners))
        self._progress = progress
        self._bindings = Bindings(self._engine)
        #: Rises whenever the cluster changes.
        self._version = 0
        #: Failures of a pod since the cluster last changed: uid -> (version, how many).
        self._failures: dict[str, tuple[int, int]] = {}
        #: The pods that have failed often enough since the cluster last changed.
        self._settled: set[str] = set()
        #: How many attempts were made, and since when, without a change.
        self._in_vain = 0
        self._changed_at = self._now

    async def run(self) -> Outcome:
        """Schedule until nothing changes any more."""
        self._fill()
        while not self._is_over():
            if self._engine.queue.ready:
                await self._step()
            elif not await self._jump():
                break
        self._bindings.cancel()
        return self._books.outcome(self._engine, seconds=self._now - self._scenario.start)

    def _fill(self) -> None:
        engine, scenario = self._engine, self._scenario
        for item in scenario.objects:
            engine.put(item)
        for node in scenario.nodes:
            engine.put(node)
        for each in scenario.pods:
            if each.pod.node_name:
                engine.put(each.pod)
        for pod in self._books.waiting.values():
            engine.put(pod)

    # Attempts

    async def _step(self) -> None:
        """Try one pod."""
        result = self._engine.schedule_one()
        if isinstance(result, FailedAttempt):
            self._failed(result, _BROKEN if result.reason == "SchedulerError" else _TURNED_DOWN)
        elif isinstance(result, AssumedPod):
            await self._bind(result)
        if self._bindings:
            await self._finish_waiting()
        if self._progress is not None:
            waiting = len(self._books.waiting)
            self._progress(self._books.total - waiting + min(len(self._settled), waiting), self._books.total)

    async def _bind(self, assumed: AssumedPod) -> None:
        if assumed.waits:
            self._bindings.hold(assumed)
        else:
            self._bound(assumed, await self._engine.bind(assumed))

    async def _finish_waiting(self) -> None:
        async for assumed, failed in self._bindings.finished():
            self._bound(assumed, failed)

    def _bound(self, assumed: AssumedPod, failed: FailedAttempt | None) -> None:
        if failed is not None:
            self._failed(failed, _BROKEN)
            return
        pod = assumed.pod
        status = msgspec.structs.replace(pod.status, phase="Running", start_time=format_time(self._now))
        running = msgspec.structs.replace(pod, status=status)
        running.__dict__.update(pod.__dict__)  # its compiled template
        self._books.placed(running, assumed)
        self._changed()
        self._engine.put(running)

    def _failed(self, failed: FailedAttempt, enough: int) -> None:
        pod = failed.queued.pod
        self._books.failed(failed)
        version, count = self._failures.get(pod.uid, (-1, 0))
        count = count + 1 if version == self._version else 1
        self._failures[pod.uid] = (self._version, count)
        self._in_vain += 1
        if count >= enough:
            self._settled.add(pod.uid)
        if failed.victims:
            self._evict(failed, pod)

    def _evict(self, failed: FailedAttempt, pod: Pod) -> None:
        for uid in failed.victims:
            held = self._engine.profiles.waiting_pods.get(uid)
            if held is not None:
                held.preempt("DefaultPreemption")
                continue
            info = self._engine.cache.table.pods.get(uid)
            if info is not None:
                self._books.evicted(info.pod, by=pod)
                self._changed()
                self._engine.remove(info.pod)

    def _changed(self) -> None:
        self._version += 1
        self._settled.clear()
        self._in_vain = 0
        self._changed_at = self._now

    # Time

    async def _jump(self) -> bool:
        """Let time pass until something happens; False if nothing will."""
        queue, waiting = self._engine.queue, self._engine.profiles.waiting_pods
        moment = min([queue.next_tick, *(pod.next_deadline for pod in waiting)])
        if math.isinf(moment):
            return False
        self._now = max(moment, math.nextafter(self._now, math.inf))
        waiting.expire(self._now)
        await self._finish_waiting()
        queue.tick(self._now)
        return True

    def _is_over(self) -> bool:
        """Whether the current cluster has rejected every pod without a node."""
        queue, waiting = self._engine.queue, self._books.waiting
        if len(self._settled) + queue.pending()["gated"] < len(waiting):
            # Plugins can requeue pods for ever: by activating each other, or by waiting and rejecting in turn.
            return self._in_vain > _MOST_IN_VAIN * (1 + len(waiting)) or self._now - self._changed_at > _LONGEST_WAIT
        return all(uid in self._settled or _is_gated(queue.find(pod.key)) for uid, pod in waiting.items())


def _is_gated(found: tuple[Place, QueuedPod] | None) -> bool:
    return found is not None and found[0] is Place.GATED
