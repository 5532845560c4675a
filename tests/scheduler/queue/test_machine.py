"""Whatever happens in whatever order: no pod is lost, doubled, tried twice at a time, or tried out of turn."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.api.pod import Pod
from mooring.framework import ActionType, Hint
from mooring.scheduler.queue import Place, QueuedPod
from mooring.testing import make_node, make_pod
from tests.scheduler.queue.helpers import QueueUnderTest, on

NAMES = st.sampled_from([f"p{number}" for number in range(8)])
PLUGINS = st.sets(st.sampled_from(["Fit", "Ports", "Mute"]), max_size=2)
NODE = make_node("n").obj()


class QueueMachine(RuleBasedStateMachine):
    """Random operations on a queue, beside a plain record of which pods there should be."""

    @initialize(pop_from_backoff=st.booleans(), by_less=st.booleans())
    def start(self, pop_from_backoff: bool, by_less: bool) -> None:
        self.open: set[str] = set()
        self.shut: set[str] = set()
        self.pods: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPod] = {}
        self.uids = 0
        self.pop_from_backoff = pop_from_backoff
        options: dict[str, Any] = {"less": self.less} if by_less else {}
        self.queue = QueueUnderTest(
            {
                "Fit": [on("Node", ActionType.ADD, self.hint), on("Pod", ActionType.UPDATE_POD_LABEL)],
                "Ports": [on("Pod", ActionType.DELETE, self.hint)],
                "Gate": [on("Node", ActionType.ADD)],
                "Mute": [],
            },
            {"Gate": lambda pod: "shut" if pod.name in self.shut else None},
            pop_from_backoff=pop_from_backoff,
            **options,
        )

    @staticmethod
    def order(queued: QueuedPod) -> tuple[int, float]:
        return (-queued.pod.priority, queued.timestamp)

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        return self.order(a) < self.order(b)

    def hint(self, pod: Any, old: object, new: object) -> Hint:
        return Hint.QUEUE if pod.name in self.open else Hint.SKIP

    def waiting(self, *places: Place) -> list[QueuedPod]:
        return [queued for place, queued in self.queue if place in places]

    @rule(name=NAMES, priority=st.integers(0, 2))
    def add(self, name: str, priority: int) -> None:
        if name not in self.pods:
            self.uids += 1
            pod = make_pod(name).uid(f"{name}-{self.uids}").priority(priority).obj()
            self.pods[name] = pod
            self.queue.add(pod)

    @rule(name=NAMES, label=st.sampled_from("ab"), priority=st.integers(0, 2))
    def update(self, name: str, label: str, priority: int) -> None:
        old = self.pods.get(name)
        if old is not None:
            new = make_pod(name).uid(old.uid).priority(priority).label(x=label).obj()
            self.pods[name] = new
            self.queue.update(old, new)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.queue.delete(pod)

    @rule()
    def pop(self) -> None:
        ready = self.waiting(Place.ACTIVE)
        early = [queued for queued in self.waiting(Place.BACKOFF) if queued.rejectors] if self.pop_from_backoff else []
        turn: Any = (
            min(map(self.order, ready), default=None)
            if ready
            else min(((self.queue.backoff_ends(queued), self.order(queued)) for queued in early), default=None)
        )
        assert self.queue.ready is bool(ready or early)
        queued = self.queue.pop()
        assert (queued is None) is (turn is None)
        if queued is not None:
            ends = self.queue.backoff_ends(queued)
            assert (self.order(queued) if ready else (ends, self.order(queued))) == turn
            assert queued.uid not in self.flying
            assert self.pods[queued.pod.name] is queued.pod
            self.flying[queued.uid] = queued

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), plugins=PLUGINS, pending=PLUGINS, waited=st.booleans())
    def fail(self, data: st.DataObject, plugins: set[str], pending: set[str], waited: bool) -> None:
        queued = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
        now = self.pods.get(queued.pod.name)
        latest = now if now is not None and now.uid == queued.uid else None
        place = self.queue.add_unschedulable(
            queued, unschedulable_plugins=plugins, pending_plugins=pending, pod=latest, waited=waited
        )
        assert (place is None) is (now is None or now.uid != queued.uid)
        if place is not None:
            assert place is not Place.UNSCHEDULABLE or plugins or pending
            assert place is not Place.BACKOFF or not (waited and (plugins or pending))

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        queued = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
        if self.pods.get(queued.pod.name, queued.pod).uid == queued.uid:
            self.pods.pop(queued.pod.name, None)
        self.queue.done(queued.uid)

    @rule(names=st.sets(NAMES))
    def activate(self, names: set[str]) -> None:
        self.queue.activate(f"default/{name}" for name in sorted(names))
        stuck = [queued.pod.name for queued in self.waiting(Place.BACKOFF, Place.UNSCHEDULABLE, Place.GATED)]
        assert not {name for name in names & set(stuck) if name not in self.shut}

    @rule(names=st.sets(NAMES))
    def requeue(self, names: set[str]) -> None:
        self.queue.requeue(f"default/{name}" for name in sorted(names))
        assert not names & {queued.pod.name for queued in self.waiting(Place.UNSCHEDULABLE)} - self.shut

    @rule(name=NAMES)
    def fail_preemption(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is None:
            return
        rejected = [queued for queued in self.waiting(Place.UNSCHEDULABLE) if queued.uid == pod.uid]
        self.queue.preemption_failed(pod)
        for queued in rejected:
            if name not in self.shut:
                assert queued in self.waiting(Place.BACKOFF, Place.ACTIVE)
                assert queued.consecutive_errors >= queued.unschedulable_count

    @rule(names=st.sets(NAMES), shut=st.sets(NAMES))
    def change_minds(self, names: set[str], shut: set[str]) -> None:
        self.open, self.shut = names, shut

    @rule(kind=st.sampled_from([("Node", ActionType.ADD), ("AssignedPod", ActionType.DELETE), ("*", ActionType.ALL)]))
    def event(self, kind: tuple[str, ActionType]) -> None:
        before = len(self.waiting(Place.ACTIVE, Place.BACKOFF))
        moved = self.queue.on_event(*kind, None if kind[0] == "*" else NODE, None)
        assert len(self.waiting(Place.ACTIVE, Place.BACKOFF)) == before + moved

    @rule()
    def reject_waiting(self) -> None:
        before = len(self.waiting(Place.BACKOFF))
        self.queue.waiting_pod_rejected(make_pod("held").obj())
        assert len(self.waiting(Place.BACKOFF)) == before

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 2.5, 12.0, 40.0, 310.0]))
    def pass_time(self, seconds: float) -> None:
        next_tick = self.queue.next_tick
        before = len(self.waiting(Place.ACTIVE))
        moved = self.queue.pass_time(seconds)
        assert moved == 0 or self.queue.clock.now >= next_tick
        assert len(self.waiting(Place.ACTIVE)) <= before + moved
        now = self.queue.clock.now
        aligned = now // 1 if self.pop_from_backoff else now
        assert all(self.queue.backoff_ends(queued) >= aligned for queued in self.waiting(Place.BACKOFF))

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        if not hasattr(self, "queue"):
            return
        entries = list(self.queue)
        flying = [queued.uid for place, queued in entries if place is Place.IN_FLIGHT]
        waiting = [queued.uid for place, queued in entries if place is not Place.IN_FLIGHT]
        assert sorted(flying) == sorted(self.flying)
        expected = {pod.uid for pod in self.pods.values()} - set(self.flying)
        assert sorted(waiting) == sorted(expected)
        for place, queued in entries:
            assert self.queue.find(queued.key) == (place, queued) or place is Place.IN_FLIGHT

    @invariant()
    def numbers_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        counted = dict.fromkeys(self.queue.pending(), 0)
        rejected: dict[tuple[str, str], int] = {}
        for place, queued in self.queue:
            if place is not Place.IN_FLIGHT:
                counted[place.value] += 1
                for plugin in queued.rejectors:
                    rejected[plugin, queued.profile] = rejected.get((plugin, queued.profile), 0) + 1
        assert self.queue.pending() == counted
        assert {key: count for key, count in self.queue.counters.rejected.items() if count} == rejected


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
