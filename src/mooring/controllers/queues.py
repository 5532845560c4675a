"""Queues: those that every cluster has, whether they take jobs, and what waits in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import structlog

from mooring.api.meta import ObjectMeta
from mooring.api.volcano import PodGroup, Queue, QueueSpec
from mooring.api.volcano_jobs import Command
from mooring.batch.queue import ROOT
from mooring.controllers.commands import commands_for, take
from mooring.controllers.names import CLOSED_BY_PARENT, GROUP_PHASES
from mooring.controllers.reconciler import Reconciler, Selection, Tools
from mooring.kube import AlreadyExists, Change, NotFound

log = structlog.get_logger("mooring.controller")

OPEN, CLOSED, CLOSING, UNKNOWN = "Open", "Closed", "Closing", "Unknown"
OPEN_QUEUE, CLOSE_QUEUE = "OpenQueue", "CloseQueue"
_SHUT: Final = frozenset({CLOSED, CLOSING})
#: The counts of a queue are written at most this often; whether it is open, at once.
_COUNT_SECONDS: Final = 1.0
_UNSERVED_SECONDS: Final = 2.0


def next_state(state: str, action: str, *, groups: int) -> str:
    """The state of a queue after an action ("" for none), with so many groups in it."""
    if action == OPEN_QUEUE:
        return OPEN
    if action == CLOSE_QUEUE and state not in _SHUT:
        return CLOSING if groups else CLOSED
    if state == CLOSING:
        return CLOSING if groups else CLOSED
    if state in {"", OPEN}:
        return OPEN
    return state if state == CLOSED else UNKNOWN


class Queues(Reconciler):
    """Keeps queues' states and counts."""

    name = "queue"

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._made = (ROOT, tools.settings.default_queue)
        self._groups: dict[str, dict[str, str]] = {}
        self._written: dict[str, float] = {}

    def selections(self) -> Iterable[Selection]:
        """Queues, what is in them, and what is asked of them."""
        return (Selection.of(Queue), Selection.of(PodGroup), Selection.of(Command))

    def first(self) -> Iterable[str]:
        """The queues that every cluster has."""
        return self._made

    def concerns(self, change: Change[Any]) -> Iterable[str]:
        """The queue itself, those below it, the queue of a group, or the one that a command is about."""
        found = change.object
        if isinstance(found, Queue):
            below = [each.name for each in self.view.all(Queue).values() if each.spec.parent == found.name]
            return (found.name, *below)
        if isinstance(found, PodGroup):
            return self._count(change)
        if isinstance(found, Command) and change.new is not None and found.target.kind == "Queue":
            return (found.target.name,)
        return ()

    def _count(self, change: Change[Any]) -> Iterable[str]:
        """Keep up with which group is in which queue and phase; the queues for which that changed."""
        concerned = []
        for group, there in ((change.old, False), (change.new, True)):
            if group is None:
                continue
            queue = group.spec.queue or self.tools.settings.default_queue
            phases = self._groups.setdefault(queue, {})
            before = phases.get(group.key)
            if there:
                phases[group.key] = group.status.phase
            else:
                phases.pop(group.key, None)
            if before != phases.get(group.key):
                concerned.append(queue)
        return dict.fromkeys(concerned)

    async def reconcile(self, key: str) -> float | None:
        """Bring a queue up to date."""
        queue = self.view.get(Queue, key)
        if queue is None:
            return await self._missing(key)
        action = await self._commanded(queue)
        if key != ROOT and not queue.spec.parent:
            await self.tools.client.patch(Queue, key, {"spec": {"parent": ROOT}})
        return await self._settle(queue, action or self._inherited(queue))

    async def _missing(self, name: str) -> float | None:
        self.tools.metrics.queue_gone(name)
        self._written.pop(name, None)
        if name not in self._made:
            return None
        spec = QueueSpec(reclaimable=name != ROOT)
        try:
            await self.tools.client.create(Queue(metadata=ObjectMeta(name=name), spec=spec))
        except AlreadyExists:
            return None
        except NotFound:
            return _UNSERVED_SECONDS  # the cluster has no queues: their informer says so
        log.info("made a queue", queue=name)
        return None

    async def _commanded(self, queue: Queue) -> str:
        """What was asked of a queue, if anything; the last word counts."""
        action = ""
        for command in commands_for(self.view, "Queue", queue.name):
            if await take(self.tools.client, command):
                action = command.action
        if action == CLOSE_QUEUE and queue.name == ROOT:
            self.tools.tell(queue, CLOSE_QUEUE, "the root queue cannot be closed", type="Warning")
            return ""
        parent = self._parent(queue)
        if action == OPEN_QUEUE and parent is not None and parent.status.state in _SHUT:
            text = f"queue {queue.name} stays closed because its parent queue {parent.name} is closing or closed"
            self.tools.tell(queue, OPEN_QUEUE, f"{text}: open that one first", type="Warning")
            return ""
        return action if action in {OPEN_QUEUE, CLOSE_QUEUE} else ""

    def _parent(self, queue: Queue) -> Queue | None:
        return None if queue.name == ROOT else self.view.get(Queue, queue.spec.parent or ROOT)

    def _inherited(self, queue: Queue) -> str:
        """What the queue above makes of this one: it closes with it, and opens with it if that was why it closed."""
        parent = self._parent(queue)
        if parent is None:
            return ""
        shut = queue.status.state in _SHUT
        if parent.status.state in _SHUT and not shut:
            return CLOSE_QUEUE
        if parent.status.state == OPEN and shut and queue.annotations.get(CLOSED_BY_PARENT) == "true":
            return OPEN_QUEUE
        return ""

    async def _settle(self, queue: Queue, action: str) -> float | None:
        groups = self._groups.get(queue.name, {})
        before = queue.status.state
        state = next_state(before, action, groups=len(groups))
        counts = Counter(phase.lower() for phase in groups.values() if phase in GROUP_PHASES)
        self.tools.metrics.queue(queue.name, counts)
        if action:
            parent = self._parent(queue)
            by_parent = action == CLOSE_QUEUE and parent is not None and parent.status.state in _SHUT
            await self._mark(queue, "true" if by_parent else "false")
        late = await self._write(queue, state, {phase.lower(): counts[phase.lower()] for phase in GROUP_PHASES})
        if action == CLOSE_QUEUE and state != before:
            self.tools.tell(queue, CLOSE_QUEUE, "Close queue succeed", type="Normal")
        return late

    async def _mark(self, queue: Queue, value: str) -> None:
        known = queue.annotations.get(CLOSED_BY_PARENT, "false")
        if known != value:
            patch = {"metadata": {"annotations": {CLOSED_BY_PARENT: value}}}
            await self.tools.client.patch(Queue, queue.name, patch)

    async def _write(self, queue: Queue, state: str, counts: dict[str, int]) -> float | None:
        """Write a queue's status where it is news; counts alone wait their turn."""
        status = queue.status
        known = {phase: getattr(status, phase) for phase in counts}
        if status.state == state and known == counts:
            return None
        now = self.tools.clock()
        due = self._written.get(queue.name, 0.0) + _COUNT_SECONDS
        if status.state == state and now < due:
            return due - now
        self._written[queue.name] = now
        await self.tools.client.patch(Queue, queue.name, {"status": {"state": state, **counts}}, subresource="status")
        return None
