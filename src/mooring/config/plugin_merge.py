"""Merges the plugins of a file with the defaults and expands multiPoint to extension points."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from mooring.config.builtin_plugins import IGNORED_POINTS, Defaults, defaults
from mooring.config.model import EnabledPlugin, PluginSet
from mooring.config.schema import PLACEMENT_SCORE, POINTS, Version, group_points
from mooring.releases import Release

MULTI_POINT = "multiPoint"
ALL = "*"

#: Point or multiPoint -> its plugin set.
Sets = dict[str, PluginSet]
#: Plugin -> its extension points.
Served = dict[str, Collection[str]]
#: Point -> its plugins, in order.
Plan = dict[str, tuple[EnabledPlugin, ...]]


def merged_sets(version: Version, release: Release, requested: dict[str, Any] | None) -> Sets:
    """Return the plugin sets of each point and of multiPoint, including defaults."""
    points = (*POINTS, MULTI_POINT, *group_points(version, release))
    usual = defaults(version, release)
    by_point = {} if requested is None else {p: w for p, w in requested.items() if p not in IGNORED_POINTS[version]}
    return {point: _merged(_default_set(usual, point), by_point.get(point, {}), version) for point in points}


def _default_set(usual: Defaults, point: str) -> tuple[EnabledPlugin, ...]:
    return tuple(EnabledPlugin(name, weight or 0) for name, weight in usual.get(point, ()))


def _merged(defaults: tuple[EnabledPlugin, ...], requested: dict[str, Any], version: Version) -> PluginSet:
    """Return the defaults without disabled plugins. One that is enabled again keeps its place, with the new weight."""
    enabled = [EnabledPlugin(each.get("name", ""), each.get("weight", 0)) for each in requested.get("enabled", [])]
    disabled = tuple(each.get("name", "") for each in requested.get("disabled", []))
    # Of several entries with the same name, the last replaces the default. The others remain and fail at startup.
    last = {plugin.name: index for index, plugin in enumerate(enabled)}
    result: list[EnabledPlugin] = []
    replaced: set[int] = set()
    for default in defaults if ALL not in disabled else ():
        if default.name in disabled:
            continue
        index = last.get(default.name)
        result.append(default if index is None else enabled[index])
        if index is not None:
            replaced.add(index)
    result += [plugin for index, plugin in enumerate(enabled) if index not in replaced]
    return PluginSet(tuple(result), disabled if version != "v1beta2" else ())


class Conflict(msgspec.Struct, frozen=True):
    """The reason why the plugin set of a point is invalid."""

    point: str
    plugin: str
    problem: str


def running(sets: Sets, served: Served) -> tuple[Plan, list[Conflict]]:
    """Return the plugins of each point, in order, and the conflicts."""
    conflicts = _conflicts(sets, served)
    weights = {point: score_weights(sets, served, point=point) for point in ("score", PLACEMENT_SCORE)}
    plan: Plan = {}
    for point in (point for point in sets if point != MULTI_POINT):
        by_name = weights.get(point, {})
        names = _order(point, sets, served)
        plan[point] = tuple(EnabledPlugin(name, by_name.get(name, 0)) for name in names)
    return plan, conflicts


def _order(point: str, sets: Sets, served: Served) -> list[str]:
    """Return the plugins of both the point and multiPoint, then the rest of multiPoint, then the rest of the point."""
    own = sets.get(point, PluginSet())
    named = list(dict.fromkeys(plugin.name for plugin in own.enabled))
    multi = [plugin.name for plugin in sets[MULTI_POINT].enabled]
    if ALL in own.disabled or not multi:
        return named
    expanded = [name for name in multi if point in served.get(name, ()) and name not in own.disabled]
    both = [name for name in named if name in expanded]
    return [*both, *dict.fromkeys(n for n in expanded if n not in named), *(n for n in named if n not in both)]


def _conflicts(sets: Sets, served: Served) -> list[Conflict]:
    found: list[Conflict] = []
    for point, own in sets.items():
        seen: set[str] = set()
        for plugin in own.enabled:
            name = plugin.name
            if name not in served:
                found.append(Conflict(point, name, f'the plugin "{name}" does not exist'))
            elif point == MULTI_POINT:
                if name in seen and any(_doubled(name, each, sets, served) for each in sets if each != MULTI_POINT):
                    found.append(Conflict(point, name, f'the plugin "{name}" is enabled twice'))
            elif point not in served[name]:
                found.append(Conflict(point, name, f'the plugin "{name}" does not serve {point}'))
            elif name in seen:
                found.append(Conflict(point, name, f'the plugin "{name}" is enabled twice'))
            seen.add(name)
    return found


def _doubled(name: str, point: str, sets: Sets, served: Served) -> bool:
    """Return whether a plugin that is repeated in multiPoint is repeated at a point."""
    own = sets.get(point, PluginSet())
    hidden = ALL in own.disabled or name in own.disabled or any(plugin.name == name for plugin in own.enabled)
    return point in served[name] and not hidden


def score_weights(sets: Sets, served: Served, *, point: str = "score") -> dict[str, int]:
    """Return the weight of each score plugin. A weight at the point overrides that of multiPoint."""
    weights: dict[str, int] = {}
    for plugin in (*sets.get(point, PluginSet()).enabled, *sets[MULTI_POINT].enabled):
        if point in served.get(plugin.name, ()) and plugin.name not in weights:
            weights[plugin.name] = plugin.weight or 1
    return weights
