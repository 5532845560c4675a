"""The queue controller: creates the root and default queues, opens and closes queues, and counts their PodGroups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from mooring.api.meta import ObjectMeta
from mooring.api.volcano import PodGroup, Queue, QueueSpec
from mooring.api.volcano_jobs import Command
from mooring.batch.queue import ROOT
from mooring.controllers.commands import consume_command, pending_commands
from mooring.controllers.constants import CLOSE_QUEUE, CLOSED_BY_PARENT, GROUP_PHASES, OPEN_QUEUE
from mooring.controllers.reconciler import Context, Reconciler, Selection
from mooring.kube import AlreadyExists, Change, NotFound
from mooring.logs import get_logger

log = get_logger("mooring.controller")

OPEN, CLOSED, CLOSING, UNKNOWN = "Open", "Closed", "Closing", "Unknown"
_CLOSED_OR_CLOSING: Final = frozenset({CLOSED, CLOSING})
#: The minimum interval between writes of a queue's counts. A new state is written at once.
_COUNT_SECONDS: Final = 1.0
#: The retry interval while the cluster does not serve queues.
_UNSERVED_SECONDS: Final = 2.0


def next_state(state: str, action: str, *, groups: int) -> str:
    """Return the state of a queue with a number of PodGroups after an action ("" for none)."""
    if action == OPEN_QUEUE:
        return OPEN
    if action == CLOSE_QUEUE and state not in _CLOSED_OR_CLOSING:
        return CLOSING if groups else CLOSED
    if state == CLOSING:
        return CLOSING if groups else CLOSED
    if state in {"", OPEN}:
        return OPEN
    return state if state == CLOSED else UNKNOWN


class QueueReconciler(Reconciler):
    """Maintains the state and the counts of queues."""

    name = "queue"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._created = (ROOT, context.settings.default_queue)
        #: Queue -> PodGroup -> phase.
        self._groups: dict[str, dict[str, str]] = {}
        self._written: dict[str, float] = {}

    def selections(self) -> Iterable[Selection]:
        """Watch queues, PodGroups and commands."""
        return (Selection.of(Queue), Selection.of(PodGroup), Selection.of(Command))

    def initial_keys(self) -> Iterable[str]:
        """Return the queues that are created if they do not exist."""
        return self._created

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the changed queue and its children, the queue of a PodGroup, or the target of a command."""
        found = change.object
        if isinstance(found, Queue):
            children = [each.name for each in self.cache.all(Queue).values() if each.spec.parent == found.name]
            return (found.name, *children)
        if isinstance(found, PodGroup):
            return self._count(change)
        if isinstance(found, Command) and change.new is not None and found.target.kind == "Queue":
            return (found.target.name,)
        return ()

    def _count(self, change: Change[Any]) -> Iterable[str]:
        """Track the queue and the phase of a PodGroup. Return the queues whose counts changed."""
        affected = []
        for group, exists in ((change.old, False), (change.new, True)):
            if group is None:
                continue
            queue = group.spec.queue or self.context.settings.default_queue
            phases = self._groups.setdefault(queue, {})
            before = phases.get(group.key)
            if exists:
                phases[group.key] = group.status.phase
            else:
                phases.pop(group.key, None)
            if before != phases.get(group.key):
                affected.append(queue)
        return dict.fromkeys(affected)

    async def reconcile(self, key: str) -> float | None:
        """Create a missing default queue, execute commands, and write the status."""
        queue = self.cache.get(Queue, key)
        if queue is None:
            return await self._create(key)
        action = await self._commanded_action(queue)
        if key != ROOT and not queue.spec.parent:
            await self.context.client.patch(Queue, key, {"spec": {"parent": ROOT}})
        return await self._apply(queue, action or self._inherited_action(queue))

    async def _create(self, name: str) -> float | None:
        self.context.metrics.remove_queue(name)
        self._written.pop(name, None)
        if name not in self._created:
            return None
        spec = QueueSpec(reclaimable=name != ROOT)
        try:
            await self.context.client.create(Queue(metadata=ObjectMeta(name=name), spec=spec))
        except AlreadyExists:
            return None
        except NotFound:
            return _UNSERVED_SECONDS  # the cluster does not serve queues; their informer logs it
        log.info("created a queue", queue=name)
        return None

    async def _commanded_action(self, queue: Queue) -> str:
        """Consume the commands for a queue and return the action of the last one, or ""."""
        action = ""
        for command in pending_commands(self.cache, "Queue", queue.name):
            if await consume_command(self.context.client, command):
                action = command.action
        if action == CLOSE_QUEUE and queue.name == ROOT:
            self.context.record_event(queue, CLOSE_QUEUE, "the root queue cannot be closed", type="Warning")
            return ""
        parent = self._parent(queue)
        if action == OPEN_QUEUE and parent is not None and parent.status.state in _CLOSED_OR_CLOSING:
            text = f"queue {queue.name} stays closed because its parent queue {parent.name} is closing or closed"
            self.context.record_event(queue, OPEN_QUEUE, f"{text}: open that one first", type="Warning")
            return ""
        return action if action in {OPEN_QUEUE, CLOSE_QUEUE} else ""

    def _parent(self, queue: Queue) -> Queue | None:
        return None if queue.name == ROOT else self.cache.get(Queue, queue.spec.parent or ROOT)

    def _inherited_action(self, queue: Queue) -> str:
        """Return the action that follows from the parent queue.

        A queue closes with its parent. It opens with its parent if it closed because of the parent.
        """
        parent = self._parent(queue)
        if parent is None:
            return ""
        closed = queue.status.state in _CLOSED_OR_CLOSING
        if parent.status.state in _CLOSED_OR_CLOSING and not closed:
            return CLOSE_QUEUE
        if parent.status.state == OPEN and closed and queue.annotations.get(CLOSED_BY_PARENT) == "true":
            return OPEN_QUEUE
        return ""

    async def _apply(self, queue: Queue, action: str) -> float | None:
        groups = self._groups.get(queue.name, {})
        before = queue.status.state
        state = next_state(before, action, groups=len(groups))
        counts = Counter(phase.lower() for phase in groups.values() if phase in GROUP_PHASES)
        self.context.metrics.set_queue(queue.name, counts)
        if action:
            parent = self._parent(queue)
            by_parent = action == CLOSE_QUEUE and parent is not None and parent.status.state in _CLOSED_OR_CLOSING
            await self._annotate(queue, "true" if by_parent else "false")
        delay = await self._write(queue, state, {phase.lower(): counts[phase.lower()] for phase in GROUP_PHASES})
        if action == CLOSE_QUEUE and state != before:
            self.context.record_event(queue, CLOSE_QUEUE, "Close queue succeed", type="Normal")
        return delay

    async def _annotate(self, queue: Queue, value: str) -> None:
        if queue.annotations.get(CLOSED_BY_PARENT, "false") != value:
            patch = {"metadata": {"annotations": {CLOSED_BY_PARENT: value}}}
            await self.context.client.patch(Queue, queue.name, patch)

    async def _write(self, queue: Queue, state: str, counts: dict[str, int]) -> float | None:
        """Write a queue's status if it changed. Return the delay if only counts changed and it is too early."""
        status = queue.status
        if status.state == state and counts == {phase: getattr(status, phase) for phase in counts}:
            return None
        now = self.context.clock()
        due = self._written.get(queue.name, 0.0) + _COUNT_SECONDS
        if status.state == state and now < due:
            return due - now
        self._written[queue.name] = now
        await self.context.client.patch(Queue, queue.name, {"status": {"state": state, **counts}}, subresource="status")
        return None
