"""Suggestions: the smallest changes that would make a pending pod schedulable, each verified by deciding again.

A change of the pod is verified with a changed copy of the pod. A change of a node is applied to the node table, and
undone after the decision; nothing else runs in between, because decisions are synchronous. Victims are those that
preemption would choose if the pod had the highest priority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.affinity import Affinity, NodeSelector, Taint, Toleration
from mooring.api.node import INSTANCE_TYPES, Node, node_like
from mooring.api.pod import Container, Pod
from mooring.api.resources import format_amount, pod_requests
from mooring.api.tolerations import tolerates
from mooring.framework.preemption.candidate import AskExtenders
from mooring.framework.preemption.evaluator import Evaluator
from mooring.observe.attempt_trace import Evaluation
from mooring.observe.explanation import SuggestionView
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult
from mooring.scheduler.engine import Engine
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.schedule_pod import schedule_pod

_replace = msgspec.structs.replace
Rows = npt.NDArray[np.intp]

#: Suggestions per pod, and the time in seconds after which no more are looked for.
LIMIT: Final = 5
SECONDS: Final = 0.08
#: The time in seconds by which the first suggestion may be late.
_PATIENCE: Final = 0.5
#: Kinds of changes, the least invasive first.
_ORDER: Final = (
    "remove-gate",
    "wait",
    "uncordon",
    "tolerate",
    "volume",
    "reduce-request",
    "relax",
    "label-node",
    "add-node",
    "evict",
)
#: Nodes, labels, taints and node types that are tried for one cause.
_TRIES: Final = 4
_HIGHEST: Final = 2_000_000_000
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True)
class Change:
    """A change of the pod, or of the cluster, that might help."""

    kind: str
    text: str
    #: The pod, changed or not.
    pod: Pod
    #: Nodes that are changed or added.
    nodes: tuple[Node, ...] = ()
    #: Pods that are evicted, or that terminate.
    victims: tuple[Pod, ...] = ()


@dataclass(frozen=True)
class Suggestion:
    """A change that makes the pod schedulable, and the node that would be selected."""

    change: Change
    node: str

    @property
    def view(self) -> SuggestionView:
        """The suggestion for users."""
        return SuggestionView(kind=self.change.kind, text=self.change.text, node=self.node)


def suggest(engine: Engine, pod: Pod, *, limit: int = LIMIT, seconds: float = SECONDS) -> list[Suggestion]:
    """Return changes that make a pending pod schedulable, the smallest first. Empty if the pod is schedulable."""
    search = _search(engine, pod, limit, seconds)
    for _ in search.steps(pod) if search is not None else ():
        pass
    return [] if search is None else search.result()


async def suggest_with_pauses(engine: Engine, pod: Pod) -> list[Suggestion]:
    """Return the same as ``suggest``. Decisions and other work continue between two changes that are tried.

    The search ends early if nodes are added or removed meanwhile.
    """
    search = _search(engine, pod, LIMIT, SECONDS)
    if search is None:
        return []
    table = engine.cache.table
    for _ in search.steps(pod):
        before = table.structure
        await asyncio.sleep(0)
        if engine.lock.held or table.structure != before:
            break
    return search.result()


def _search(engine: Engine, pod: Pod, limit: int, seconds: float) -> _Search | None:
    """Return a search; None while a decision is in progress, because the table must not be changed then."""
    runner = engine.profiles.runners.get(pod.scheduler_name)
    return None if runner is None or engine.lock.held else _Search(runner, limit, perf_counter() + seconds)


def evaluate_pod(runner: PluginRunner, pod: Pod) -> tuple[ScheduleResult | ScheduleFailure, Evaluation]:
    """Find a node for a pod without consequences, and return the answers of all plugins.

    PostFilter does not run. The random source is left as it was, so that further decisions are the same as without it.
    """
    rng = runner.handle.random
    before = rng.getstate()
    evaluation = Evaluation(runs_post_filter=False)
    try:
        return schedule_pod(runner, pod, evaluation), evaluation
    finally:
        rng.setstate(before)


class _Search:
    """The search for suggestions for one pod."""

    def __init__(self, runner: PluginRunner, limit: int, deadline: float) -> None:
        self._runner = runner
        self._table = runner.table
        self._limit = limit
        self._deadline = deadline
        self._found: list[Suggestion] = []
        #: What has to be done before each change: remove scheduling gates.
        self._first = ""
        self._seen: set[str] = set()

    def steps(self, pod: Pod) -> Iterator[None]:
        """Search, and pause after each change that was tried. The table is unchanged in a pause."""
        ungated = _ungated(pod)
        names = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        failure = self._decide(ungated)
        if isinstance(failure, str):
            if names:
                self._add(Change("remove-gate", f"Remove the scheduling gates: {names}", ungated), failure)
            return
        self._first = f"Remove the scheduling gates ({names}). " if names else ""
        rejected: list[tuple[Change, ScheduleFailure]] = []
        for change in list(self._changes(ungated, failure)):
            if self._is_over():
                break
            outcome = self._try(change)
            if isinstance(outcome, str):
                self._add(change, outcome)
            else:
                rejected.append((change, outcome))
            yield
        if not self._is_over():
            # The pods on nodes may have changed in a pause.
            failure = self._decide(ungated)
            if not isinstance(failure, str):
                self._evict(ungated, failure)
            yield
        if not self._found:
            yield from self._combine(rejected)

    def result(self) -> list[Suggestion]:
        """Return the suggestions that were found, the smallest change first."""
        found = sorted(self._found, key=lambda each: max(map(_ORDER.index, each.change.kind.split(","))))
        if not self._first:
            return found
        return [replace(each, change=replace(each.change, text=self._first + each.change.text)) for each in found]

    def _is_over(self) -> bool:
        """Return whether enough was found. The first suggestion may take longer than the others."""
        now = perf_counter()
        late = now > self._deadline if self._found else now > self._deadline + _PATIENCE
        return late or len(self._found) >= self._limit

    def _combine(self, rejected: Iterable[tuple[Change, ScheduleFailure]]) -> Iterator[None]:
        """Try pairs of changes: what the first one leaves as a cause is changed too."""
        for first, left in rejected:
            with self._applied(first):
                seconds = list(self._changes(first.pod, left))
            for second in seconds:
                if self._is_over():
                    return
                text = f"{first.text}, and {second.text[0].lower()}{second.text[1:]}"
                nodes = tuple({node.name: node for node in (*first.nodes, *second.nodes)}.values())
                both = Change(f"{first.kind},{second.kind}", text, second.pod, nodes)
                outcome = self._try(both)
                yield
                if isinstance(outcome, str):
                    self._add(both, outcome)
                    break

    def _add(self, change: Change, node: str) -> None:
        if change.text not in self._seen:
            self._seen.add(change.text)
            self._found.append(Suggestion(change, node))

    # Decisions

    def _try(self, change: Change) -> str | ScheduleFailure:
        with self._applied(change):
            return self._decide(change.pod)

    def _decide(self, pod: Pod) -> str | ScheduleFailure:
        """Return the node that is selected for a pod, or why there is none."""
        outcome, _ = evaluate_pod(self._runner, pod)
        return outcome if isinstance(outcome, ScheduleFailure) else outcome.node_name

    @contextmanager
    def _applied(self, change: Change) -> Iterator[None]:
        table = self._table
        former = {
            node.name: table.nodes[table.row_of[node.name]].node if node.name in table.row_of else None
            for node in change.nodes
        }
        try:
            for node in change.nodes:
                table.add_node(node)
            yield
        finally:
            for name, old in former.items():
                if old is not None:
                    table.add_node(old)
                elif name in table.row_of:
                    table.remove_node(name)

    # Causes

    def _changes(self, pod: Pod, failure: ScheduleFailure) -> Iterator[Change]:
        """Yield changes for the causes of a failure: for the most frequent cause first."""
        statuses = failure.statuses
        if statuses is None:  # there are no nodes
            return
        groups = sorted(statuses.groups(), key=lambda group: -len(group[1]))
        seen: set[str] = set()
        for status, _ in groups:
            make = _CAUSES.get(status.plugin)
            if make is not None:
                # The rows of one plugin are looked at together, whatever its reasons are.
                if status.plugin in seen:
                    continue
                seen.add(status.plugin)
                together = np.concatenate([more for other, more in groups if other.plugin == status.plugin])
                yield from make(self, pod, together)
        yield from self._new_nodes(pod)

    def _less_requested(self, pod: Pod, rows: Rows) -> Iterator[Change]:
        """Reduce the requests to what is free on the node where that takes least."""
        requests = pod_requests(pod)
        table = self._table
        needs = {name: amount for name, amount in requests.items() if amount > 0 and name in table.slots}
        missing = [name for name, amount in requests.items() if amount > 0 and name not in table.slots]
        if missing:
            changed = _with_amounts(pod, dict.fromkeys(missing, 0))
            if changed is not None:
                yield Change(
                    "reduce-request", f"Remove the request for {', '.join(missing)}, which no node offers", changed
                )
            return
        rows = rows[table.pod_count[rows] < table.allowed_pods[rows]]
        if not needs or not len(rows):
            return
        free = {
            name: table.allocatable[slot][rows] - table.requested[slot][rows]
            for name in needs
            for slot in (table.slots[name],)
        }
        cost = sum(np.maximum(needs[name] - free[name], 0) / needs[name] for name in needs)
        lost = sum((np.maximum(free[name], 0) == 0) for name in needs)
        order = np.lexsort((cost, lost))
        for place in order[:_TRIES].tolist():
            amounts = {name: int(free[name][place]) for name in needs if free[name][place] < needs[name]}
            if not amounts or any(amount <= 0 for amount in amounts.values()):
                continue
            changed = _with_amounts(pod, amounts)
            if changed is None:
                return
            told = ", ".join(
                f"{name} from {format_amount(name, needs[name])} to {format_amount(name, amount)}"
                for name, amount in amounts.items()
            )
            yield Change("reduce-request", f"Reduce the request for {told}", changed)

    def _tolerations(self, pod: Pod, rows: Rows) -> Iterator[Change]:
        """Tolerate the taints of a node: the sets of taints that most nodes have first."""
        counts: dict[tuple[Taint, ...], int] = {}
        nodes = self._table.nodes
        for row in rows.tolist():
            taints = tuple(each for each in nodes[row].taints if each.effect in ("NoSchedule", "NoExecute"))
            counts[taints] = counts.get(taints, 0) + 1
        for taints, count in sorted(counts.items(), key=lambda each: (len(each[0]), -each[1]))[:_TRIES]:
            wanted = tuple(each for each in taints if not _tolerates(pod, each))
            if not wanted:
                continue
            added = tuple(
                Toleration(
                    key=each.key, operator="Equal" if each.value else "Exists", value=each.value, effect=each.effect
                )
                for each in wanted
            )
            told = ", ".join(_taint_text(each) for each in wanted)
            which = f"taint {told}" if len(wanted) == 1 else f"taints {told}"
            spec = _replace(pod.spec, tolerations=(*pod.spec.tolerations, *added))
            yield Change("tolerate", f"Tolerate the {which} ({_nodes(count)})", _changed(pod, spec))

    def _uncordon(self, pod: Pod, rows: Rows) -> Iterator[Change]:
        for row in rows[:_TRIES].tolist():
            node = self._table.nodes[row].node
            taints = tuple(each for each in node.spec.taints if each.key != _UNSCHEDULABLE)
            opened = _replace(node, spec=_replace(node.spec, unschedulable=False, taints=taints))
            yield Change("uncordon", f"Uncordon node {node.name}", pod, (opened,))

    def _other_nodes(self, pod: Pod, rows: Rows) -> Iterator[Change]:
        """Relax the node selector or the required node affinity, or label a node."""
        spec, selector = pod.spec, pod.spec.node_selector or {}
        for key, value in list(selector.items())[:_TRIES]:
            rest = {name: other for name, other in selector.items() if name != key}
            changed = _changed(pod, _replace(spec, node_selector=rest))
            yield Change("relax", f"Remove {key}: {value} from the node selector", changed)
        for key, value in list(selector.items())[:_TRIES]:
            near = [row for row in rows.tolist() if self._lacks_only(row, selector, key)]
            for row in near[:1]:
                node = self._table.nodes[row].node
                metadata = _replace(node.metadata, labels={**node.metadata.labels, key: value})
                yield Change(
                    "label-node",
                    f"Label node {node.name} with {key}={value}",
                    pod,
                    (_replace(node, metadata=metadata),),
                )
        affinity = spec.affinity
        node_affinity = affinity.node_affinity if affinity is not None else None
        required = (
            node_affinity.required_during_scheduling_ignored_during_execution if node_affinity is not None else None
        )
        if affinity is None or node_affinity is None or required is None:
            return
        for terms, text in _relaxed_terms(required):
            relaxed = _replace(node_affinity, required_during_scheduling_ignored_during_execution=terms)
            changed = _changed(pod, _replace(spec, affinity=_replace(affinity, node_affinity=relaxed)))
            yield Change("relax", text, changed)
        if selector:
            none = _replace(node_affinity, required_during_scheduling_ignored_during_execution=None)
            changed = _changed(pod, _replace(spec, affinity=_replace(affinity, node_affinity=none), node_selector={}))
            yield Change("relax", "Remove the node selector and the required node affinity", changed)

    def _lacks_only(self, row: int, selector: dict[str, str], key: str) -> bool:
        labels = self._table.nodes[row].labels
        return labels.get(key) != selector[key] and all(
            labels.get(name) == value for name, value in selector.items() if name != key
        )

    def _softer_spread(self, pod: Pod, _rows: Rows) -> Iterator[Change]:
        constraints = pod.spec.topology_spread_constraints
        for number, each in enumerate(constraints):
            if each.when_unsatisfiable == "DoNotSchedule":
                softer = _replace(each, when_unsatisfiable="ScheduleAnyway", min_domains=None)
                changed = (*constraints[:number], softer, *constraints[number + 1 :])
                text = f"Set whenUnsatisfiable: ScheduleAnyway for the spread constraint on {each.topology_key}"
                yield Change("relax", text, _changed(pod, _replace(pod.spec, topology_spread_constraints=changed)))

    def _softer_affinity(self, pod: Pod, _rows: Rows) -> Iterator[Change]:
        affinity = pod.spec.affinity
        if affinity is None:
            return
        for name, title in (("pod_anti_affinity", "pod anti-affinity"), ("pod_affinity", "pod affinity")):
            terms = getattr(affinity, name)
            required = terms.required_during_scheduling_ignored_during_execution if terms is not None else ()
            for number, term in enumerate(required):
                rest = (*required[:number], *required[number + 1 :])
                relaxed = _replace(terms, required_during_scheduling_ignored_during_execution=rest)
                changed: Affinity = _replace(affinity, **{name: relaxed})
                which = "the required term" if len(required) == 1 else f"required term {number + 1}"
                text = f"Remove {which} of the {title} on {term.topology_key}, or make it preferred"
                yield Change("relax", text, _changed(pod, _replace(pod.spec, affinity=changed)))

    def _without_ports(self, pod: Pod, _rows: Rows) -> Iterator[Change]:
        ports = sorted({port.host_port for each in pod.spec.containers for port in each.ports if port.host_port})
        if ports:
            containers = tuple(
                _replace(each, ports=tuple(_replace(port, host_port=0) for port in each.ports))
                for each in pod.spec.containers
            )
            told = ", ".join(map(str, ports))
            spec = _replace(pod.spec, containers=containers, host_network=False)
            yield Change("relax", f"Do not use host port {told}; a Service can expose the port", _changed(pod, spec))

    def _without_volumes(self, pod: Pod, _rows: Rows) -> Iterator[Change]:
        """Without a claim, find out whether the pod is schedulable once the claim can be used."""
        for each in pod.spec.volumes:
            claim = each.persistent_volume_claim
            if claim is None:
                continue
            rest = tuple(other for other in pod.spec.volumes if other is not each)
            text = (
                f"Create or bind PersistentVolumeClaim {claim.claim_name}, or give it a volume that these nodes can use"
            )
            yield Change("volume", text, _changed(pod, _replace(pod.spec, volumes=rest)))

    # Other nodes and victims

    def _new_nodes(self, pod: Pod) -> Iterator[Change]:
        """Add a node like an existing one: one of each type."""
        seen: set[object] = set()
        for info in self._table.nodes:
            node = info.node
            kind = node.metadata.labels.get(INSTANCE_TYPES[0]) or tuple(
                sorted(node.status.allocatable.items(), key=str)
            )
            if kind in seen:
                continue
            seen.add(kind)
            made = node_like(node, f"{node.name}-new")
            told = f"of type {kind}" if isinstance(kind, str) else f"like {node.name}"
            yield Change("add-node", f"Add a node {told}", pod, (made,))
            if len(seen) >= _TRIES:
                return

    def _evict(self, pod: Pod, failure: ScheduleFailure) -> None:
        """Suggest the victims of preemption with the highest priority, or to wait for pods that terminate."""
        if failure.statuses is None:
            return
        urgent = _changed(pod, _replace(pod.spec, priority=_HIGHEST, preemption_policy="PreemptLowerPriority"))
        state = failure.state
        answer = Evaluator(self._runner.handle).preempt(state, urgent, failure.statuses)
        if isinstance(answer, AskExtenders) or not answer[0].nominated_node:
            return
        node, victims = answer[0].nominated_node, answer[0].victims
        pods = tuple(self._table.pods[uid].pod for uid in victims if uid in self._table.pods)
        if not pods:
            gone = tuple(
                info.pod for info in self._table.nodes[self._table.row_of[node]].pods if info.pod.is_terminating
            )
            self._add(Change("wait", f"Wait until pods on node {node} have terminated", pod, victims=gone), node)
            return
        names = ", ".join(each.key for each in pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
        higher = any(each.priority >= pod.priority for each in pods)
        also = ", or give the pod a higher priority" if higher else ""
        self._add(Change("evict", f"Evict {names} from node {node}{also}", pod, victims=pods), node)


#: Plugin -> the changes for its rejections.
_CAUSES: Final[dict[str, Callable[[_Search, Pod, Rows], Iterator[Change]]]] = {
    "NodeResourcesFit": _Search._less_requested,
    "TaintToleration": _Search._tolerations,
    "NodeUnschedulable": _Search._uncordon,
    "NodeAffinity": _Search._other_nodes,
    "PodTopologySpread": _Search._softer_spread,
    "InterPodAffinity": _Search._softer_affinity,
    "NodePorts": _Search._without_ports,
    "VolumeBinding": _Search._without_volumes,
    "VolumeZone": _Search._without_volumes,
    "VolumeRestrictions": _Search._without_volumes,
    "NodeVolumeLimits": _Search._without_volumes,
}


# Changed pods


def _changed(pod: Pod, spec: object) -> Pod:
    """Return the pod with another spec and without its compiled template."""
    return _replace(pod, spec=spec)


def _ungated(pod: Pod) -> Pod:
    """Return the pod without a nomination, which would be evaluated first, and without gates."""
    spec = _replace(pod.spec, scheduling_gates=())
    return _replace(pod, spec=spec, status=_replace(pod.status, nominated_node_name=""))


def _with_amounts(pod: Pod, amounts: dict[str, int]) -> Pod | None:
    """Return the pod with its total requests reduced to amounts, at the container that requests most."""
    containers = list(pod.spec.containers)
    total = pod_requests(pod)
    for name, amount in amounts.items():
        shares = [_requested(each, name) for each in containers]
        most = max(range(len(containers)), key=shares.__getitem__, default=None)
        if most is None or pod.spec.resources is not None:
            return None
        rest = shares[most] - (total[name] - amount)
        if rest < 0:
            return None
        resources = containers[most].resources
        requests = {**resources.requests, name: format_amount(name, rest)}
        if not rest:
            del requests[name]
        limits = {key: value for key, value in resources.limits.items() if key != name or rest}
        containers[most] = _replace(containers[most], resources=_replace(resources, requests=requests, limits=limits))
    return _changed(pod, _replace(pod.spec, containers=tuple(containers)))


def _requested(container: Container, name: str) -> int:
    single = Pod(spec=_replace(Pod().spec, containers=(container,)))
    return pod_requests(single).get(name, 0)


def _relaxed_terms(required: NodeSelector) -> Iterator[tuple[NodeSelector | None, str]]:
    """Yield the required node affinity without one of its expressions, then no affinity at all."""
    terms = required.node_selector_terms
    if len(terms) == 1 and len(terms[0].match_expressions) > 1:
        for number, each in enumerate(terms[0].match_expressions[:_TRIES]):
            rest = (*terms[0].match_expressions[:number], *terms[0].match_expressions[number + 1 :])
            selector = _replace(required, node_selector_terms=(_replace(terms[0], match_expressions=rest),))
            yield selector, f"Remove the expression on {each.key} from the required node affinity"
    yield None, "Remove the required node affinity, or make it preferred"


def _tolerates(pod: Pod, taint: Taint) -> bool:
    return any(tolerates(each, taint) for each in pod.spec.tolerations)


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"
