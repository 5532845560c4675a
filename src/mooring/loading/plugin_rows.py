"""Rows of `mooring plugin list` and of the `/plugins` endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.config import SchedulerConfiguration
from mooring.framework.points import CONFIG_POINTS
from mooring.loading.catalog import Catalog
from mooring.loading.plugin_kinds import POD


class PluginRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One plugin in one profile, or a plugin in no profile."""

    name: str
    profile: str = ""
    source: str
    points: tuple[str, ...] = ()
    #: The weight at score; 0 if the plugin does not score.
    weight: int = 0
    version: str = ""
    sha256: str = ""
    #: The state: running, idle (in no profile), for batch sessions, or an error.
    state: str
    calls: int = 0
    failures: int = 0
    over_budget: int = 0
    #: The mean duration of a call in microseconds; None if unknown.
    mean_micros: float | None = None
    #: The last failure with its location, and the frames of its traceback in the plugin's code.
    last_failure: str = ""
    traceback: str = ""
    #: Warnings about its results.
    warnings: tuple[str, ...] = ()


def plugin_rows(
    config: SchedulerConfiguration,
    catalog: Catalog,
    *,
    statistics: dict[str, dict[str, Any]] | None = None,
    sessions: Mapping[str, Mapping[str, str]] | None = None,
) -> list[PluginRow]:
    """Return a row for each plugin of each profile, for each plugin of batch sessions, and for each other plugin.

    ``statistics`` has the state, calls, failures, over_budget and mean_micros of plugins in a running scheduler.
    ``sessions`` has the plugins and actions of batch sessions with their types, by scheduler name.
    """
    rows = []
    enabled: set[str] = set()
    for profile in config.profiles:
        names = dict.fromkeys(entry.name for point in CONFIG_POINTS for entry in profile.plugins.get(point, ()))
        enabled.update(names)
        for name in names:
            points = tuple(p for p in CONFIG_POINTS if any(each.name == name for each in profile.plugins.get(p, ())))
            weight = next((each.weight for each in profile.plugins.get("score", ()) if each.name == name), 0)
            rows.append(_row(name, catalog, statistics, profile=profile.scheduler_name, points=points, weight=weight))
    for scheduler, used in (sessions or {}).items():
        enabled.update(used)
        rows += [_row(name, catalog, statistics, profile=scheduler, points=(what,)) for name, what in used.items()]
    for name, found in catalog.found.items():
        if name not in enabled:
            rows.append(_row(name, catalog, statistics, points=tuple(sorted(found.kind.points(found.cls)))))
    return rows


def _row(
    name: str,
    catalog: Catalog,
    statistics: dict[str, dict[str, Any]] | None,
    *,
    profile: str = "",
    points: tuple[str, ...],
    weight: int = 0,
) -> PluginRow:
    found = catalog.found.get(name)
    measured = (statistics or {}).get(name, {})
    state = "running" if profile else "idle"
    if found is None:
        return PluginRow(
            **{"name": name, "profile": profile, "source": "built in", "state": state, **measured},
            points=points,
            weight=weight,
        )
    if found.kind is not POD and not profile:
        state = "for batch sessions"
    source = str(found.path) if found.path is not None else found.source
    return PluginRow(
        **{"name": name, "profile": profile, "source": source, "state": state, **measured},
        points=points,
        weight=weight,
        version=found.version,
        sha256=found.sha256,
    )
