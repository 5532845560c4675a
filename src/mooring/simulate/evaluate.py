"""Decisions, offline and in full: what every plugin says of every node, and what preemption would do."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mooring.loading import Catalog
from mooring.scheduler.build import Profiles, known_kinds
from mooring.scheduler.cache import Cache
from mooring.scheduler.profile import ProfileError
from mooring.simulate.attempts import Attempts, Clock
from mooring.simulate.cases import CaseError, config_of, elapse_of, fill, pod_of, pods_of
from mooring.simulate.look import look

__all__ = ["CaseError", "evaluate"]

_NO_PLUGINS = Catalog()


def evaluate(case: Mapping[str, Any], catalog: Catalog = _NO_PLUGINS) -> dict[str, Any]:
    """Answer one case; the catalog has plugins to use.

    A case is ``{"objects": [...], "pod": {...}, "config"?: {...}}``, or has ``"pods": [...]`` to try one after the
    other and ``"elapse": {...}``, the seconds that pass before an attempt of that number.
    """
    cache, clock = Cache(), Clock()
    fill(cache, case, known_kinds(catalog.classes()))
    several = "pods" in case
    pods = pods_of(case) if several else [pod_of(case.get("pod"), "pod")]
    elapse = elapse_of(case, len(pods)) if several else {}
    config = config_of(case, catalog)
    for pod in pods:
        if several:
            cache.put(pod)
        else:
            cache.objects.put(pod)  # it exists, as every pod that is tried; what it may be nominated to is not asked
    try:
        profiles = Profiles(config, cache, plugins=catalog.classes(), rng=random.Random(0), clock=clock)
    except ProfileError as error:
        raise CaseError(f"config: {error}") from None
    result = Attempts(profiles, clock).run(pods, elapse) if several else look(profiles.first, pods[0]).shown
    if config.extenders:
        result["note"] = "extenders are not asked: this is what the plugins say without them"
    return result
