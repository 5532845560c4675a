"""Explanation of a pod's scheduling decision, which is repeated on the objects of a cluster."""

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
from mooring.simulation.sources import InputError

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
    """Repeat the decision about a pod (namespace/name). A pod with a node is removed first. Raises InputError."""
    watch = Observer(records=DecisionRecords(), clock=clock)
    engine = Engine(config, plugins=plugins, clock=clock, rng=random.Random(seed), observer=watch)
    target = fill(engine, objects, key)
    engine.schedule_one()
    found = explain(engine, key)
    if found is None:
        raise InputError(f"pod {key} is being deleted and is not scheduled")
    found = _adapt_to_state(found, target)
    if config.extenders:
        found = _replace(found, note=f"{found.note} Extenders were not called.")
    return found


def fill(engine: Engine, objects: Iterable[KubeObject], key: str) -> Pod:
    """Add the objects of a cluster to an engine so that one pod (namespace/name) is unscheduled; return that pod.

    A pod with a node is removed from it. Raises InputError.
    """
    target: Pod | None = None
    for item in objects:
        if not isinstance(item, Pod):
            engine.put(item)
        elif item.key == key:
            target = item
        elif item.node_name:
            engine.put(item)
        else:
            engine.cache.put(item)  # only for its nomination: it is not to be scheduled
    if target is None:
        raise InputError(f"pod {key} is not there; check the namespace and the name")
    if target.is_finished:
        raise InputError(f"pod {key} has finished ({target.status.phase}) and is not scheduled")
    if target.scheduler_name not in engine.profiles.runners:
        known = ", ".join(engine.profiles.runners)
        raise InputError(
            f'pod {key} is for scheduler "{target.scheduler_name}", and there are only profiles for {known}; '
            "give the scheduler's configuration with --config"
        )
    engine.put(_without_node(target) if target.node_name else target)
    return target


def _without_node(pod: Pod) -> Pod:
    """Return the pod as it was before it was scheduled."""
    status = _replace(pod.status, nominated_node_name="")
    return _replace(pod, spec=_replace(pod.spec, node_name=""), status=status)


def _adapt_to_state(found: Explanation, pod: Pod) -> Explanation:
    """Adapt the explanation of the repeated decision to the pod's actual state."""
    chosen = ""
    if found.decision is not None:
        chosen = found.decision.node
        found = _replace(found, decision=_replace(found.decision, attempt=0))  # not an attempt of the scheduler
    if pod.node_name:
        note = "This is what would be decided now, with the pod taken off its node; what was decided then is not known."
        return _replace(found, state="bound", node=pod.node_name, waiting=None, held_by=[], note=note)
    if chosen:
        note = "This is what would be decided now; nothing was changed."
        return _replace(found, state="pending", node="", waiting=None, held_by=[], note=note)
    waiting = found.waiting
    if waiting is not None:  # times and attempts of the simulated queue would mislead
        waiting = _replace(waiting, attempts=0, backoff_ends="", retried_by="")
    return _replace(found, waiting=waiting, note="This is what would be decided now; nothing was changed.")
