"""Run: a simulation of the engine with a cluster in memory.

The clock is simulated: when no pod is ready, it jumps to the next time of the queue or of a pod at Permit. Bindings and
evictions succeed at once and are reported to the engine as watch events. The run ends when the final cluster has
rejected every remaining pod, because further attempts would repeat.

Batch sessions run on the same cache. On a real cluster, a session collects changes before it starts; here it starts
when no pod of a profile is ready.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.api.meta import format_time
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_errors import run_loop
from mooring.loading import Setup
from mooring.loading.setup import enabled_in
from mooring.loading.watchdog import watching
from mooring.plugins.registry import BUILTIN
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.profiles import known_kinds
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.queue.queued_pod import Place
from mooring.simulation.bindings import Bindings
from mooring.simulation.device_claims import SimulatedClaimWriter, release_claims
from mooring.simulation.outcome import Outcome
from mooring.simulation.results import ResultBuilder
from mooring.simulation.scenario import Scenario, build
from mooring.simulation.session_settings import SessionSettings, session_settings
from mooring.simulation.sources import Given, Source

if TYPE_CHECKING:
    from mooring.simulation.jobs import JobPods
    from mooring.simulation.sessions import Sessions

#: Failures without a change in the cluster after which a pod is not tried again. A rejection repeats; an error or a
#: timeout at Permit may not.
_UNSCHEDULABLE, _ERROR = 1, 3
#: Limits in attempts per pod and in seconds. Beyond them, a cluster that does not change is considered final.
_MAX_FRUITLESS: Final = 20
_LONGEST_WAIT: Final = 3600.0
#: The time until the next session for plugins that depend on the time; it doubles while nothing changes.
_FIRST_PAUSE: Final = 1.0

#: Called with the number of finished pods and the total number.
Progress = Callable[[int, int], None]


def simulate(
    scenario: Scenario,
    config: SchedulerConfiguration,
    *,
    plugins: Mapping[str, type[Plugin]] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    sessions: SessionSettings | None = None,
) -> Outcome:
    """Schedule a scenario until nothing changes. The same arguments give the same outcome."""
    return run_loop(Run(scenario, config, plugins=plugins, seed=seed, progress=progress, sessions=sessions).run())


def simulate_manifests(
    given: Sequence[Given],
    setup: Setup,
    *,
    seed: int = 0,
    conf: Source | None = None,
    scheduler_names: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Outcome:
    """Build a scenario from manifests and schedule it, with batch sessions if it needs them.

    ``conf`` and ``scheduler_names`` are those of sessions. Raises ManifestError, InputError, ConfigError, ProfileError.
    """
    scenario, sessions = build_scenario(given, setup, seed=seed, conf=conf, scheduler_names=scheduler_names)
    return simulate_scenario(scenario, setup, seed=seed, sessions=sessions, progress=progress)


def build_scenario(
    given: Sequence[Given],
    setup: Setup,
    *,
    seed: int = 0,
    conf: Source | None = None,
    scheduler_names: tuple[str, ...] = (),
) -> tuple[Scenario, SessionSettings | None]:
    """Build a scenario from manifests, and the settings of batch sessions if it needs them."""
    profiles = [profile.scheduler_name for profile in setup.config.profiles]
    sessions = session_settings(
        given, profiles=profiles, catalog=setup.catalog, conf=conf, scheduler_names=scheduler_names
    )
    return build(given, seed=seed, kinds=known_kinds(setup.plugins), sessions=sessions), sessions


def simulate_scenario(
    scenario: Scenario,
    setup: Setup,
    *,
    seed: int = 0,
    sessions: SessionSettings | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Schedule a scenario with a configuration and its plugins, and add notes about both."""
    config, plugins = setup.config, setup.plugins
    outcome = simulate(scenario, config, plugins=plugins, seed=seed, progress=progress, sessions=sessions)
    warnings = sessions.conf.warnings if sessions is not None else ()
    return msgspec.structs.replace(outcome, notes=[*outcome.notes, *warnings, *setup.notes, *_notes(setup)])


def _notes(setup: Setup) -> Iterator[str]:
    """Yield notes about configuration that has no effect."""
    if setup.config.extenders:
        yield "extenders are not called in a simulation"
    if absent := sorted(enabled_in(setup.config) - BUILTIN.keys() - setup.plugins.keys()):
        yield f"ignored, because they have no effect in kube-scheduler by default: {', '.join(absent)}"


