"""Build the profiles of a configuration: plugins, handles and runners."""

from __future__ import annotations

import copy
import functools
import random
import time
from collections.abc import Callable, Iterable, Mapping

from mooring.api.meta import KubeObject
from mooring.config import Profile as ProfileConfiguration
from mooring.config import SchedulerConfiguration
from mooring.framework.api_clients import ApiReader, Binder, VolumeWriter
from mooring.framework.declarations import CustomKinds, custom_kinds, declared_kinds
from mooring.framework.handle import EventRecorder, Handle
from mooring.framework.plugin import Plugin
from mooring.framework.preemption.candidate import PreemptionExtenders
from mooring.framework.waiting_pods import WaitingPods
from mooring.loading.circuit_breaker import Guards
from mooring.observe.plugin_metrics import PluginTimes
from mooring.plugins.registry import BUILTIN
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profile import Profile
from mooring.scheduler.sampling import Sampler


def known_kinds(plugins: Mapping[str, type[Plugin]] | None) -> CustomKinds:
    """The custom resources that built-in and other plugins read: what manifests may hold beside Kubernetes' kinds."""
    return custom_kinds((*BUILTIN.values(), *(plugins or {}).values()))


def enabled_classes(
    config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]] | None
) -> tuple[type[Plugin], ...]:
    """The plugins that a configuration enables, by name."""
    registry = {**BUILTIN, **(plugins or {})}
    names = {entry.name for profile in config.profiles for point in profile.plugins.values() for entry in point}
    return tuple(registry[name] for name in sorted(names) if name in registry)


def enabled_kinds(
    config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]] | None
) -> tuple[type[KubeObject], ...]:
    """What they read beside what every scheduler reads."""
    return declared_kinds(enabled_classes(config, plugins))


def _unchanged(old: Profile, config: ProfileConfiguration, registry: Mapping[str, type[Plugin]]) -> dict[str, Plugin]:
    """The plugins of a profile that another configuration of it would make just as they are."""
    before, now = old.config.plugin_config, config.plugin_config
    return {
        name: plugin
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
        binder: Binder | None = None,
        volumes: VolumeWriter | None = None,
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
            binder=binder,
            volumes=volumes,
            api=api,
            extenders=extenders,
        )
        self._times = times
        self._guards = guards
        self._sampler = Sampler(cache.table)
        self.runners: dict[str, PluginRunner] = {}
        self._build(config, plugins, {})
        self.activate()

    def activate(self) -> None:
        """Make these the active profiles: each handle uses their runner from now on."""
        for runner in self.runners.values():
            runner.activate()

    def renewed(self, config: SchedulerConfiguration, plugins: Mapping[str, type[Plugin]]) -> Profiles:
        """The profiles of another configuration, with other plugins, on the same cache.

        Plugins of which neither the class nor the arguments are others go on as they are. Raises ProfileError.
        """
        other = copy.copy(self)
        other._build(config, plugins, self.runners)
        return other

    def _build(
        self,
        config: SchedulerConfiguration,
        plugins: Mapping[str, type[Plugin]] | None,
        before: Mapping[str, PluginRunner],
    ) -> None:
        self.config = config
        registry = {**BUILTIN, **(plugins or {})}
        builtin = frozenset(BUILTIN.keys() - (plugins or {}).keys())
        self.runners = {}
        for profile in config.profiles:
            old = before.get(profile.scheduler_name)
            handle = old.handle if old is not None else self._make_handle(profile_name=profile.scheduler_name)
            known = _unchanged(old.profile, profile, registry) if old is not None else {}
            percentage = profile.percentage_of_nodes_to_score
            if percentage is None:
                percentage = config.percentage_of_nodes_to_score
            built = Profile(profile, handle, registry, builtin, self._times, self._guards, known)
            self.runners[profile.scheduler_name] = PluginRunner(built, self._sampler, percentage)

    @property
    def plugins(self) -> list[Plugin]:
        """All plugins of all profiles; one that two profiles enable is two."""
        return [plugin for runner in self.runners.values() for plugin in runner.profile.plugins.values()]

    @property
    def kinds(self) -> tuple[type[KubeObject], ...]:
        """What the plugins read beside what every scheduler reads."""
        return declared_kinds(type(plugin) for plugin in self.plugins)

    @property
    def first(self) -> PluginRunner:
        """The first profile's runner."""
        return next(iter(self.runners.values()))
