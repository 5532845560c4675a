"""The status of the plugins of a running scheduler: state, calls, failures, cost, and failed reloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.live.reload.reloader import Reloader
from mooring.loading import Catalog
from mooring.loading.plugin_rows import PluginRow, plugin_rows
from mooring.scheduler.engine import Engine

if TYPE_CHECKING:
    from mooring.live.batch.batch_scheduler import BatchScheduler


def plugin_status(
    engine: Engine, catalog: Catalog, reloader: Reloader | None, batch: BatchScheduler | None = None
) -> list[PluginRow]:
    """Return a row for each plugin of each profile and of batch sessions, as `mooring plugin list` shows them."""
    if reloader is not None:
        catalog = reloader.setup.catalog
    counters = _counters(engine)
    sessions = {}
    if batch is not None:
        counters |= {batch.plugin_name(name): each for name, each in batch.guards.statistics().items()}
        sessions = {batch.scheduler_name: batch.enabled()}
    for name, found in catalog.found.items():
        problem = _problem(reloader, found.path)
        if problem:
            row = counters.setdefault(name, {})
            row["state"] = f"{row.get('state', 'running')}; not reloaded: {problem}"
        if reloader is not None and (left := reloader.leaks.get(name)):
            row = counters.setdefault(name, {})
            row["state"] = f"{row.get('state', 'running')}; replaced versions left open: {', '.join(left)}"
    return plugin_rows(engine.profiles.config, catalog, statistics=counters, sessions=sessions)


def _problem(reloader: Reloader | None, path: Path | None) -> str:
    """Return why the newest version of a file was not loaded. An error that names no file applies to all."""
    for fault in reloader.state.problems if reloader is not None else ():
        if not fault.path or (path is not None and (Path(fault.path) == path or path in Path(fault.path).parents)):
            return fault.message
    return ""


def _counters(engine: Engine) -> dict[str, dict[str, Any]]:
    """Return by plugin the counters of its guard, and for built-in plugins the number of calls and their mean time."""
    found: dict[str, dict[str, Any]] = {}
    times = engine.observer.plugin_times if engine.observer is not None else None
    if times is not None:
        means = times.mean_micros()
        for plugin, _, _, count in times.calls():
            row = found.setdefault(plugin, {"calls": 0, "mean_micros": means.get(plugin)})
            row["calls"] += count
    return found | engine.guards.statistics()
