"""Profile: the plugins of one scheduler name, instantiated and sorted by extension point.

All lookups happen once, here. The hot path iterates over tuples of bound methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.columns.templates import PodTemplate
from mooring.framework.declarations import declared_events
from mooring.framework.device_allocations import ALLOCATION_SCORES, AllocationScorer, DeviceAllocation
from mooring.framework.events import CATCH_ALL, ClusterEvent
from mooring.framework.handle import Handle
from mooring.framework.listers import ListenerError
from mooring.framework.normalize import MAX_SCORE
from mooring.framework.plugin import Dependence, Part, Plugin, dependence
from mooring.framework.plugin_args import ArgsError
from mooring.framework.plugin_errors import contain, failure_text
from mooring.framework.points import check_methods, points_of
from mooring.framework.score_range import scaled_score, scaled_scores
from mooring.framework.state import CycleState
from mooring.loading.circuit_breaker import Guards, SwitchedOffError
from mooring.observe.plugin_metrics import PluginTimes
from mooring.scheduler.answers import BadAnswerError, as_score, check_of, failure

if TYPE_CHECKING:
    from mooring.config import Profile as ProfileConfig


#: The plugin name that kube-scheduler uses for rejections by extenders: any event requeues the pod.
EXTENDER = "Extender"


class ProfileError(ValueError):
    """A profile that cannot be built. The message names the plugin and the reason."""


class FilterPlugin(msgspec.Struct, frozen=True):
    """A Filter plugin: its methods, and what its answer depends on."""

    name: str
    plugin: Plugin
    filter_nodes: Callable[..., Any] | None
    filter: Callable[..., Any] | None
    depends: Dependence | None
    #: Whether a call per node is expensive, so that the plugin runs last and on few nodes.
    per_node: bool


class ScorePlugin(msgspec.Struct, frozen=True):
    """A Score plugin: its methods, its weight, and what its answer depends on."""

    name: str
    plugin: Plugin
    weight: int
    score_nodes: Callable[..., Any] | None
    score: Callable[..., Any] | None
    normalize: Callable[..., Any] | None
    depends: Dependence | None
    #: Whether scores are not validated, because the plugin is built in.
    trusted: bool
    #: Whether all nodes score 0 if PreFilter skipped the plugin.
    zero_if_skipped: bool
    #: Called with the method whose scores are fractions between 0 and 1.
    on_fractions: Callable[[str], None] | None


class DeclaredFilters(msgspec.Struct, frozen=True):
    """The active filters that declare what they depend on."""

    #: Those that depend only on the node, and those that depend also on its pods.
    by_node: tuple[FilterPlugin, ...]
    by_pods: tuple[FilterPlugin, ...]
    #: ``by_node`` is the filters that read only the constraints of the pod, and the others.
    by_constraints: tuple[FilterPlugin, ...]
    others: tuple[FilterPlugin, ...]
    #: Whether all of them have a method for a single node.
    singly: bool


class DeclaredScorers(msgspec.Struct, frozen=True):
    """The active scorers that declare what they depend on."""

    #: Those that do not normalize, and their names.
    summed: tuple[ScorePlugin, ...]
    summed_names: tuple[str, ...]
    #: The others: those that depend only on the node, and those that depend also on its pods.
    by_node: tuple[ScorePlugin, ...]
    by_pods: tuple[ScorePlugin, ...]
    #: ``by_node`` is the scorers that read only the constraints of the pod, and the others.
    by_constraints: tuple[ScorePlugin, ...]
    others: tuple[ScorePlugin, ...]
    #: Whether all of ``summed`` have a method for a single node.
    singly: bool


class Bound(msgspec.Struct, frozen=True):
    """A method of a plugin."""

    name: str
    plugin: Plugin
    call: Callable[..., Any]


class Profile:
    """The plugins of one scheduler name, by extension point, in order."""

    def __init__(
        self,
        config: ProfileConfig,
        handle: Handle,
        registry: Mapping[str, type[Plugin]],
        builtin: frozenset[str],
        times: PluginTimes | None = None,
        guards: Guards | None = None,
        reused: Mapping[str, tuple[Plugin, Handle]] | None = None,
    ) -> None:
        """Build the plugins; ``reused`` contains existing ones with their handles. Raises ProfileError."""
        self.config = config
        self.name = config.scheduler_name
        self.handle = handle
        self._builtin = builtin
        self._times = times
        self._guards = guards
        self.plugins: dict[str, Plugin] = {}
        #: The handle of each plugin, which owns its subscriptions.
        self.plugin_handles: dict[str, Handle] = {}
        try:
            self._make_plugins(registry, reused or {})
        except BaseException:
            self.close(keep={handle for _, handle in (reused or {}).values()})
            raise
        self._extensions: dict[tuple[str, str], Callable[..., Any] | None] = {}
        self._filters_without: dict[frozenset[str], DeclaredFilters] = {}
        self._scorers_without: dict[frozenset[str], DeclaredScorers] = {}
        self.pre_enqueue = self._bound("preEnqueue", "pre_enqueue")
        self.queue_sort = self._bound("queueSort", "less")
        self.pre_filter = self._bound("preFilter", "pre_filter")
        self.filters = tuple(map(self._filter, self._at("filter")))
        self.post_filter = self._bound("postFilter", "post_filter")
        self.may_evict = tuple(map(self._may_evict, self._at("postFilter", "may_evict")))
        self.pre_score = self._bound("preScore", "pre_score")
        self.scorers = tuple(self._score(plugin, weight) for plugin, weight in self._weighted("score"))
        self.allocation_scorers = tuple(
            self._allocation_scorer(plugin, weight)
            for plugin, weight in self._weighted("score")
            if hasattr(plugin, "score_allocation")
        )
        self.reserve = self._bound("reserve", "reserve")
        self.unreserve = tuple(reversed(self._bound("reserve", "unreserve")))
        self.permit = self._bound("permit", "permit")
        self.pre_bind = self._bound("preBind", "pre_bind")
        #: The PreBind plugins, each with its PreBindPreFlight method, if it has one.
        self.pre_flights = tuple((bound, self._pre_flight(bound)) for bound in self.pre_bind)
        self.bind = self._bound("bind", "bind")
        self.post_bind = self._bound("postBind", "post_bind")
        #: The plugin that generates placements for groups, and those that score them, with their weights.
        self.placement_generator = next((each for each, _ in self._placement("Generate", "generate_placements")), None)
        self.placement_scorers = tuple(self._placement("Score", "score_placements"))
        self.placement_feasible = self._bound("permit", "placement_feasible")
        #: Plugins that declare what their verdicts or scores depend on.
        declared = [f.name for f in self.filters if f.depends] + [s.name for s in self.scorers if s.depends]
        self.declared = frozenset(declared)
        #: Plugins whose declared and constant answers depend on the constraints of the pod, and on no other part of it.
        self.by_constraints = frozenset(name for name in self.plugins if self._part(name) == "constraints")
        self._make_signers()
        #: Whether a plugin is called node by node, so that sampling saves time.
        self.per_node = any(f.filter_nodes is None or f.per_node for f in self.filters) or any(
            s.score_nodes is None or s.plugin.per_node for s in self.scorers
        )

    def _make_plugins(self, registry: Mapping[str, type[Plugin]], reused: Mapping[str, tuple[Plugin, Handle]]) -> None:
        for entry in (entry for enabled in self.config.plugins.values() for entry in enabled):
            name = entry.name
            if name in self.plugins or name not in registry:
                continue
            if name in reused:
                self.plugins[name], self.plugin_handles[name] = reused[name]
            else:
                self.plugin_handles[name] = handle = self.handle.for_plugin(name, self._listener_errors(name))
                self.plugins[name] = self._make(registry[name], self.config.plugin_config.get(name), handle)

    def _make(self, cls: type[Plugin], args: Any, handle: Handle) -> Plugin:
        problems = [] if cls.name in self._builtin else check_methods(cls)
        if self._guards is not None and cls.name not in self._builtin:
            self._guards.add_code(cls, cls.name)
        if problems:
            raise ProfileError(f'profile "{self.name}": plugin "{cls.name}": {problems[0].message}')
        try:
            if self._guards is None or cls.name in self._builtin:
                return cls(args, handle)
            with self._guards.leaks.opening(cls.__module__):
                return cls(args, handle)
        except ArgsError as error:
            raise ProfileError(f'profile "{self.name}": initializing plugin "{cls.name}": {error}') from None
        except BaseException as error:
            contain(error)
            text = f'profile "{self.name}": initializing plugin "{cls.name}": {failure_text(error)}'
            raise ProfileError(text) from error

    def _listener_errors(self, name: str) -> ListenerError | None:
        """Return the function that counts the errors of a user's listeners; None if errors are raised."""
        return None if self._guards is None or name in self._builtin else self._guards.of(name).count

    def close(self, keep: Collection[Handle] = ()) -> None:
        """Close all plugins, except those with the handles in ``keep``."""
        for name, handle in self.plugin_handles.items():
            if handle not in keep:
                handle.close()
                if name in self.plugins and name not in self._builtin:
                    self._close(self.plugins[name])

    def _close(self, plugin: Plugin) -> None:
        try:
            plugin.close()
        except BaseException as error:
            contain(error)
            if self._guards is not None:
                self._guards.of(plugin.name).count("close", error)

    def _weighted(self, point: str) -> list[tuple[Plugin, int]]:
        """Return the plugins enabled at a point. Plugins of an old configuration that no longer exist are ignored."""
        entries = self.config.plugins.get(point, ())
        found = [(self.plugins[entry.name], entry.weight or 1) for entry in entries if entry.name in self.plugins]
        return [(plugin, weight) for plugin, weight in found if point in points_of(type(plugin))]

    def _at(self, point: str, method: str = "") -> list[Plugin]:
        """Return the plugins enabled at a point; with ``method``, those that define it."""
        return [plugin for plugin, _ in self._weighted(point) if not method or hasattr(plugin, method)]

    def _bound(self, point: str, method: str) -> tuple[Bound, ...]:
        found = []
        for plugin in self._at(point):
            call = getattr(plugin, method, None)
            if call is not None:
                guarded = self._guarded(call, plugin, method)
                found.append(Bound(plugin.name, plugin, self._watched(guarded, plugin, method)))
        return tuple(found)

    def _placement(self, point: str, method: str) -> list[tuple[Bound, int]]:
        """Return the plugins at a point of placements, with their weights."""
        found = []
        for plugin, weight in self._weighted(f"placement{point}"):
            guarded = self._guarded(getattr(plugin, method), plugin, method)
            found.append((Bound(plugin.name, plugin, self._watched(guarded, plugin, method)), weight))
        return found

    def _may_evict(self, plugin: Plugin) -> Bound:
        """Return the ``may_evict`` of a plugin. A failure denies the eviction, unless failures are ignored."""
        if self._guards is None or plugin.name in self._builtin:
            return Bound(plugin.name, plugin, plugin.may_evict)
        guard = self._guards.of(plugin.name)

        def fallback(error: BaseException, _args: tuple[Any, ...]) -> bool:
            return isinstance(error, SwitchedOffError) and guard.options.failure_policy == "Ignore"

        call = guard.wrap(plugin.may_evict, "may_evict", check=check_of("may_evict"), fallback=fallback)
        return Bound(plugin.name, plugin, call)

    def _filter(self, plugin: Plugin) -> FilterPlugin:
        columns, single = getattr(plugin, "filter_nodes", None), getattr(plugin, "filter", None)
        depends = dependence(columns or single)
        columns = self._watched(self._guarded(columns, plugin, "filter_nodes"), plugin, "filter")
        single = self._watched(self._guarded(single, plugin, "filter"), plugin, "filter")
        per_node = depends is None and (columns is None or plugin.per_node)
        return FilterPlugin(plugin.name, plugin, columns, single, depends, per_node)

    def _score(self, plugin: Plugin, weight: int) -> ScorePlugin:
        columns, single = getattr(plugin, "score_nodes", None), getattr(plugin, "score", None)
        if columns is None and single is None:
            columns = _allocation_scores(plugin.name)
        normalize = getattr(plugin, "normalize_scores", None)
        depends = dependence(columns or single)
        trusted = plugin.name in self._builtin
        ranged = normalize is None
        if plugin.score_range is not None:
            columns = None if columns is None else scaled_scores(columns, plugin.score_range)
            single = None if single is None else scaled_score(single, plugin.score_range)
        columns = self._watched(self._guarded(columns, plugin, "score_nodes", ranged=ranged), plugin, "score")
        single = self._watched(self._guarded(single, plugin, "score", ranged=ranged), plugin, "score")
        normalize = self._guarded(normalize, plugin, "normalize_scores", ranged=True)
        normalize = self._watched(normalize, plugin, "normalize_scores")
        on_fractions = None if trusted or self._guards is None else self._guards.of(plugin.name).found_fractions
        zero = trusted and plugin.zero_if_skipped
        return ScorePlugin(
            plugin.name, plugin, weight, columns, single, normalize, depends, trusted, zero, on_fractions
        )

    def _allocation_scorer(self, plugin: Plugin, weight: int) -> AllocationScorer:
        call = self._guarded(plugin.score_allocation, plugin, "score_allocation", ranged=True)

        def checked(pod: Pod, allocation: DeviceAllocation) -> int:
            score = as_score(call(pod, allocation))
            if not 0 <= score <= MAX_SCORE:
                raise BadAnswerError(f"score_allocation returned {score}; return 0 to {MAX_SCORE}")
            return score

        return AllocationScorer(plugin.name, weight, checked)

    def _guarded(self, call: Any, plugin: Plugin, method: str, *, ranged: bool = False) -> Any:
        """Wrap the call of a user's plugin with its guard."""
        if call is None or self._guards is None or plugin.name in self._builtin:
            return call
        return self._guards.of(plugin.name).wrap(call, method, check=check_of(method, ranged=ranged))

    def _pre_flight(self, bound: Bound) -> Bound | None:
        call = self.extension(bound.plugin, "pre_bind_pre_flight")
        return None if call is None else Bound(bound.name, bound.plugin, call)

    def extension(self, plugin: Plugin, method: str) -> Callable[..., Any] | None:
        """Return an optional method that is not an extension point itself (``add_pod``), or None."""
        key = (plugin.name, method)
        if key not in self._extensions:
            self._extensions[key] = self._guarded(getattr(plugin, method, None), plugin, method)
        return self._extensions[key]

    def signature(self, template: PodTemplate) -> Hashable:
        """Return what the cached answers of all declared plugins depend on, as the key of a cache."""
        parts: list[Hashable] = [template.constraints] if self._signs_constraints else []
        if self._signs_requests:
            parts.append(template.resource_key)
        if self._signers:
            parts += [sign(template) for sign in self._signers]
        return tuple(parts)

    def _make_signers(self) -> None:
        parts: dict[str, str] = {name: self._part(name) for name in sorted(self.declared)}
        self._signs_constraints = "constraints" in parts.values()
        self._signs_requests = "requests" in parts.values()
        self._signers = tuple(self._signer(name) for name, part in parts.items() if part == "all")

    def is_builtin(self, name: str) -> bool:
        """Return whether a plugin is built in."""
        return name in self._builtin

    def _part(self, name: str) -> Part:
        return self.plugins[name].template_part if name in self._builtin else "all"

    def _signer(self, name: str) -> Callable[[PodTemplate], Hashable]:
        """Return the function that computes a plugin's part of the key."""
        plugin = self.plugins[name]
        if name in self._builtin:
            return plugin.signature
        sign = self._guarded(plugin.signature, plugin, "signature")

        def guarded(template: PodTemplate) -> Hashable:
            try:
                answer: Hashable = sign(template)
                hash(answer)
            except BaseException as error:
                contain(error)
                raise failure(f'asking plugin "{name}" for its signature', name, error) from error
            return answer

        return guarded

    def _watched(self, call: Any, plugin: Plugin, method: str) -> Any:
        """Wrap a call with metrics, if there are any."""
        point = _WATCHED.get(method)
        if call is None or self._times is None or point is None:
            return call
        return self._times.wrap(call, plugin.name, point, self.name)

    def declared_filters(self, skip: frozenset[str]) -> DeclaredFilters:
        """Return the active filters that declare what they depend on, without those in ``skip``."""
        found = self._filters_without.get(skip)
        if found is None:
            active = [f for f in self.filters if f.depends is not None and f.name not in skip]
            by_node = tuple(f for f in active if f.depends == "node")
            found = self._filters_without[skip] = DeclaredFilters(
                by_node,
                tuple(f for f in active if f.depends == "pods"),
                tuple(f for f in by_node if f.name in self.by_constraints),
                tuple(f for f in by_node if f.name not in self.by_constraints),
                all(f.filter is not None for f in active),
            )
        return found

    def declared_scorers(self, skip: frozenset[str]) -> DeclaredScorers:
        """Return the active scorers that declare what they depend on, without those in ``skip``."""
        found = self._scorers_without.get(skip)
        if found is None:
            active = [s for s in self.scorers if s.depends is not None and s.name not in skip]
            summed = tuple(s for s in active if s.normalize is None)
            by_node = tuple(s for s in active if s.normalize is not None and s.depends == "node")
            found = self._scorers_without[skip] = DeclaredScorers(
                summed,
                tuple(s.name for s in summed),
                by_node,
                tuple(s for s in active if s.normalize is not None and s.depends == "pods"),
                tuple(s for s in by_node if s.name in self.by_constraints),
                tuple(s for s in by_node if s.name not in self.by_constraints),
                all(s.score is not None for s in summed),
            )
        return found

    def events(self) -> dict[str, tuple[ClusterEvent, ...]]:
        """Return the events that requeue pods, by the plugin that rejected them."""
        found: dict[str, tuple[ClusterEvent, ...]] = {}
        for point in ("preEnqueue", "preFilter", "filter", "reserve", "permit"):
            for plugin in self._at(point):
                register = getattr(plugin, "events_to_register", None)
                registered = tuple(register()) if register is not None else CATCH_ALL
                found[plugin.name] = self._guarded_hints(plugin, (*registered, *declared_events(plugin, registered)))
        if self.handle.extenders is not None:
            found[EXTENDER] = CATCH_ALL
        return found

    def _guarded_hints(self, plugin: Plugin, events: tuple[ClusterEvent, ...]) -> tuple[ClusterEvent, ...]:
        if self._guards is None or plugin.name in self._builtin:
            return events
        return tuple(
            event
            if event.hint is None
            else msgspec.structs.replace(event, hint=self._guarded(event.hint, plugin, "hint"))
            for event in events
        )


def _allocation_scores(plugin: str) -> Callable[[CycleState, Pod, Nodes], Any]:
    """Return the ``score_nodes`` of a plugin that scores only allocations."""

    def score_nodes(state: CycleState, _pod: Pod, nodes: Nodes) -> Any:
        scores = state.get(ALLOCATION_SCORES)
        return 0 if scores is None else scores.of(plugin, nodes)

    return score_nodes


#: Methods with metrics -> the extension point's name in metrics.
_WATCHED = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "normalize_scores": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "generate_placements": "PlacementGenerate",
    "score_placements": "PlacementScore",
    "placement_feasible": "PlacementFeasible",
    "bind": "Bind",
    "post_bind": "PostBind",
}
