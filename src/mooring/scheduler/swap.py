"""Exchanging plugins and configuration of an engine between two attempts: all of it, or nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mooring.api.pod import Pod
from mooring.columns.listening import listeners_made
from mooring.config import SchedulerConfiguration
from mooring.framework.events import ActionType, ClusterEvent, Hint
from mooring.framework.plugin import Plugin
from mooring.framework.status import Status
from mooring.loading.options import DEFAULT, PluginOptions
from mooring.scheduler.build import Profiles
from mooring.scheduler.profile import Profile, ProfileError
from mooring.scheduler.queue.gates import PreEnqueue
from mooring.scheduler.queue.hints import ASSIGNED_POD

if TYPE_CHECKING:
    from mooring.scheduler.engine import Engine


def swap(
    engine: Engine,
    config: SchedulerConfiguration,
    plugins: Mapping[str, type[Plugin]],
    options: Mapping[str, PluginOptions],
) -> list[Plugin]:
    """Put another configuration and other plugins in force; the plugins that are in force no more.

    ``plugins`` are all that are not built in. Raises ProfileError if something cannot be made; nothing has changed
    then. Must not be called while an attempt waits for extenders.
    """
    before = engine.profiles
    made: list[object] = []
    try:
        with listeners_made() as made, engine.guards.renewing(_changed(engine, plugins, options), options):
            after = before.renewed(config, plugins)
            _hand_over(before, after)
            queue = queue_settings(after, engine.report_broken, engine.preempting)
    except BaseException:
        _stop_telling(engine, set(map(id, made)), ())
        raise
    engine.adopt(after, queue)
    kept = set(map(id, after.plugins))
    return [plugin for plugin in before.plugins if id(plugin) not in kept]


def queue_settings(profiles: Profiles, on_error: Callable[..., None], preempting: Container[str]) -> dict[str, Any]:
    """Return what the queue needs to know of the plugins; pods in ``preempting`` (uids) are gated."""
    sorter, config = profiles.first.profile.queue_sort[0], profiles.config
    try:
        hints = {name: _events(runner.profile) for name, runner in profiles.runners.items()}
    except Exception as error:
        raise ProfileError(f"asking plugins for their events: {type(error).__name__}: {error}") from error

    def less(a: Any, b: Any) -> bool:
        """A user's QueueSort; where it breaks, the pod that came first goes first."""
        try:
            return bool(sorter.call(a, b))
        except Exception as error:
            on_error(sorter.name, "less", a.pod, error)
            return bool(a.timestamp < b.timestamp)

    return {
        "pre_enqueue": {name: _gates(runner.profile, preempting) for name, runner in profiles.runners.items()},
        "hint_map": hints,
        "less": None if sorter.name == "PrioritySort" else less,
        "pod_initial_backoff": config.pod_initial_backoff_seconds,
        "pod_max_backoff": config.pod_max_backoff_seconds,
    }


def _preemption_plugins(profile: Profile) -> list[str]:
    """Return the plugins in whose name preemptors are gated."""
    # The PostFilter of DynamicResources deallocates claims and evicts no pods.
    names = [bound.name for bound in profile.post_filter if bound.name != "DynamicResources"]
    return ["DefaultPreemption"] if "DefaultPreemption" in names else names


def _gates(profile: Profile, preempting: Container[str]) -> dict[str, PreEnqueue]:
    """Return the PreEnqueue plugins, and the gate of preemptors whose victims are being evicted."""
    gates: dict[str, PreEnqueue] = {bound.name: bound.call for bound in profile.pre_enqueue}
    for name in _preemption_plugins(profile):
        gates[name] = functools.partial(_unless_preempting, preempting, gates.get(name))
    return gates


def _unless_preempting(preempting: Container[str], gate: PreEnqueue | None, pod: Pod) -> Status | str | None:
    if pod.uid in preempting:
        return Status.unresolvable("waiting for the preemption for this pod to be finished")
    return gate(pod) if gate is not None else None


def _events(profile: Profile) -> dict[str, tuple[ClusterEvent, ...]]:
    """Return the events that plugins registered for. Deleted pods concern gated preemptors in any case."""
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
    """The plugins that are others, guarded otherwise, or gone."""
    before = {plugin.name: type(plugin) for plugin in engine.profiles.plugins}
    old = engine.guards.options
    names = {name for name, cls in before.items() if plugins.get(name, cls) is not cls}
    names |= {name for name in engine.guards.all() if name not in plugins}
    names |= {name for name in {*old, *options} if old.get(name, DEFAULT) != options.get(name, DEFAULT)}
    return frozenset(names)


def _hand_over(before: Profiles, after: Profiles) -> None:
    """Give new versions of plugins what the old ones kept for them."""
    for name, runner in after.runners.items():
        old = before.runners.get(name)
        for plugin in runner.profile.plugins.values():
            last = old.profile.plugins.get(plugin.name) if old is not None else None
            if last is None or last is plugin:
                continue
            try:
                plugin.take_state(last.keep_state())
            except Exception as error:
                text = f'profile "{name}": handing over the state of plugin "{plugin.name}"'
                raise ProfileError(f"{text}: {type(error).__name__}: {error}") from error


def forget_listeners(engine: Engine, retired: Iterable[Plugin], modules: Iterable[str]) -> None:
    """Stop telling plugins that are in force no more, and what they registered or is defined in their modules."""
    gone = {id(each) for plugin in retired for each in (plugin, *plugin._listening)}
    _stop_telling(engine, gone, tuple(modules))


def _stop_telling(engine: Engine, gone: set[int], roots: tuple[str, ...]) -> None:
    def is_gone(listener: object) -> bool:
        if id(listener) in gone:
            return True
        while isinstance(listener, functools.partial):
            listener = listener.func
        owner = getattr(listener, "__self__", listener)
        module = getattr(owner, "__module__", "") or ""
        return id(owner) in gone or any(module == root or module.startswith(f"{root}.") for root in roots)

    engine.cache.table.stop_telling(is_gone)
    engine.cache.objects.stop_telling(is_gone)
