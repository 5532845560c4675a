"""Profiles: the profiles of a configuration, and their replacement while the scheduler runs."""

from __future__ import annotations

import copy
import functools
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import Profile as ProfileConfiguration
from mooring.config import SchedulerConfiguration
from mooring.framework.api_clients import ApiReader, Binder, ClaimWriter, VolumeWriter
from mooring.framework.declarations import CustomKinds, custom_kinds, declared_kinds
from mooring.framework.events import ActionType, ClusterEvent, Hint
from mooring.framework.handle import EventRecorder, Handle
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_errors import contain, failure_text
from mooring.framework.preemption.candidate import PreemptionExtenders
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPods
from mooring.loading.circuit_breaker import Guards
from mooring.loading.plugin_options import DEFAULT, PluginOptions
from mooring.observe.plugin_metrics import PluginTimes
from mooring.plugins.registry import BUILTIN
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profile import Profile, ProfileError
from mooring.scheduler.queue.queueing_hints import ASSIGNED_POD
from mooring.scheduler.queue.unschedulable_pods import PreEnqueue
from mooring.scheduler.sampling import Sampler

if TYPE_CHECKING:
    from mooring.scheduler.engine import Engine


def known_kinds(plugins: Mapping[str, type[Plugin]] | None) -> CustomKinds:
    """Return the custom resources that the built-in plugins and others read."""
    return custom_kinds((*BUILTIN.values(), *(plugins or {}).values()))


def enabled_classes(
    config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]] | None
) -> tuple[type[Plugin], ...]:
    """Return the plugins that a configuration enables, sorted by name."""
    registry = {**BUILTIN, **(plugins or {})}
    names = {entry.name for profile in config.profiles for point in profile.plugins.values() for entry in point}
    return tuple(registry[name] for name in sorted(names) if name in registry)


def enabled_kinds(
    config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]] | None
) -> tuple[type[KubeObject], ...]:
    """Return the additional kinds that the enabled plugins read."""
    return declared_kinds(enabled_classes(config, plugins), config.release)


def _reusable(
    old: Profile, config: ProfileConfiguration, registry: Mapping[str, type[Plugin]]
) -> dict[str, tuple[Plugin, Handle]]:
    """Return the plugins of a profile, with their handles, whose class and arguments do not change."""
    before, now = old.config.plugin_config, config.plugin_config
    return {
        name: (plugin, old.plugin_handles[name])
        for name, plugin in old.plugins.items()
        if type(plugin) is registry.get(name) and before.get(name) == now.get(name)
    }


