"""The Queue view: waiting pods by part of the queue and by reason, and gangs and queues of batch sessions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import amounts, format_amount
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, Queue
from mooring.columns.nodes import Nodes
from mooring.dashboard.cluster_view import owner_of
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import holds
from mooring.scheduler.queue import Place, QueuedPod
from mooring.unexpected_errors import shortened

#: The maximum number of listed pods of each part, of reasons, and of gangs.
_PODS: Final = 200
_REASONS: Final = 50
_GANGS: Final = 100
_QUEUES: Final = 200
#: After this many pods the scheduler's loop continues with other work.
_SLICE: Final = 2000
_MAX_TEXT: Final = 500
_NO_ATTEMPT: Final = "not tried yet"


class QueueView:
    """The pods that wait. Without a scheduling loop (``reported``), the conditions of pods tell why they wait."""

    def __init__(self, engine: Engine, *, batch: bool = False, reported: bool = False) -> None:
        self._engine = engine
        self._batch = batch
        self._reported = reported

    def counts(self) -> dict[str, int]:
        """Return the number of pods by part of the queue."""
        engine = self._engine
        waiting = sum(each.verdict is None for each in engine.profiles.waiting_pods)
        return {**engine.queue.pending(), "permit": waiting}

    async def overview(self) -> dict[str, Any]:
        """Return all parts of the queue, the reasons, and the gangs and queues."""
        parts: dict[str, list[dict[str, Any]]] = {place.value: [] for place in Place if place is not Place.IN_FLIGHT}
        counts: Counter[str] = Counter()
        reasons: Counter[tuple[str, str, str]] = Counter()
        examples: dict[tuple[str, str, str], str] = {}
        queue = self._engine.queue
        active = [(Place.ACTIVE, each) for each in queue.next_pods(10**9 if self._reported else _PODS)]
        for number, (place, queued) in enumerate([*active, *queue.waiting()]):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            part, plugin, reason = self._reason(place, queued)
            counts[part] += 1
            if part != Place.ACTIVE.value:
                reasons[part, plugin, reason] += 1
                examples.setdefault((part, plugin, reason), queued.key)
            if len(parts[part]) < _PODS:
                parts[part].append(self._row(queued, plugin, reason))
        held = self._held()
        return {
            "counts": {**dict(counts), "permit": len(held)} if self._reported else self.counts(),
            "parts": {**parts, "permit": held[:_PODS]},
            "reasons": [
                {"part": part, "plugin": plugin, "reason": reason, "pods": count, "example": examples[key]}
                for key, count in reasons.most_common(_REASONS)
                for part, plugin, reason in (key,)
            ],
            **(await self._sessions() if self._batch else {"gangs": [], "queues": []}),
        }

    def _reason(self, place: Place, queued: QueuedPod) -> tuple[str, str, str]:
        """Return the part of the queue, the plugin and the dominant reason: the one that most nodes have."""
        if place is Place.GATED:
            reason = ", ".join(queued.gating_reasons) or "gated"
            return place.value, queued.gating_plugin, shortened(reason, _MAX_TEXT)
        if self._reported:
            condition = queued.pod.condition("PodScheduled")
            if condition is None or condition.status != "False":
                return Place.ACTIVE.value, "", _NO_ATTEMPT
            return Place.UNSCHEDULABLE.value, "", shortened(condition.message, _MAX_TEXT)
        observer = self._engine.observer
        records = observer.records if observer is not None else None
        decision = records.get(queued.key) if records is not None else None
        if decision is None or decision.uid != queued.uid:
            return place.value, "", _NO_ATTEMPT
        if not decision.verdicts:
            return place.value, "", shortened(decision.message, _MAX_TEXT)
        most = max(decision.verdicts, key=lambda verdict: verdict.count)
        return place.value, most.plugin, shortened(", ".join(most.reasons) or decision.message, _MAX_TEXT)

    def _row(self, queued: QueuedPod, plugin: str, reason: str) -> dict[str, Any]:
        ends = self._engine.queue.backoff_ends(queued)
        return {
            "pod": queued.key,
            "priority": queued.pod.priority,
            "attempts": queued.attempts,
            "since": queued.initial_attempt_timestamp or queued.timestamp,
            "plugin": plugin,
            "reason": reason,
            "owner": owner_of(queued.pod),
            "backoffEnds": ends if ends > 0 else None,
        }

    def _held(self) -> list[dict[str, Any]]:
        found = []
        for each in self._engine.profiles.waiting_pods:
            if each.verdict is None:
                plugins = [{"plugin": hold.plugin, "until": hold.until} for hold in holds(each)]
                found.append({"pod": each.pod.key, "node": each.node_name, "plugins": plugins})
        return found

    # Gangs and queues

    def gang_changes(self) -> int:
        """Return a number that increases when a gang or a queue of batch sessions changes."""
        objects = self._engine.cache.objects
        return objects.lister(PodGroup).version + objects.lister(Queue).version if self._batch else 0

    async def _sessions(self) -> dict[str, Any]:
        # Imported with the first view, because most clusters have no gangs and most dashboards are never opened.
        from mooring.controllers.gang_explanation import Facts, explain_gang, is_waiting

        objects = self._engine.cache.objects
        queues = {queue.name: queue for queue in objects.lister(Queue).list()}
        groups: list[PodGroup] = list(objects.lister(PodGroup).list())
        waiting = [group for group in groups if is_waiting(group)][:_GANGS]
        members = await self._members({group.key for group in waiting})
        total = self._capacity()
        gangs = []
        for group in waiting:
            why = explain_gang(
                Facts(group=group, queues=queues, pods=members.get(group.key, ()), nodes=(total,), notes=())
            )
            gangs.append(
                {
                    "gang": group.key,
                    "queue": group.spec.queue or "default",
                    "phase": group.status.phase or "Pending",
                    "minMember": group.spec.min_member,
                    "pods": len(members.get(group.key, ())),
                    # The page of this pod has suggestions for the gang.
                    "pod": next((pod.key for pod in members.get(group.key, ()) if not pod.node_name), ""),
                    "gate": "" if why is None else why.gate,
                    "text": "" if why is None else shortened(why.text, _MAX_TEXT),
                    "room": [] if why is None else [msgspec.to_builtins(room) for room in why.room],
                }
            )
        in_queue: Counter[str] = Counter(group.spec.queue or "default" for group in groups)
        waits: Counter[str] = Counter(group.spec.queue or "default" for group in groups if is_waiting(group))
        size = amounts(total.status.allocatable)
        shown = sorted(queues.values(), key=lambda queue: queue.name)[:_QUEUES]
        return {
            "gangs": gangs,
            "waitingGangs": waits.total(),
            "queues": [_queue(queue, size, in_queue[queue.name], waits[queue.name]) for queue in shown],
        }

    async def _members(self, groups: set[str]) -> dict[str, list[Pod]]:
        """Return the pods of some groups."""
        found: dict[str, list[Pod]] = {}
        pods: Iterable[Pod] = list(self._engine.cache.objects.lister(Pod).list()) if groups else ()
        for number, pod in enumerate(pods):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            name = pod.annotations.get(GROUP_ANNOTATION)
            if name and (key := f"{pod.namespace}/{name}") in groups:
                found.setdefault(key, []).append(pod)
        return found

    def _capacity(self) -> Node:
        """Return a node as large as all nodes together."""
        table = self._engine.cache.table
        nodes = Nodes(table)
        names = [name for name in (*table.slots, "pods") if name]
        total = {name: format_amount(name, int(nodes.allocatable(name).sum())) for name in names}
        return Node(status=msgspec.structs.replace(Node().status, allocatable={**total}))


def _queue(queue: Queue, total: dict[str, int], groups: int, waiting: int) -> dict[str, Any]:
    allocated = amounts(queue.status.allocated)
    shares = {name: amount / total[name] for name, amount in allocated.items() if total.get(name)}
    listed: Callable[[Any], dict[str, str]] = lambda found: {name: str(value) for name, value in found.items()}  # noqa: E731
    return {
        "queue": queue.name,
        "parent": queue.spec.parent,
        "state": queue.status.state,
        "weight": queue.spec.weight,
        "share": round(max(shares.values(), default=0.0), 4),
        "allocated": listed(queue.status.allocated),
        "deserved": listed(queue.spec.deserved),
        "capability": listed(queue.spec.capability),
        "gangs": groups,
        "waiting": waiting,
    }
