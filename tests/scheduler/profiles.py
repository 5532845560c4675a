"""Profiles for tests: from plugin classes, without a configuration file."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

from mooring.api.meta import KubeObject
from mooring.framework import Handle, Plugin
from mooring.framework.points import CONFIG_POINTS, points_of
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profile import Profile
from mooring.scheduler.sampling import Sampler


def make_runner(
    *plugins: type[Plugin],
    objects: tuple[KubeObject, ...] = (),
    weights: dict[str, int] | None = None,
    args: dict[str, Any] | None = None,
    percentage: int | None = None,
    trusted: tuple[str, ...] = (),
    seed: int = 0,
) -> PluginRunner:
    """A cycle that runs these plugins at every point they serve, in this order."""
    cache = Cache()
    for item in objects:
        cache.put(item)
    handle = Handle(table=cache.table, objects=cache.objects, nominator=cache.nominator, rng=random.Random(seed))
    enabled = {
        point: tuple(
            SimpleNamespace(name=cls.name, weight=(weights or {}).get(cls.name, 1))
            for cls in plugins
            if point in points_of(cls)
        )
        for point in CONFIG_POINTS
    }
    config = SimpleNamespace(scheduler_name="default-scheduler", plugins=enabled, plugin_config=args or {})
    registry = {cls.name: cls for cls in plugins}
    profile = Profile(cast(Any, config), handle, registry, frozenset(trusted))
    return PluginRunner(profile, Sampler(cache.table), percentage)
