"""Repeat the scheduling decision of one pod on the objects of a cluster, and explain it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.observe.decision_records import DecisionRecords
from mooring.observe.explanation import Explanation
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from mooring.scheduler.pod_explanation import explain
from mooring.simulate.sources import InputError

_replace = msgspec.structs.replace


def explain_again(
    objects: Iterable[KubeObject],
    key: str,
    config: SchedulerConfiguration,
    *,
    plugins: Mapping[str, type[Plugin]] | None = None,
    clock: Callable[[], float] = time.time,
    seed: int = 0,
) -> Explanation:
    """Decide about a pod (namespace/name) once more; one that has a node is taken off it first. Raises InputError."""
    watch = Observer(records=DecisionRecords(), clock=clock)
    engine = Engine(config, plugins=plugins, clock=clock, rng=random.Random(seed), observer=watch)
    target: Pod | None = None
    for item in objects:
        if not isinstance(item, Pod):
            engine.put(item)
        elif item.key == key:
            target = item
        elif item.node_name:
            engine.put(item)
        else:
            engine.cache.put(item)  # only its claim on a node, if it has one: it is not to be decided about
    if target is None:
        raise InputError(f"pod {key} is not there; check the namespace and the name")
    if target.is_finished:
        raise InputError(f"pod {key} has run to its end ({target.status.phase}): nothing is decided about it any more")
    if target.scheduler_name not in engine.profiles.runners:
        known = ", ".join(engine.profiles.runners)
        raise InputError(
            f'pod {key} is for scheduler "{target.scheduler_name}", and there are only profiles for {known}; '
            "give the scheduler's configuration with --config"
        )
    engine.put(_without_node(target) if target.node_name else target)
    engine.schedule_one()
    found = explain(engine, key)
    if found is None:
        raise InputError(f"pod {key} is being deleted: nothing is decided about it any more")
    found = _as_it_is(found, target)
    if config.extenders:
        found = _replace(found, note=f"{found.note} Extenders were not asked.")
    return found


def _without_node(pod: Pod) -> Pod:
    """The pod as it was before it had a node."""
    status = _replace(pod.status, nominated_node_name="")
    return _replace(pod, spec=_replace(pod.spec, node_name=""), status=status)


def _as_it_is(found: Explanation, pod: Pod) -> Explanation:
    """Adapt the explanation of the repeated decision to the pod's actual state."""
    chosen = ""
    if found.decision is not None:
        chosen = found.decision.node
        found = _replace(found, decision=_replace(found.decision, attempt=0))  # it was none of the scheduler's
    if pod.node_name:
        note = "This is what would be decided now, with the pod taken off its node; what was decided then is not known."
        return _replace(found, state="bound", node=pod.node_name, waiting=None, note=note)
    if chosen:
        note = "This is what would be decided now; nothing was changed."
        return _replace(found, state="pending", node="", waiting=None, note=note)
    waiting = found.waiting
    if waiting is not None:  # times and attempts of a queue that exists only here would mislead
        waiting = _replace(waiting, attempts=0, backoff_ends="", retried_by="")
    return _replace(found, waiting=waiting, note="This is what would be decided now; nothing was changed.")