class Profiles:
    """The profiles of a configuration, each with a PluginRunner, on one cache."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        cache: Cache,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        recorder: EventRecorder | None = None,
        activate: Callable[[Iterable[str]], None] | None = None,
        retry: Callable[[str, str], None] | None = None,
        binder: Binder | None = None,
        volumes: VolumeWriter | None = None,
        claims: ClaimWriter | None = None,
        api: ApiReader | None = None,
        times: PluginTimes | None = None,
        extenders: PreemptionExtenders | None = None,
        guards: Guards | None = None,
    ) -> None:
        self.cache = cache
        self.waiting_pods = WaitingPods()
        self._make_handle = functools.partial(
            Handle,
            table=cache.table,
            objects=cache.objects,
            nominator=cache.nominator,
            waiting_pods=self.waiting_pods,
            recorder=recorder,
            clock=clock,
            rng=rng,
            activate=activate,
            retry=retry,
            binder=binder,
            volumes=volumes,
            claims=claims,
            api=api,
            extenders=extenders,
        )
        self._times = times
        self._guards = guards
        self._sampler = Sampler(cache.table)
        self.runners: dict[str, PluginRunner] = {}
        cache.table.marks_labels = False  # unless a plugin may read them
        self._build(config, plugins, {})
        self.activate()

    def activate(self) -> None:
        """Make these the active profiles: each handle uses their runner."""
        for runner in self.runners.values():
            runner.activate()

    def renewed(self, config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]]) -> Profiles:
        """Build the profiles of another configuration, with other plugins, on the same cache. Raises ProfileError.

        Plugins whose class and arguments are unchanged are reused. These profiles stay active and are not modified
        until ``activate`` of the new ones.
        """
        other = copy.copy(self)
        other.runners = {}
        try:
            other._build(config, plugins, self.runners)
        except BaseException:
            other.close(keep=self)
            raise
        return other

    def close(self, keep: Profiles) -> None:
        """Close the handles of all plugins that the other profiles do not use."""
        used = {handle for runner in keep.runners.values() for handle in runner.profile.plugin_handles.values()}
        for runner in self.runners.values():
            runner.profile.close(used)

    def _build(
        self,
        config: SchedulerConfiguration,
        plugins: Mapping[str, type[Plugin]] | None,
        before: Mapping[str, PluginRunner],
    ) -> None:
        self.config = config
        registry = {**BUILTIN, **(plugins or {})}
        builtin = frozenset(BUILTIN.keys() - (plugins or {}).keys())
        for profile in config.profiles:
            if not builtin.issuperset(each.name for enabled in profile.plugins.values() for each in enabled):
                self.cache.table.marks_labels = True
            old = before.get(profile.scheduler_name)
            handle = old.handle if old is not None else self._make_handle(profile_name=profile.scheduler_name)
            reused = _reusable(old.profile, profile, registry) if old is not None else {}
            percentage = profile.percentage_of_nodes_to_score
            if percentage is None:
                percentage = config.percentage_of_nodes_to_score
            built = Profile(profile, handle, registry, builtin, self._times, self._guards, reused)
            self.runners[profile.scheduler_name] = PluginRunner(built, self._sampler, percentage, config.tie_break)

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins of all profiles. A plugin that two profiles enable occurs twice."""
        return [plugin for runner in self.runners.values() for plugin in runner.profile.plugins.values()]

    @property
    def eviction_rules(self) -> list[Callable[[Pod, Pod], bool]]:
        """The ``may_evict`` methods of the plugins of all profiles."""
        return [bound.call for runner in self.runners.values() for bound in runner.profile.may_evict]

    @property
    def kinds(self) -> tuple[type[KubeObject], ...]:
        """The additional kinds that the plugins read."""
        return declared_kinds((type(plugin) for plugin in self.plugins), self.first.handle.release)

    @property
    def first(self) -> PluginRunner:
        """The first profile's runner."""
        return next(iter(self.runners.values()))


def swap(
    engine: Engine,
    config: SchedulerConfiguration,
    plugins: Mapping[str, type[Plugin]],
    options: Mapping[str, PluginOptions],
) -> None:
    """Activate another configuration and other plugins between two attempts; the caller holds the decision lock.

    ``plugins`` contains all plugins that are not built in. Raises ProfileError, without effect, if one cannot be built.
    Otherwise the subscriptions of replaced plugins end.
    """
    before = engine.profiles
    with engine.guards.renewing(_changed(engine, plugins, options), options):
        after = before.renewed(config, plugins)
        try:
            _hand_over(before, after)
            queue = queue_settings(after, engine.report_broken, engine.preempting)
        except BaseException:
            after.close(keep=before)
            raise
    engine.adopt(after, queue)
    before.close(keep=after)


