"""Several attempts in one scheduler process: what each decides, who waits at Permit, and what comes of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import parse_time
from mooring.api.pod import Pod
from mooring.framework.state import CycleState
from mooring.framework.status import Code, PostFilterResult, Status
from mooring.scheduler import binding
from mooring.scheduler.build import Profiles
from mooring.scheduler.cycle import Cycle
from mooring.scheduler.queue import QueuedPod
from mooring.simulate.look import Look, look, show

#: What an attempt takes: enough to tell earlier from later, too little for any wait to end.
_MOMENT: Final = 0.001
#: When the first attempt is made: later than any time in a case.
_START: Final = 4_102_444_800.0


class Clock:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.now = _START

    def __call__(self) -> float:
        """The time, in seconds since the epoch."""
        return self.now


class Held(msgspec.Struct, frozen=True):
    """A pod at Permit, and what happened before."""

    pod: Pod
    node_name: str
    state: CycleState
    cycle: Cycle


class Attempts:
    """Tries pods in a given order; nothing is evicted or bound outside, it all counts as done at once."""

    def __init__(self, profiles: Profiles, clock: Clock) -> None:
        self._profiles = profiles
        self._cache = profiles.cache
        self._clock = clock
        self._loop: asyncio.Runner
        #: The newest version of each pod.
        self._pods: dict[str, Pod] = {}
        #: Nodes that pods were nominated to by attempts of this run.
        self._nominated: dict[str, str] = {}
        self._held: dict[str, Held] = {}
        #: Pods whose wait is over, and how.
        self._settled: list[tuple[str, Status]] = []
        #: Pods that were evicted.
        self._gone: set[str] = set()

    def run(self, pods: list[Pod], elapse: Mapping[int, float]) -> dict[str, Any]:
        """Try the pods one after the other."""
        self._pods = {pod.uid: pod for pod in pods}
        result: dict[str, Any] = {"queueOrder": self._order()}
        attempts: list[dict[str, Any]] = []
        with asyncio.Runner() as self._loop:
            for number, pod in enumerate(pods):
                if number in elapse:
                    attempts.append(self._pass(elapse[number]))
                self._clock.now += _MOMENT
                attempts.append({"pod": pod.key, **self._attempt(pod.uid)})
        result["attempts"] = attempts
        result["queueOrderAfter"] = self._order()
        if self._held:
            result["waiting"] = sorted(held.pod.key for held in self._held.values())
        return result

    def _order(self) -> list[str]:
        """The pods in the order of the queue, if all were in it from the moment that they were created."""
        less = self._profiles.first.profile.queue_sort[0].call

        def compare(a: QueuedPod, b: QueuedPod) -> int:
            return -1 if less(a, b) else int(less(b, a))

        return [queued.key for queued in sorted(map(_queued, self._pods.values()), key=functools.cmp_to_key(compare))]

    def _pass(self, seconds: float) -> dict[str, Any]:
        """Let time pass."""
        until = self._clock.now + seconds
        changes = self._settle(until)
        self._clock.now = until
        changes.pop("allowed", None)
        return {"elapsedSeconds": int(seconds) if seconds == int(seconds) else seconds, **changes}

    # One attempt

    def _attempt(self, uid: str) -> dict[str, Any]:
        pod, table = self._pods[uid], self._cache.table
        if uid in table.pods or uid in self._gone:
            return {"skipped": True}
        cycle = self._profiles.cycles.get(pod.scheduler_name, self._profiles.first)
        found = look(cycle, pod)
        shown = found.shown
        if not shown["filter"]:
            del shown["filter"]
        node_name = self._choose(found, uid)
        if node_name is not None:
            shown |= {"node": node_name, **self._place(cycle, found.state, pod, node_name)}
        elif found.outcome is not None:
            self._turned_down(pod, found.outcome)
        else:
            self._nominate(pod, "")
        return shown | self._settle(self._clock.now)

    def _choose(self, found: Look, uid: str) -> str | None:
        """The node to take: the one that room was made on, or the best."""
        nominated = self._nominated.get(uid)
        if nominated is not None and "filter" in found.shown and found.passes(nominated):
            for key in ("scores", "totals"):
                found.shown.pop(key, None)
            return nominated
        return found.best

    def _place(self, cycle: Cycle, state: CycleState, pod: Pod, node_name: str) -> dict[str, Any]:
        profile = cycle.profile
        assumed = self._cache.assume(pod, node_name).pod
        shown: dict[str, Any] = {}
        status = binding.reserve(profile, state, assumed, node_name)
        if status.is_success:
            status = binding.permit(profile, state, assumed, node_name)
            shown["permit"] = {key: value for key, value in show(status).items() if key != "plugin"}
        else:
            shown["reserve"] = show(status)
        held = Held(assumed, node_name, state, cycle)
        if status.is_success:
            self._bind(held)
        elif status.code is Code.WAIT:
            shown["permit"] = {"code": status.code.title, "timeoutSeconds": self._hold(held)}
        else:
            self._undo(held)
        if state.pods_to_activate:
            shown["activated"] = sorted(state.pods_to_activate)
        return shown

    def _hold(self, held: Held) -> float:
        """Wait for a pod at Permit; how long, at most."""
        uid = held.pod.uid
        waiting = self._profiles.waiting_pods.get(uid)
        assert waiting is not None
        self._held[uid] = held
        seconds = waiting.seconds
        waiting.when_settled(lambda status: self._settled.append((uid, status)))
        return int(seconds) if seconds == int(seconds) else seconds

    def _bind(self, held: Held) -> None:
        profile = held.cycle.profile
        _, working = binding.pre_flight(profile, held.state, held.pod, held.node_name)
        status = self._loop.run(binding.bind(profile, held.state, held.pod, held.node_name, working))
        if status.is_success:
            self._cache.put(held.pod)
        else:
            self._undo(held)

    def _undo(self, held: Held) -> None:
        binding.unreserve(held.cycle.profile, held.state, held.pod, held.node_name)
        self._cache.forget(held.pod)
        if held.pod.uid in self._gone:
            self._cache.remove(held.pod)
        else:
            self._nominate(self._pods[held.pod.uid], "")

    # What comes of it

    def _settle(self, until: float) -> dict[str, Any]:
        """See waits to their end that are over by then, in order, with all that follows from each."""
        allowed: list[str] = []
        rejected: list[dict[str, str]] = []
        waiting = self._profiles.waiting_pods
        while True:
            while self._settled:
                uid, status = self._settled.pop(0)
                held = self._held.pop(uid)
                waiting.remove(uid)
                if status.is_success:
                    allowed.append(held.pod.key)
                    self._bind(held)
                else:
                    rejected.append({"pod": held.pod.key, "plugin": status.plugin, "reason": status.message})
                    self._undo(held)
            if waiting.next_deadline > until:
                break
            self._clock.now = max(self._clock.now, waiting.next_deadline)
            waiting.expire(self._clock.now)
        shown: dict[str, Any] = {}
        if allowed:
            shown["allowed"] = sorted(allowed)
        if rejected:
            shown["rejected"] = sorted(rejected, key=lambda each: each["pod"])
        return shown

    def _turned_down(self, pod: Pod, outcome: PostFilterResult) -> None:
        self._evict(outcome.victims)
        if outcome.nominated_node is not None:
            self._nominate(pod, outcome.nominated_node)

    def _evict(self, victims: Iterable[str]) -> None:
        for uid in victims:
            self._gone.add(uid)
            victim = self._cache.table.pods[uid].pod
            waiting = self._profiles.waiting_pods.get(uid)
            if waiting is not None:
                waiting.reject("", "preempted")
            else:
                self._cache.remove(victim)

    def _nominate(self, pod: Pod, node_name: str) -> None:
        """Keep room for a pod on a node, or for the empty name stop doing so."""
        if node_name:
            self._nominated[pod.uid] = node_name
        else:
            self._nominated.pop(pod.uid, None)
            self._cache.nominator.remove(pod.uid)
        status = msgspec.structs.replace(pod.status, nominated_node_name=node_name)
        self._pods[pod.uid] = changed = msgspec.structs.replace(pod, status=status)
        self._cache.put(changed)


def _queued(pod: Pod) -> QueuedPod:
    created = parse_time(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0.0
    queued = QueuedPod.new(pod, created)
    queued.initial_attempt_timestamp = created
    return queued
