"""Explanation of the state of one pod from an engine's records, queue and cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from mooring.api.meta import format_time
from mooring.api.pod import Pod
from mooring.framework.events import ActionType, ClusterEvent
from mooring.observe.explanation import (
    DecisionView,
    Explanation,
    SuggestionView,
    WaitingView,
    WakeView,
    hold_view,
    view,
)
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import holds
from mooring.scheduler.queue import Place, QueuedPod


def explain(engine: Engine, key: str, *, searched: Sequence[SuggestionView] | None = None) -> Explanation | None:
    """Explain the state of a pod (namespace/name); None if the pod is unknown.

    ``searched`` contains the suggestions for a pending pod. Without it they are searched for, which takes a while.
    """
    records = engine.observer.records if engine.observer is not None else None
    decision = records.get(key) if records is not None else None
    found = engine.queue.find(key)
    placed = _placed(engine, key, decision.uid if decision is not None else "")
    current = placed.uid if placed is not None else found[1].uid if found is not None else ""
    if decision is not None and current not in ("", decision.uid):
        decision = None  # the record of an earlier pod with the same name
    shown = view(decision) if decision is not None else None
    if found is not None:
        place, queued = found
        if place is Place.IN_FLIGHT and placed is not None:
            return _in_flight(engine, placed, shown)
        state = "gated" if place is Place.GATED else "pending"
        waits = waiting(engine, place, queued)
        suggestions: list[SuggestionView] = []
        if decision is not None and decision.suggestions is not None:
            suggestions = list(decision.suggestions)
        elif searched is not None:
            suggestions = list(searched)
        elif place is not Place.IN_FLIGHT:
            from mooring.scheduler.suggestions import suggest

            suggestions = [each.view for each in suggest(engine, queued.pod)]
        return Explanation(pod=key, state=state, decision=shown, waiting=waits, suggestions=suggestions)
    if placed is not None:
        return _on_node(engine, placed, shown)
    if decision is None or shown is None:
        return None
    if decision.waits and decision.profile not in engine.profiles.runners:
        return None  # the batch engine explains it: sessions decide about whole gangs
    return Explanation(
        pod=key,
        state="gone",
        node=shown.node,
        decision=shown,
        note="The pod was deleted; this was its last attempt.",
    )


async def explain_with_pauses(engine: Engine, key: str, gangs: Gangs | None = None) -> Explanation | None:
    """Return the same as ``explain``. The search for suggestions pauses, and its result is kept until the next attempt.

    ``gangs`` explains pods of batch sessions.
    """
    records = engine.observer.records if engine.observer is not None else None
    decision = records.get(key) if records is not None else None
    if gangs is not None and decision is not None and decision.waits:
        pod = _of_session(engine, key)
        if pod is not None and pod.uid == decision.uid:
            return Explanation(
                pod=key,
                state="pending",
                decision=view(decision),
                gang=gangs.group_of(pod),
                suggestions=await gangs.suggest(pod),
            )
    found = engine.queue.find(key)
    views: tuple[SuggestionView, ...] = ()
    if found is not None and found[0] is not Place.IN_FLIGHT:
        known = decision is not None and decision.uid == found[1].uid
        if not known or decision is None or decision.suggestions is None:
            from mooring.scheduler.suggestions import suggest_with_pauses  # only explanations need it

            views = tuple(each.view for each in await suggest_with_pauses(engine, found[1].pod))
            if known and decision is not None and not engine.lock.held:
                decision.suggestions = views
    return explain(engine, key, searched=views)


class Gangs(Protocol):
    """The batch sessions of a scheduler, for explanations."""

    def group_of(self, pod: Pod) -> str:
        """Return namespace/name of the PodGroup of a pod."""

    async def suggest(self, pod: Pod) -> list[SuggestionView]:
        """Return changes that would let the gang of a pending pod start."""


def _of_session(engine: Engine, key: str) -> Pod | None:
    """Return a pending pod that batch sessions schedule."""
    namespace, _, name = key.partition("/")
    pod = engine.cache.objects.lister(Pod).get(name, namespace)
    waits = pod is not None and not pod.node_name and pod.uid not in engine.cache.table.pods
    return pod if waits and pod is not None and pod.scheduler_name not in engine.profiles.runners else None


def _in_flight(engine: Engine, pod: Pod, shown: DecisionView | None) -> Explanation:
    """Explain a pod that has a node and is not bound yet."""
    waiting = engine.profiles.waiting_pods.get(pod.uid)
    if waiting is None or waiting.verdict is not None:
        return Explanation(pod=pod.key, state="binding", node=pod.node_name, decision=shown)
    held_by = [hold_view(each) for each in holds(waiting)]
    return Explanation(pod=pod.key, state="held", node=pod.node_name, decision=shown, held_by=held_by)


def _placed(engine: Engine, key: str, uid: str) -> Pod | None:
    """Return the pod with a name that is on a node, or assumed there; ``uid`` is a guess that avoids a search."""
    pods = engine.cache.table.pods
    namespace, _, name = key.partition("/")
    cached = engine.cache.objects.lister(Pod).get(name, namespace)
    known = pods.get(uid) or (pods.get(cached.uid) if cached is not None else None)
    if known is not None and known.pod.key == key:
        return known.pod
    if cached is not None:
        return None  # it is pending
    return next((info.pod for info in pods.values() if info.pod.key == key), None)


def _on_node(engine: Engine, pod: Pod, shown: DecisionView | None) -> Explanation:
    settled = shown is not None and shown.outcome in ("bound", "preempted")
    state = "binding" if pod.uid in engine.cache.assumed and not settled else "bound"
    note = ""
    # A pod that a session has bound is counted before its binding is observed.
    node = pod.node_name or (shown.node if shown is not None else "")
    of_another = shown is None or (shown.node and shown.node != node) or shown.outcome in ("unschedulable", "error")
    if of_another or (shown is not None and not shown.attempt):
        note = "Another scheduler bound it, or its record was removed."
    return Explanation(pod=pod.key, state=state, node=node, decision=shown, note=note)


def waiting(engine: Engine, place: Place, queued: QueuedPod) -> WaitingView:
    """Describe a pod's place in the queue, the events that requeue it, and its latest retry."""
    held = place in (Place.UNSCHEDULABLE, Place.GATED)
    ends = engine.queue.backoff_ends(queued)
    latest = engine.queue.retried_by(queued)
    return WaitingView(
        queue=place.value,
        attempts=queued.attempts,
        gated_by=queued.gating_plugin,
        gate_reasons=list(queued.gating_reasons),
        gates=[gate.name for gate in queued.pod.spec.scheduling_gates] if queued.gated else [],
        woken_by=_woken_by(engine, queued) if held else [],
        backoff_ends=format_time(ends) if math.isfinite(ends) and place is not Place.ACTIVE else "",
        retried_by=format_time(latest) if place is Place.UNSCHEDULABLE else "",
        nominated_node=engine.cache.nominator.node_of(queued.uid) or "",
    )


