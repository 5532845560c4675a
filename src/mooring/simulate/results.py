"""Collects the results of a run: the state of each pod, and the outcome at the end."""

from __future__ import annotations

import difflib
from typing import Final

import msgspec

from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue.queued_pod import Place
from mooring.simulate.outcome import NodeOutcome, Outcome, PodOutcome, State, Use
from mooring.simulate.scenario import Scenario, ScenarioPod

_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_FIRST: Final = ("pods", "cpu", "memory")


class _Entry(msgspec.Struct):
    """What is known of one pod."""

    state: State
    node: str | None = None
    attempts: int = 0
    message: str = ""
    victims: tuple[str, ...] = ()
    evicted_by: str | None = None


class Books:
    """The results of a run so far: an entry for each pod of a scenario."""

    def __init__(self, scenario: Scenario, *, seed: int, profiles: tuple[str, ...]) -> None:
        self._scenario = scenario
        self._seed = seed
        self._profiles = profiles
        self._entries = {each.pod.uid: self._first_entry(each.pod) for each in scenario.pods}
        #: The pods that the engine is to find a node for, by uid.
        self.waiting = {each.pod.uid: each.pod for each in scenario.pods if self._is_ours(each.pod)}
        self.total = len(self.waiting)
        self._attempts = 0

    def _is_ours(self, pod: Pod) -> bool:
        return not pod.node_name and not pod.is_terminating and pod.scheduler_name in self._profiles

    def _first_entry(self, pod: Pod) -> _Entry:
        if pod.node_name:
            return _Entry(State.RUNNING, pod.node_name)
        if pod.is_terminating:
            return _Entry(State.PENDING, message="the pod is being deleted")
        name = pod.scheduler_name
        if name in self._profiles:
            return _Entry(State.PENDING)
        near = difflib.get_close_matches(name, self._profiles, n=1)
        hint = f"; did you mean {near[0]}?" if near else f" (there are {', '.join(self._profiles)})"
        return _Entry(State.PENDING, message=f'no profile has the scheduler name "{name}"{hint}')

    def placed(self, pod: Pod, assumed: AssumedPod) -> None:
        """A pod was bound."""
        self._attempts += 1
        entry = self._entries[pod.uid]
        entry.state, entry.node, entry.message = State.PLACED, assumed.node_name, ""
        entry.attempts = assumed.queued.attempts
        self.waiting.pop(pod.uid, None)

    def failed(self, failed: FailedAttempt) -> None:
        """An attempt came to nothing."""
        self._attempts += 1
        entry = self._entries[failed.queued.uid]
        entry.attempts = failed.queued.attempts
        entry.message = failed.failure.message

    def evicted(self, victim: Pod, *, by: Pod) -> None:
        """A pod had to leave its node."""
        entry = self._entries[victim.uid]
        entry.state, entry.evicted_by = State.EVICTED, by.key
        winner = self._entries[by.uid]
        winner.victims = (*winner.victims, victim.key)

    # The outcome

    def outcome(self, engine: Engine, *, seconds: float) -> Outcome:
        """Everything that came of it."""
        return Outcome(
            seed=self._seed,
            profiles=self._profiles,
            pods=[self._pod(each, engine) for each in self._scenario.pods],
            nodes=[_node(info) for info in sorted(engine.cache.table.nodes, key=lambda info: info.sequence)],
            attempts=self._attempts,
            seconds=seconds,
            notes=self._scenario.notes,
        )

    def _pod(self, each: ScenarioPod, engine: Engine) -> PodOutcome:
        pod, entry = each.pod, self._entries[each.pod.uid]
        state, message = entry.state, entry.message
        found = engine.queue.find(pod.key) if pod.uid in self.waiting else None
        if found is not None and found[0] is Place.GATED:
            queued = found[1]
            state, message = State.GATED, ", ".join(queued.gating_reasons) or f"held back by {queued.gating_plugin}"
        return PodOutcome(
            namespace=pod.namespace,
            name=pod.name,
            workload=each.workload,
            profile=pod.scheduler_name,
            priority=pod.priority,
            state=state,
            node=entry.node,
            attempts=entry.attempts,
            message=message or ("" if state is not State.PENDING else "not tried"),
            nominated_node=engine.cache.nominator.node_of(pod.uid) or None,
            victims=entry.victims,
            evicted_by=entry.evicted_by,
        )


def _node(info: NodeInfo) -> NodeOutcome:
    offered = [name for name in info.table.slots if info.allocatable(name) or info.requested(name)]
    names = (*_FIRST, *sorted(name for name in offered if name not in _FIRST))
    zone = next((info.labels[key] for key in _ZONES if info.labels.get(key)), "")
    uses = {name: Use(info.requested(name), info.allocatable(name)) for name in names}
    return NodeOutcome(name=info.name, zone=zone, uses=uses)