class Run:
    """One simulation."""

    def __init__(
        self,
        scenario: Scenario,
        config: SchedulerConfiguration,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        seed: int = 0,
        progress: Progress | None = None,
        sessions: SessionSettings | None = None,
    ) -> None:
        self._scenario = scenario
        self._now = scenario.start
        writer = self._claims = SimulatedClaimWriter()
        self._engine = Engine(
            config,
            plugins=plugins,
            clock=lambda: self._now,
            rng=random.Random(seed),
            warn=self._warned,
            claims=writer,
        )
        writer.engine = self._engine
        names = sessions.scheduler_names if sessions is not None else ()
        profiles = tuple(self._engine.profiles.runners)
        self._results = ResultBuilder(scenario, seed=seed, profiles=profiles, sessions=names)
        self._sessions = None if sessions is None else self._make_sessions(sessions, seed)
        self._job_pods = None if sessions is None else self._make_job_pods()
        #: The version of the cluster at the last session, and the time to wait before a session without a change.
        self._session_version = -1
        self._patience = _FIRST_PAUSE
        self._progress = progress
        self._bindings = Bindings(self._engine)
        #: Increases whenever the cluster changes.
        self._version = 0
        #: Failures of a pod since the cluster last changed: uid -> (version, how many).
        self._failures: dict[str, tuple[int, int]] = {}
        #: The pods that count as unschedulable until the cluster changes.
        self._unschedulable: set[str] = set()
        #: The number of attempts since the last change, and the time of that change.
        self._fruitless = 0
        self._changed_at = self._now

    def _warned(self, event: str, **details: Any) -> None:
        self._results.warned(event, **details)

    async def run(self) -> Outcome:
        """Schedule until nothing changes."""
        with watching(self._engine.guards):
            self._fill()
            while True:
                if self._is_over():
                    if not self._needs_session() and not self._pause():
                        break
                    self._run_session()
                elif self._engine.ready:
                    await self._step()
                elif self._needs_session():
                    self._run_session()
                elif not await self._jump():
                    break
            self._bindings.cancel()
        seconds = self._now - self._scenario.start
        return self._results.outcome(self._engine, seconds=seconds, sessions=self._sessions, jobs=self._job_pods)

    def _fill(self) -> None:
        engine, scenario = self._engine, self._scenario
        for item in scenario.objects:
            engine.put(item)
        for node in scenario.nodes:
            engine.put(node)
        for each in scenario.pods:
            if each.pod.node_name:
                engine.put(each.pod)
        for pod in self._results.waiting.values():
            engine.put(pod)
        for each in scenario.pods:
            later = self._job_pods is not None and each.pod.uid in self._job_pods
            if each.pod.uid in self._results.waiting_for_sessions and not later:
                engine.put(each.pod)

    # Sessions

    def _make_sessions(self, settings: SessionSettings, seed: int) -> Sessions:
        from mooring.simulation.sessions import Sessions  # slow to import, and seldom needed

        made = Sessions(
            settings,
            self._engine.cache,
            clock=lambda: self._now,
            rng=random.Random(seed),
            claims=self._claims,
            health=self._engine.guards.health,
            warn=self._warned,
        )
        made.put_finished(self._scenario.finished)
        return made

    def _make_job_pods(self) -> JobPods:
        from mooring.simulation.jobs import JobPods

        return JobPods(self._scenario.jobs)

    def _needs_session(self) -> bool:
        """Return whether the cluster has changed since the last session."""
        return self._sessions is not None and self._session_version != self._version

    def _pause(self) -> bool:
        """Advance the clock for session plugins that depend on the time. Return False at the time limit."""
        if self._sessions is None or not self._results.waiting_for_sessions or not self._sessions.depends_on_time:
            return False
        if self._now - self._changed_at > _LONGEST_WAIT:
            return False
        self._now += self._patience
        self._patience *= 2
        return True

    def _run_session(self) -> None:
        """Run a session, carry out its decisions, and run the job controller."""
        assert self._sessions is not None
        assert self._job_pods is not None
        self._session_version = self._version
        result = self._sessions.run()
        self._results.session(result)
        for pod in result.bound:
            self._job_pods.started(pod.uid)
            self._changed()
            self._engine.put(self._running(pod))
        for pod, _ in result.evicted:
            self._changed()
            self._engine.remove(pod)
            release_claims(self._engine, pod)
        phases = {key: group.status.phase for key, group in self._sessions.groups().items()}
        for pod in self._job_pods.create(phases):
            self._changed()
            self._engine.put(pod)

    # Attempts

    async def _step(self) -> None:
        """Run one attempt."""
        result = self._engine.schedule_one()
        if isinstance(result, FailedAttempt):
            self._failed(result, _ERROR if result.reason == "SchedulerError" else _UNSCHEDULABLE)
        elif isinstance(result, AssumedPod):
            await self._bind(result)
        if self._bindings:
            await self._finish_waiting()
        if self._progress is not None:
            waiting = len(self._results.waiting) + len(self._results.waiting_for_sessions)
            self._progress(self._results.total - waiting + min(len(self._unschedulable), waiting), self._results.total)

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
            self._failed(failed, _ERROR)
            return
        running = self._running(assumed.pod)
        self._results.placed(running, assumed)
        self._changed()
        self._engine.put(running)

    def _running(self, pod: Pod) -> Pod:
        """Return a bound pod as the kubelet would report it."""
        status = msgspec.structs.replace(pod.status, phase="Running", start_time=format_time(self._now))
        running = msgspec.structs.replace(pod, status=status)
        running.__dict__.update(pod.__dict__)  # its compiled template
        return running

    def _failed(self, failed: FailedAttempt, enough: int) -> None:
        pod = failed.queued.pod
        self._results.failed(failed)
        version, count = self._failures.get(pod.uid, (-1, 0))
        count = count + 1 if version == self._version else 1
        self._failures[pod.uid] = (self._version, count)
        self._fruitless += 1
        if count >= enough:
            self._unschedulable.add(pod.uid)
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
                self._results.evicted(info.pod, by=pod)
                self._changed()
                self._engine.remove(info.pod)
                release_claims(self._engine, info.pod)

    def _changed(self) -> None:
        self._version += 1
        self._unschedulable.clear()
        self._fruitless = 0
        self._changed_at = self._now
        self._patience = _FIRST_PAUSE

    # Time

    async def _jump(self) -> bool:
        """Advance the clock to the next event. Return False if there is none."""
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
        """Return whether the current cluster has rejected every pod without a node."""
        queue, waiting = self._engine.queue, self._results.waiting
        if len(self._unschedulable) + queue.pending()["gated"] < len(waiting):
            # Plugins can requeue pods forever: by activating each other, or by waiting and rejecting alternately.
            return self._fruitless > _MAX_FRUITLESS * (1 + len(waiting)) or self._now - self._changed_at > _LONGEST_WAIT
        return all(uid in self._unschedulable or _is_gated(queue.find(pod.key)) for uid, pod in waiting.items())


def _is_gated(found: tuple[Place, QueuedPod] | None) -> bool:
    return found is not None and found[0] is Place.GATED