def _woken_by(engine: Engine, queued: QueuedPod) -> list[WakeView]:
    cycle = engine.profiles.runners.get(queued.profile)
    if cycle is None:
        return []
    plugins = {queued.gating_plugin} if queued.gated else queued.rejectors
    return [
        WakeView(plugin=plugin, events=[event_text(event) for event in events])
        for plugin, events in cycle.profile.events().items()
        if plugin in plugins
    ]


def event_text(event: ClusterEvent) -> str:
    """Describe a registered event: ``Node added, labels changed``."""
    if event.actions == ActionType.ALL:
        return f"{event.resource} (any change)"
    words = []
    rest = event.actions
    if ActionType.UPDATE in rest:
        words.append("changed")
        rest &= ~ActionType.UPDATE
    words = [_WORDS.get(action, str(action.name).lower()) for action in ActionType(rest)] + words
    return f"{event.resource} {', '.join(words)}"


_WORDS = {
    ActionType.ADD: "added",
    ActionType.DELETE: "deleted",
    ActionType.UPDATE_NODE_ALLOCATABLE: "allocatable changed",
    ActionType.UPDATE_NODE_LABEL: "labels changed",
    ActionType.UPDATE_NODE_TAINT: "taints changed",
    ActionType.UPDATE_NODE_CONDITION: "conditions changed",
    ActionType.UPDATE_NODE_ANNOTATION: "annotations changed",
    ActionType.UPDATE_NODE_DECLARED_FEATURE: "declared features changed",
    ActionType.UPDATE_POD_LABEL: "labels changed",
    ActionType.UPDATE_POD_SCALE_DOWN: "asks for less",
    ActionType.UPDATE_POD_TOLERATION: "tolerations changed",
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "scheduling gates removed",
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "resource claims made",
}
