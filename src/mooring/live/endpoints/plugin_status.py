"""Status of the plugins of a running scheduler: state, calls, failures, cost, and failed reloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.live.reload.reloader import Reloader
from mooring.loading import Catalog
from mooring.loading.plugin_rows import PluginRow, plugin_rows
from mooring.scheduler.engine import Engine


def plugin_status(engine: Engine, catalog: Catalog, reloader: Reloader | None) -> list[PluginRow]:
    """Return a row for each plugin of each profile, as `mooring plugin list` shows them."""
    if reloader is not None:
        catalog = reloader.setup.catalog
    counters = _counters(engine)
    for name, found in catalog.found.items():
        problem = _problem(reloader, found.path)
        if problem:
            row = counters.setdefault(name, {})
            row["state"] = f"{row.get('state', 'running')}; not reloaded: {problem}"
    return plugin_rows(engine.profiles.config, catalog, statistics=counters)


def _problem(reloader: Reloader | None, path: Path | None) -> str:
    """Return why the newest version of a file was not loaded; also if the error names no file."""
    for fault in reloader.state.problems if reloader is not None else ():
        if not fault.path or (path is not None and (Path(fault.path) == path or path in Path(fault.path).parents)):
            return fault.message
    return ""


def _counters(engine: Engine) -> dict[str, dict[str, Any]]:
    """Return by plugin the counters of its guard, and for built-in plugins the number of calls."""
    health = engine.guards.health
    found: dict[str, dict[str, Any]] = {}
    times = engine.observer.plugin_times if engine.observer is not None else None
    for plugin, _, _, count in times.calls() if times is not None else ():
        row = found.setdefault(plugin, {"calls": 0})
        row["calls"] += count
    for name, guard in engine.guards.all().items():
        found[name] = {
            "state": guard.state,
            "calls": guard.calls,
            "failures": sum(count for (plugin, _), count in health.failures.items() if plugin == name),
            "over_budget": sum(count for (plugin, _), count in health.over_budget.items() if plugin == name),
            "mean_micros": guard.seconds / guard.calls * 1e6 if guard.calls else None,
        }
    return found
