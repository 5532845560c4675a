"""One decision, offline and in full: what every plugin says of every node, and what preemption would do."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.codec import Misfit, Unknown, decode_object, fit
from mooring.api.manifest_error import ManifestError, path_text
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import ConfigError, SchedulerConfiguration, load_config
from mooring.framework.custom_resources import CustomResource
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.nodes import Nodes
from mooring.framework.state import CycleState
from mooring.framework.status import Status
from mooring.loading import Catalog
from mooring.loading.setup import config_for
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.build import Profiles, known_kinds
from mooring.scheduler.cache import Cache
from mooring.scheduler.cycle import Cycle, absent_status
from mooring.scheduler.profile import ProfileError

#: Scores that say nothing yet: DynamicResources gives 0 to every node until it knows claims.
_UNSCORED = frozenset({"DynamicResources"})


_NO_PLUGINS = Catalog()


class CaseError(ValueError):
    """A case that cannot be read."""


def evaluate(case: Mapping[str, Any], catalog: Catalog = _NO_PLUGINS) -> dict[str, Any]:
    """Answer one case: ``{"objects": [...], "pod": {...}, "config"?: {...}}``; the catalog has plugins to use."""
    cache = Cache()
    kinds = known_kinds(catalog.classes())
    for number, raw in enumerate(_objects(case)):
        item = _decode(raw, f"objects[{number}]")
        if isinstance(item, KubeObject):
            cache.put(item)
        elif isinstance(item, Unknown):
            for kind in kinds.get((item.api_version, item.kind), ()):
                cache.put(_fitted(item, kind, f"objects[{number}]"))
    pod = _decode(case.get("pod"), "pod")
    if not isinstance(pod, Pod):
        raise CaseError("pod: not a Pod; give the pod to place as an object with kind: Pod")
    config = _config(case, catalog)
    try:
        cycle = Profiles(config, cache, plugins=catalog.classes(), rng=random.Random(0)).first
    except ProfileError as error:
        raise CaseError(f"config: {error}") from None
    result = answer(cycle, pod)
    if config.extenders:
        result["note"] = "extenders are not asked: this is what the plugins say without them"
    return result


def answer(cycle: Cycle, pod: Pod) -> dict[str, Any]:
    """Everything the plugins say about placing a pod."""
    state = CycleState()
    try:
        return _answer(cycle, state, pod)
    except PluginFailure as broken:
        return {"preFilter": _show(broken.status), "filter": {}}


def _answer(cycle: Cycle, state: CycleState, pod: Pod) -> dict[str, Any]:
    before = cycle.pre_filter(state, pod)
    result: dict[str, Any] = {"preFilter": _show(before.status), "filter": {}}
    if not before.status.is_success:
        statuses = NodeStatuses(cycle.table, before.status)
        result["preemption"] = _preemption(cycle, state, pod, statuses)
        return result
    if before.names is not None:
        result["preFilterNodes"] = sorted(before.names)
    among = cycle.rows_of(before.names)
    statuses, feasible = cycle.filtering.diagnose(state, pod, among, absent_status(before))
    looked_at = range(len(cycle.table)) if among is None else among.tolist()
    verdicts = {row: status for status, rows in statuses.groups() for row in rows.tolist()}
    passing = set(feasible.tolist())
    for row in looked_at:
        result["filter"][cycle.table.nodes[row].name] = _show(Status() if row in passing else verdicts[row])
    if not passing:
        result["preemption"] = _preemption(cycle, state, pod, statuses)
        return result
    cycle.scoring.pre_score(state, pod, Nodes(cycle.table, feasible))
    scores = cycle.scoring.by_plugin(state, pod, feasible)
    names = [cycle.table.nodes[row].name for row in feasible.tolist()]
    result["scores"] = {
        name: {plugin: int(values[place]) for plugin, values in scores.items() if plugin not in _UNSCORED}
        for place, name in enumerate(names)
    }
    result["totals"] = {name: sum(int(values[place]) for values in scores.values()) for place, name in enumerate(names)}
    return result


def _preemption(cycle: Cycle, state: CycleState, pod: Pod, statuses: NodeStatuses) -> dict[str, Any]:
    outcome, status = cycle.post_filter(state, pod, statuses)
    shown: dict[str, Any] = {"status": _show(status or Status.unschedulable())}
    if status is not None and status.is_success:
        shown["status"] = _show(Status())
        shown["nominatedNode"] = outcome.nominated_node
        pods = [cycle.table.pods[uid].pod for uid in outcome.victims]
        if pods:
            shown["victims"] = sorted(f"{victim.namespace}/{victim.name}" for victim in pods)
    return shown


def _show(status: Status) -> dict[str, Any]:
    shown: dict[str, Any] = {"code": status.code.title, "reasons": sorted(status.reasons)}
    if status.plugin and not status.is_success:
        shown["plugin"] = status.plugin
    return shown


def _objects(case: Mapping[str, Any]) -> list[Any]:
    objects = case.get("objects", [])
    if not isinstance(objects, list):
        raise CaseError("objects: not a list; give the cluster's objects as a list")
    return objects


def _decode(raw: Any, where: str) -> object:
    if not isinstance(raw, dict):
        raise CaseError(f"{where}: not an object")
    try:
        return decode_object(raw)
    except ManifestError as error:
        raise CaseError(f"{where}: {error}") from None


def _fitted(item: Unknown, kind: type[CustomResource], where: str) -> CustomResource:
    """An object of a kind that a plugin declares."""
    try:
        return fit(item.raw, kind)
    except Misfit as error:
        raise CaseError(f"{where}: {path_text(error.fault.steps)}: {error.fault.problem}") from None


def _config(case: Mapping[str, Any], catalog: Catalog) -> SchedulerConfiguration:
    config = case.get("config")
    if config is None:
        return _default(catalog)
    text = config if isinstance(config, str) else msgspec.json.encode(config).decode()
    return _parsed(text, catalog)


@functools.cache
def _default(catalog: Catalog) -> SchedulerConfiguration:
    return config_for(catalog)


@functools.lru_cache(maxsize=256)
def _parsed(text: str, catalog: Catalog) -> SchedulerConfiguration:
    try:
        return load_config(text, source="config", plugins=catalog.specs())
    except ConfigError as error:
        raise CaseError(f"config: {error}") from None
