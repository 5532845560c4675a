"""ResultBuilder: collects the state of each pod during a run, and builds the outcome at the end."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION
from mooring.columns.node_info import NodeInfo
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue.queued_pod import Place
from mooring.simulation.gang_results import Member, gang_outcomes, queue_outcomes
from mooring.simulation.outcome import (
    GangOutcome,
    NodeOutcome,
    Outcome,
    PluginFailures,
    PodOutcome,
    QueueOutcome,
    State,
    Use,
)
from mooring.simulation.scenario import Scenario, ScenarioPod

if TYPE_CHECKING:
    from mooring.simulation.jobs import JobPods
    from mooring.simulation.sessions import SessionResult, Sessions

_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_FIRST: Final = ("pods", "cpu", "memory")


class _Entry(msgspec.Struct):
    """The state of one pod."""

    state: State
    node: str | None = None
    attempts: int = 0
    message: str = ""
    victims: tuple[str, ...] = ()
    evicted_by: str | None = None


class ResultBuilder:
    """The results of a run so far: an entry for each pod of a scenario."""

    def __init__(
        self, scenario: Scenario, *, seed: int, profiles: tuple[str, ...], sessions: tuple[str, ...] = ()
    ) -> None:
        """``profiles`` and ``sessions`` are scheduler names."""
        self._scenario = scenario
        self._seed = seed
        self._profiles = profiles
        self._sessions = sessions
        self._entries = {each.pod.uid: self._first_entry(each.pod) for each in scenario.pods}
        #: The pods that the engine schedules and that have no node yet, by uid.
        self.waiting = {each.pod.uid: each.pod for each in scenario.pods if self._has_profile(each.pod)}
        #: The uids of the pods that sessions schedule and that have no node yet.
        self.waiting_for_sessions = {each.pod.uid for each in scenario.pods if self._is_for_sessions(each.pod)}
        self.total = len(self.waiting) + len(self.waiting_for_sessions)
        #: The first failure of each plugin.
        self._first_failures: dict[str, PluginFailures] = {}
        self._attempts = 0
        self._warnings: dict[str, None] = {}

    def _has_profile(self, pod: Pod) -> bool:
        return not pod.node_name and not pod.is_terminating and pod.scheduler_name in self._profiles

    def _is_for_sessions(self, pod: Pod) -> bool:
        return not pod.node_name and not pod.is_terminating and pod.scheduler_name in self._sessions

    def _first_entry(self, pod: Pod) -> _Entry:
        if pod.node_name:
            return _Entry(State.RUNNING, pod.node_name)
        if pod.is_terminating:
            return _Entry(State.PENDING, message="the pod is being deleted")
        name = pod.scheduler_name
        known = (*self._profiles, *self._sessions)
        if name in known:
            return _Entry(State.PENDING)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else f" (there are {', '.join(known)})"
        return _Entry(State.PENDING, message=f'no profile has the scheduler name "{name}"{hint}')

    def placed(self, pod: Pod, assumed: AssumedPod) -> None:
        """Record a bound pod."""
        self._attempts += 1
        entry = self._entries[pod.uid]
        entry.state, entry.node, entry.message = State.PLACED, assumed.node_name, ""
        entry.attempts = assumed.queued.attempts
        self.waiting.pop(pod.uid, None)

    def failed(self, failed: FailedAttempt) -> None:
        """Record a failed attempt."""
        self._attempts += 1
        entry = self._entries[failed.queued.uid]
        entry.attempts = failed.queued.attempts
        entry.message = failed.failure.message

    def evicted(self, victim: Pod, *, by: Pod) -> None:
        """Record an evicted pod and its preemptor."""
        entry = self._entries[victim.uid]
        entry.state, entry.evicted_by = State.EVICTED, by.key
        winner = self._entries[by.uid]
        winner.victims = (*winner.victims, victim.key)

    def warned(self, event: str, *, plugin: str, error: str = "", traceback: str = "", **_: object) -> None:
        """Handle a log event about a plugin."""
        if event == "plugin failed" and plugin not in self._first_failures:
            self._first_failures[plugin] = PluginFailures(plugin=plugin, count=1, first=error, traceback=traceback)

    def session(self, result: SessionResult) -> None:
        """Record the result of a session."""
        for uid, message in result.reasons.items():
            entry = self._entries[uid]
            entry.message = message
            entry.attempts += 1
        for pod in result.bound:
            entry = self._entries[pod.uid]
            entry.state, entry.node, entry.message = State.PLACED, pod.node_name, ""
            entry.attempts += 1
            self.waiting_for_sessions.discard(pod.uid)
        for pod, action in result.evicted:
            entry = self._entries[pod.uid]
            entry.state, entry.message = State.EVICTED, f"evicted by a session (action {action})"
        self._attempts += len(result.reasons) + len(result.bound)
        self._warnings |= dict.fromkeys(result.warnings)

    # The outcome

    def outcome(
        self, engine: Engine, *, seconds: float, sessions: Sessions | None = None, jobs: JobPods | None = None
    ) -> Outcome:
        """Return the outcome of the run."""
        gangs: list[GangOutcome] = []
        queues: list[QueueOutcome] = []
        if sessions is not None and jobs is not None:
            gangs = gang_outcomes(sessions, self._members())
            queues = queue_outcomes(sessions, gangs)
            self._explain_pods(gangs, jobs)
        return Outcome(
            session_names=self._sessions,
            sessions=sessions.count if sessions is not None else 0,
            gangs=gangs,
            queues=queues,
            seed=self._seed,
            profiles=self._profiles,
            pods=[self._pod(each, engine) for each in self._scenario.pods],
            nodes=[_node(info) for info in sorted(engine.cache.table.nodes, key=lambda info: info.sequence)],
            attempts=self._attempts,
            seconds=seconds,
            notes=[*self._scenario.notes, *_warnings(engine), *self._warnings],
            plugin_failures=[self._failures(each, engine) for each in self._first_failures.values()],
        )

    @staticmethod
    def _failures(first: PluginFailures, engine: Engine) -> PluginFailures:
        failures = engine.guards.health.failures
        count = sum(count for (plugin, _), count in failures.items() if plugin == first.plugin)
        return msgspec.structs.replace(first, count=max(count, 1))

    def _members(self) -> dict[str, list[Member]]:
        """Return the pods of each gang, without evicted ones."""
        found: dict[str, list[Member]] = {}
        for each in self._scenario.pods:
            entry, gang = self._entries[each.pod.uid], _gang_of(each.pod)
            if gang is not None and entry.state is not State.EVICTED:
                found.setdefault(gang, []).append(Member(each.workload, entry.state))
        return found

    def _explain_pods(self, gangs: Sequence[GangOutcome], jobs: JobPods) -> None:
        """Set the message of pods that no session considered to the reason of their job or gang."""
        of = {gang.key: gang.message for gang in gangs}
        for pod, reason in jobs.waiting():
            text = reason or of.get(_gang_of(pod) or "") or "its job is not admitted to its queue"
            self._entries[pod.uid].message = f"the pod was not created: {text}"
        for each in self._scenario.pods:
            entry, key = self._entries[each.pod.uid], _gang_of(each.pod)
            if each.pod.uid in self.waiting_for_sessions and not entry.message and key is not None:
                entry.message = of.get(key, f"there is no PodGroup {key}")

    def _pod(self, each: ScenarioPod, engine: Engine) -> PodOutcome:
        pod, entry = each.pod, self._entries[each.pod.uid]
        state, message = entry.state, entry.message
        found = engine.queue.find(pod.key) if pod.uid in self.waiting else None
        if found is not None and found[0] is Place.GATED:
            queued = found[1]
            state, message = State.GATED, ", ".join(queued.gating_reasons) or f"held back by {queued.gating_plugin}"
        elif pod.uid in self.waiting_for_sessions and (gates := pod.spec.scheduling_gates):
            state, message = State.GATED, f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]"
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
            gang=_gang_of(pod) if pod.scheduler_name in self._sessions else None,
        )


def _warnings(engine: Engine) -> list[str]:
    guards = [guard for guards in engine.guards.by_plugin().values() for guard in guards]
    return [f"plugin {guard.name}: {text}" for guard in guards for text in guard.placed_warnings()]


def _gang_of(pod: Pod) -> str | None:
    group = pod.annotations.get(GROUP_ANNOTATION)
    return None if group is None else f"{pod.namespace}/{group}"


def _node(info: NodeInfo) -> NodeOutcome:
    offered = [name for name in info.table.slots if info.allocatable(name) or info.requested(name)]
    names = (*_FIRST, *sorted(name for name in offered if name not in _FIRST))
    zone = next((info.labels[key] for key in _ZONES if info.labels.get(key)), "")
    uses = {name: Use(info.requested(name), info.allocatable(name)) for name in names}
    return NodeOutcome(name=info.name, zone=zone, uses=uses)
