"""Suggestions for gangs: the smallest changes that would let a pod group start, each verified by deciding again.

``Gang`` is what a scheduler knows about one group: its pods, and how it would decide about them after a change.
``GangSearch`` proposes changes, lets the gang decide with each, and keeps those with which the gang starts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import thread_time
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.meta import KubeObject
from mooring.api.node import Node, node_like
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityLike
from mooring.api.resources import amount, amounts, format_amount, pod_requests
from mooring.columns.table import NodeTable
from mooring.observe.explanation import SuggestionView
from mooring.scheduler.pod_changes import PodChanges, Rows, changed_nodes, uncordoned, with_amounts

_replace = msgspec.structs.replace
_Ints = npt.NDArray[np.int64]

#: Suggestions per gang, and the CPU time in seconds after which no more are looked for.
LIMIT: Final = 4
SECONDS: Final = 0.04
#: The time in seconds by which the first suggestion may be late.
PATIENCE: Final = 0.5
#: Kinds of changes, the least invasive first.
_ORDER: Final = (
    "remove-gate",
    "create-group",
    "create-queue",
    "open-queue",
    "create-pods",
    "wait",
    "uncordon",
    "tolerate",
    "volume",
    "raise-capability",
    "use-queue",
    "reduce-minimum",
    "reduce-request",
    "relax",
    "raise-weight",
    "label-node",
    "add-node",
    "free-queue",
    "evict",
)
#: The largest number of nodes that a suggestion adds, and of nodes whose pods it evicts.
_MOST_NODES: Final = 1000
_MOST_EMPTIED: Final = 50
#: Names of nodes and pods in a text.
_NAMED: Final = 3
#: The causes that are solved for the gang as a whole.
FIT, CORDON = "NodeResourcesFit", "NodeUnschedulable"


@dataclass(frozen=True)
class GangChange:
    """A change of a group, its pods, its queue or the cluster, that might help."""

    kind: str
    text: str
    #: The group, changed or created.
    group: KubeObject | None = None
    #: Pods of the gang that are changed or created.
    pods: tuple[Pod, ...] = ()
    #: Queues that are changed or created.
    queues: tuple[KubeObject, ...] = ()
    #: Nodes that are changed or added.
    nodes: tuple[Node, ...] = ()
    #: Pods that are evicted, or that finish or terminate.
    victims: tuple[Pod, ...] = ()

    def then(self, other: GangChange) -> GangChange:
        """Return both changes as one."""
        return GangChange(
            f"{self.kind},{other.kind}",
            f"{self.text}, and {other.text[0].lower()}{other.text[1:]}",
            other.group or self.group,
            tuple({pod.uid: pod for pod in (*self.pods, *other.pods)}.values()),
            tuple({queue.name: queue for queue in (*self.queues, *other.queues)}.values()),
            tuple({node.name: node for node in (*self.nodes, *other.nodes)}.values()),
            (*self.victims, *other.victims),
        )


NOTHING: Final = GangChange("", "")


@dataclass(frozen=True)
class GangOutcome:
    """What a scheduler decides about a gang."""

    #: Whether the gang starts.
    starts: bool
    #: The nodes of its pods, one for each pod that is placed in this decision.
    nodes: tuple[str, ...] = ()
    #: A pod without a feasible node, and the rows that each plugin rejected.
    stuck: Pod | None = None
    causes: tuple[tuple[str, Rows], ...] = ()


@dataclass(frozen=True)
class GangSuggestion:
    """A change that lets the gang start, and the nodes of its pods."""

    change: GangChange
    nodes: tuple[str, ...]

    @property
    def view(self) -> SuggestionView:
        """The suggestion for users."""
        names = list(dict.fromkeys(self.nodes))
        return SuggestionView(
            kind=self.change.kind,
            text=self.change.text,
            node=names[0] if names else "",
            pods=len(self.nodes),
            nodes=len(names),
        )


class Gang(ABC):
    """One pod group, as its scheduler sees it."""

    table: NodeTable
    #: namespace/name of the group.
    key: str
    #: The field of the group with its minimum, and its value.
    minimum_field: str
    minimum: int
    #: The pods without a node, and the number of those that have one.
    pending: list[Pod]
    placed: int

    @abstractmethod
    def decide(self, change: GangChange) -> GangOutcome:
        """Decide about the gang after a change, without consequences."""

    @abstractmethod
    def with_minimum(self, minimum: int) -> KubeObject | None:
        """Return the group with another minimum; None if there is no group."""

    def changes(self, outcome: GangOutcome, after: GangChange) -> Iterator[GangChange]:
        """Yield changes for causes that only this scheduler knows. ``after`` is applied already."""
        yield from ()

    @contextmanager
    def _cluster_with(self, change: GangChange) -> Iterator[None]:
        """Apply the changed nodes and remove the victims, and undo it at the end."""
        removed = [
            (info.pod, info.node.name)
            for pod in change.victims
            if (info := self.table.pods.get(pod.uid)) is not None and info.node is not None
        ]
        with changed_nodes(self.table, change.nodes):
            for pod, _ in removed:
                self.table.remove_pod(pod.uid)
            try:
                yield
            finally:
                for pod, name in removed:
                    self.table.add_pod(pod, name)


class GangSearch:
    """The search for suggestions for one gang."""

    def __init__(self, gang: Gang, *, limit: int = LIMIT, seconds: float = SECONDS) -> None:
        self._gang = gang
        self._pod_changes = PodChanges(gang.table)
        self._limit = limit
        self.deadline = thread_time() + seconds
        self._found: list[GangSuggestion] = []
        self._seen: set[str] = set()
        #: The nodes of the pods if the gang starts without a change.
        self.fits: tuple[str, ...] = ()

    def run(self) -> list[GangSuggestion]:
        """Search without pauses."""
        for _ in self.steps():
            pass
        return self.result()

    def steps(self) -> Iterator[None]:
        """Search, and pause after each change that was tried. The table is unchanged in a pause."""
        if not self._gang.pending:
            return
        first = self._gang.decide(NOTHING)
        yield
        if first.starts:
            self.fits = first.nodes
            return
        rejected: list[tuple[GangChange, GangOutcome]] = []
        for change in self._changes(first, NOTHING):
            outcome = self._gang.decide(change)
            if outcome.starts:
                self._add(change, outcome)
            else:
                rejected.append((change, outcome))
            yield
            if self._is_over():
                return
        if not self._found:
            yield from self._combine(rejected)

    def result(self) -> list[GangSuggestion]:
        """Return the suggestions that were found, the smallest change first."""
        return sorted(self._found, key=lambda each: max(map(_ORDER.index, each.change.kind.split(","))))

    def _is_over(self) -> bool:
        late = thread_time() > self.deadline + (0.0 if self._found else PATIENCE)
        return late or len(self._found) >= self._limit

    def _combine(self, rejected: Iterable[tuple[GangChange, GangOutcome]]) -> Iterator[None]:
        """Try pairs of changes: what the first one leaves as a cause is changed too."""
        for first, left in rejected:
            for second in self._changes(left, first):
                both = first.then(second)
                outcome = self._gang.decide(both)
                yield
                if outcome.starts:
                    self._add(both, outcome)
                    break
                if self._is_over():
                    return

    def _add(self, change: GangChange, outcome: GangOutcome) -> None:
        if change.text not in self._seen:
            self._seen.add(change.text)
            self._found.append(GangSuggestion(change, outcome.nodes))

    # Changes

    def _changes(self, outcome: GangOutcome, after: GangChange) -> Iterator[GangChange]:
        """Yield changes for the causes of an outcome, those first that are the least invasive."""
        yield from self._gang.changes(outcome, after)
        stuck = outcome.stuck
        if stuck is None:
            return
        rows = {cause: found for cause, found in outcome.causes if cause in (FIT, CORDON)}
        others = [each for each in outcome.causes if each[0] not in (FIT, CORDON)]
        missing = self._gang.minimum - self._gang.placed - len(outcome.nodes)
        if CORDON in rows:
            yield from self._uncordon(stuck, rows[CORDON], missing)
        single = self._pod_changes.for_causes(stuck, others)
        for change in sorted(single, key=lambda each: _ORDER.index(each.kind)):
            yield GangChange(change.kind, change.text, pods=self._alike(stuck, change.pod, after), nodes=change.nodes)
        if FIT in rows:
            yield from self._fewer(outcome, after)
            yield from self._smaller(stuck, rows[FIT], after)
        yield from self._new_nodes(stuck, max(missing, 1))
        if FIT in rows:
            yield from self._evict(stuck, rows[FIT], max(missing, 1))

    def _alike(self, stuck: Pod, changed: Pod, after: GangChange) -> tuple[Pod, ...]:
        """Return the pods of the gang that have the spec of a pod, with its changed spec."""
        if changed.spec == stuck.spec:
            return ()
        known = {pod.uid: pod for pod in (*self._gang.pending, *after.pods)}
        return tuple(_replace(pod, spec=changed.spec) for pod in known.values() if pod.spec == stuck.spec)

    def _fewer(self, outcome: GangOutcome, after: GangChange) -> Iterator[GangChange]:
        """Reduce the minimum to the number of pods that can be placed."""
        gang = self._gang
        if gang.minimum <= 1 or (after.group is not None and "reduce-minimum" in after.kind):
            return
        lowest = gang.decide(replace(after, group=gang.with_minimum(1)))
        fewer = gang.placed + len(lowest.nodes)
        if 0 < fewer < gang.minimum and lowest.nodes:
            text = f"Reduce {gang.minimum_field} of PodGroup {gang.key} from {gang.minimum} to {fewer}"
            yield GangChange("reduce-minimum", text, gang.with_minimum(fewer))

    def _smaller(self, stuck: Pod, rows: Rows, after: GangChange) -> Iterator[GangChange]:
        """Reduce the requests of the pods so far that enough of them fit."""
        needs, free = self._needs(stuck), self._free(stuck, rows)
        wanted = self._gang.minimum - self._gang.placed
        if not needs or free is None:
            return
        counts = {name: int(np.minimum(free[name] // needs[name], wanted).sum()) for name in needs}
        short = [name for name, count in counts.items() if count < wanted] or list(needs)
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            asked = {name: amount * (middle if name in short else 1.0) for name, amount in needs.items()}
            if _capacity(free, asked).sum() >= wanted:
                low = middle
            else:
                high = middle
        smaller = {name: _rounded(int(needs[name] * low)) for name in short}
        if any(amount <= 0 for amount in smaller.values()):
            return
        changed = with_amounts(stuck, smaller)
        if changed is None:
            return
        told = ", ".join(
            f"{name} from {format_amount(name, needs[name])} to {format_amount(name, amount)}"
            for name, amount in smaller.items()
        )
        pods = self._alike(stuck, changed, after)
        yield GangChange("reduce-request", f"Reduce the request of each pod for {told}", pods=pods)

    def _uncordon(self, stuck: Pod, rows: Rows, missing: int) -> Iterator[GangChange]:
        needs, free = self._needs(stuck), self._free(stuck, rows)
        room = np.ones(len(rows), dtype=np.int64) if free is None else _capacity(free, needs)
        order = np.argsort(-room, kind="stable")
        total, chosen = 0, []
        for place in order.tolist():
            if total >= max(missing, 1) or not room[place]:
                break
            total += int(room[place])
            chosen.append(uncordoned(self._gang.table.nodes[int(rows[place])].node))
        if chosen:
            names = named([node.name for node in chosen])
            text = f"Uncordon node {names}" if len(chosen) == 1 else f"Uncordon {len(chosen)} nodes: {names}"
            yield GangChange("uncordon", text, nodes=tuple(chosen))

    def _new_nodes(self, stuck: Pod, missing: int) -> Iterator[GangChange]:
        """Add as many nodes of a type as the missing pods need."""
        needs = pod_requests(stuck)
        found = []
        for told, node in self._pod_changes.types:
            offered = amounts(node.status.allocatable)
            each = min((offered.get(name, 0) // amount for name, amount in needs.items() if amount > 0), default=110)
            each = min(each, offered.get("pods", 110))
            if each > 0 and (count := -(-missing // each)) <= _MOST_NODES:
                found.append((count, told, node))
        found.sort(key=lambda each: each[0])
        # Other gangs may take new nodes first.
        more = [(factor * count, told, node) for factor in (3, 9) for count, told, node in found[:1]]
        for count, told, node in (*found, *more):
            nodes = tuple(node_like(node, f"{node.name}-new-{number}") for number in range(count))
            text = f"Add a node {told}" if count == 1 else f"Add {count} nodes {told}"
            yield GangChange("add-node", text, nodes=nodes)

    def _evict(self, stuck: Pod, rows: Rows, missing: int) -> Iterator[GangChange]:
        """Evict pods of the nodes where that makes room for most pods: those with the lowest priority first."""
        table, needs = self._gang.table, self._needs(stuck)
        free = self._free(stuck, rows)
        if not needs or free is None:
            return
        now = _capacity(free, needs)
        empty = _capacity({name: table.allocatable[table.slots[name]][rows] for name in needs}, needs)
        gains = empty - now
        victims: list[Pod] = []
        for place in np.argsort(-gains, kind="stable")[:_MOST_EMPTIED].tolist():
            if missing <= 0 or gains[place] <= 0:
                break
            room = {name: int(free[name][place]) for name in needs}
            fits = start = int(now[place])
            for pod in _evictable(table, int(rows[place])):
                victims.append(pod)
                released = pod_requests(pod)
                room = {name: amount + released.get(name, 0) for name, amount in room.items()}
                fits = min(amount // needs[name] for name, amount in room.items())
                if fits - start >= missing:
                    break
            missing -= fits - start
        if victims and missing <= 0:
            names = named([pod.key for pod in victims])
            text = f"Evict pod {names}" if len(victims) == 1 else f"Evict {len(victims)} pods: {names}"
            yield GangChange("evict", text, victims=tuple(victims))

    def _needs(self, pod: Pod) -> dict[str, int]:
        return {
            name: amount for name, amount in pod_requests(pod).items() if amount > 0 and name in self._gang.table.slots
        }

    def _free(self, pod: Pod, rows: Rows) -> dict[str, _Ints] | None:
        """Return what is free on rows of the resources that a pod requests; None if it requests nothing."""
        table = self._gang.table
        return {
            name: np.maximum(table.allocatable[slot][rows] - table.requested[slot][rows], 0)
            for name in self._needs(pod)
            for slot in (table.slots[name],)
        } or None


def _capacity(free: dict[str, _Ints], needs: dict[str, int] | dict[str, float]) -> _Ints:
    """Return how many pods fit on each row."""
    found: _Ints | None = None
    for name, needed in needs.items():
        count = (free[name] // max(needed, 1)).astype(np.int64)
        found = count if found is None else np.minimum(found, count)
    assert found is not None
    return found


def _rounded(amount: int) -> int:
    """Return an amount with at most three significant digits, rounded down."""
    unit: int = 10 ** max(len(str(amount)) - 3, 0)
    return amount // unit * unit


def _evictable(table: NodeTable, row: int) -> Sequence[Pod]:
    """Return the pods of a node in the order of eviction: the lowest priority first, then the largest."""
    pods = [info.pod for info in table.nodes[row].pods if not _is_of_node(info.pod)]
    return sorted(pods, key=lambda pod: (pod.priority, -pod_requests(pod).get("cpu", 0)))


def _is_of_node(pod: Pod) -> bool:
    """Return whether a pod belongs to its node: another one would replace it there."""
    return any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references)


def named(names: Sequence[str]) -> str:
    """Return the first names of a list: ``a, b, c and 2 more``."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def share_of(found: Mapping[str, QuantityLike], part: int, whole: int) -> dict[str, QuantityLike]:
    """Return a part of amounts, rounded up: the minimum resources of a smaller gang."""
    return {name: format_amount(name, -(-amount(name, each) * part // max(whole, 1))) for name, each in found.items()}