def queue_settings(profiles: Profiles, on_error: Callable[..., None], preempting: Mapping[str, str]) -> dict[str, Any]:
    """Return the queue's settings; the preemptors in ``preempting`` are gated until their last victim terminates."""
    sorter, config = profiles.first.profile.queue_sort[0], profiles.config
    try:
        hints = {name: _events(runner.profile) for name, runner in profiles.runners.items()}
    except BaseException as error:
        contain(error)
        raise ProfileError(f"asking plugins for their events: {failure_text(error)}") from error

    def less(a: Any, b: Any) -> bool:
        """Call a user's QueueSort; order by time if it fails."""
        try:
            return bool(sorter.call(a, b))
        except BaseException as error:
            contain(error)
            on_error(sorter.name, "less", a.pod, error)
            return bool(a.timestamp < b.timestamp)

    def is_preempting(pod: Pod) -> bool:
        """Return whether victims of a pod are being evicted; False once the last one is deleted or terminating."""
        last = preempting.get(pod.uid)
        if not last:
            return last is not None
        victim = profiles.cache.table.pods.get(last)
        return victim is not None and not victim.pod.is_terminating

    return {
        "pre_enqueue": {name: _gates(runner.profile, is_preempting) for name, runner in profiles.runners.items()},
        "hint_map": hints,
        "less": None if sorter.name == "PrioritySort" else less,
        "pod_initial_backoff": config.pod_initial_backoff_seconds,
        "pod_max_backoff": config.pod_max_backoff_seconds,
    }


def _preemption_plugins(profile: Profile) -> list[str]:
    """Return the plugins on whose behalf preemptors are gated."""
    # The PostFilter of DynamicResources deallocates claims and evicts no pods.
    names = [bound.name for bound in profile.post_filter if bound.name != "DynamicResources"]
    return ["DefaultPreemption"] if "DefaultPreemption" in names else names


def _gates(profile: Profile, is_preempting: Callable[[Pod], bool]) -> dict[str, PreEnqueue]:
    """Return the PreEnqueue plugins and the gate of preemptors whose victims are being evicted."""
    gates: dict[str, PreEnqueue] = {bound.name: bound.call for bound in profile.pre_enqueue}
    for name in _preemption_plugins(profile):
        gates[name] = functools.partial(_unless_preempting, is_preempting, gates.get(name))
    return gates


def _unless_preempting(is_preempting: Callable[[Pod], bool], gate: PreEnqueue | None, pod: Pod) -> Status | str | None:
    if is_preempting(pod):
        return Status.unresolvable("waiting for the preemption for this pod to be finished")
    return gate(pod) if gate is not None else None


def _events(profile: Profile) -> dict[str, tuple[ClusterEvent, ...]]:
    """Return the events that plugins registered for. Gated preemptors always need deletions of pods."""
    events = profile.events()
    for name in _preemption_plugins(profile):
        registered = events.get(name, ())
        if not any(event.matches(ASSIGNED_POD, ActionType.DELETE) for event in registered):
            events[name] = (*registered, ClusterEvent("Pod", ActionType.DELETE, _skip))
    return events


def _skip(_pod: Pod, _old: object, _new: object) -> Hint:
    return Hint.SKIP


def _changed(
    engine: Engine, plugins: Mapping[str, type[Plugin]], options: Mapping[str, PluginOptions]
) -> frozenset[str]:
    """Return the plugins that are replaced, removed, or get other options."""
    before = {plugin.name: type(plugin) for plugin in engine.profiles.plugins}
    old = engine.guards.options
    names = {name for name, cls in before.items() if plugins.get(name, cls) is not cls}
    names |= {name for name in engine.guards.by_plugin() if name not in plugins}
    names |= {name for name in {*old, *options} if old.get(name, DEFAULT) != options.get(name, DEFAULT)}
    return frozenset(names)


def _hand_over(before: Profiles, after: Profiles) -> None:
    """Pass the state of replaced plugins to their new versions."""
    for name, runner in after.runners.items():
        old = before.runners.get(name)
        for plugin in runner.profile.plugins.values():
            last = old.profile.plugins.get(plugin.name) if old is not None else None
            if last is None or last is plugin:
                continue
            try:
                plugin.take_state(last.keep_state())
            except BaseException as error:
                contain(error)
                text = f'profile "{name}": handing over the state of plugin "{plugin.name}"'
                raise ProfileError(f"{text}: {failure_text(error)}") from error
