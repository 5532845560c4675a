"""Changes of a pod or of nodes that might make a pending pod schedulable, by the plugins that rejected the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.affinity import Affinity, NodeSelector, Taint, Toleration
from mooring.api.node import INSTANCE_TYPES, Node, node_like
from mooring.api.pod import Container, Pod
from mooring.api.resources import format_amount, pod_requests
from mooring.api.tolerations import tolerates
from mooring.columns.distinct import distinct, numbered
from mooring.columns.table import NodeTable

_replace = msgspec.structs.replace
Rows = npt.NDArray[np.intp]

#: Nodes, labels, taints and node types that are tried for one cause.
TRIES: Final = 4
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


@contextmanager
def changed_nodes(table: NodeTable, nodes: Iterable[Node]) -> Iterator[None]:
    """Add nodes to the table, or replace those of the same name, and undo it at the end."""
    given = tuple(nodes)
    former = {
        node.name: table.nodes[table.row_of[node.name]].node if node.name in table.row_of else None for node in given
    }
    try:
        for node in given:
            table.add_node(node)
        yield
    finally:
        for name, old in former.items():
            if old is not None:
                table.add_node(old)
            elif name in table.row_of:
                table.remove_node(name)


class PodChanges:
    """The changes for the causes of a failure. Nothing is applied or verified."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: A node of each type of the cluster, once it was needed.
        self._types: list[tuple[str, Node]] | None = None

    @property
    def types(self) -> list[tuple[str, Node]]:
        """A node of each type of the cluster, with a description of the type."""
        if self._types is None:
            self._types = list(_node_types(self._table))
        return self._types

    def for_causes(self, pod: Pod, causes: Iterable[tuple[str, Rows]]) -> Iterator[Change]:
        """Yield changes for the plugins that rejected rows: for the most frequent cause first."""
        groups = sorted(causes, key=lambda group: -len(group[1]))
        seen: set[str] = set()
        for plugin, _ in groups:
            make = _CAUSES.get(plugin)
            if make is None or plugin in seen:
                continue
            # The rows of one plugin are looked at together, whatever its reasons are.
            seen.add(plugin)
            yield from make(self, pod, np.concatenate([rows for name, rows in groups if name == plugin]))

    def _less_requested(self, pod: Pod, rows: Rows) -> Iterator[Change]:
        """Reduce the requests to what is free on the node where that takes least."""
        requests = pod_requests(pod)
        table = self._table
        needs = {name: amount for name, amount in requests.items() if amount > 0 and name in table.slots}
        missing = [name for name, amount in requests.items() if amount > 0 and name not in table.slots]
        if missing:
            changed = with_amounts(pod, dict.fromkeys(missing, 0))
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
        for place in order[:TRIES].tolist():
            amounts = {name: int(free[name][place]) for name in needs if free[name][place] < needs[name]}
            if not amounts or any(amount <= 0 for amount in amounts.values()):
                continue
            changed = with_amounts(pod, amounts)
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
        column = self._table.taints
        codes = column.codes[rows]
        for code in distinct(codes):
            number = int(np.count_nonzero(codes == code))
            found = (column.values[code] if code >= 0 else None) or ()
            taints = tuple(each for each in found if each.effect in ("NoSchedule", "NoExecute"))
            counts[taints] = counts.get(taints, 0) + number
        for taints, count in sorted(counts.items(), key=lambda each: (len(each[0]), -each[1]))[:TRIES]:
            comparisons = self._table.release.enabled("TaintTolerationComparisonOperators")
            wanted = tuple(each for each in taints if not _tolerates(pod, each, comparisons))
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
            yield Change("tolerate", f"Tolerate the {which} ({_nodes(count)})", with_spec(pod, spec))

    def _uncordon(self, pod: Pod, rows: Rows) -> Iterator[Change]:
        for row in rows[:TRIES].tolist():
            node = self._table.nodes[row].node
            yield Change("uncordon", f"Uncordon node {node.name}", pod, (uncordoned(node),))

    def _other_nodes(self, pod: Pod, rows: Rows) -> Iterator[Change]:
        """Relax the node selector or the required node affinity, or label a node."""
        spec, selector = pod.spec, pod.spec.node_selector or {}
        for key, value in list(selector.items())[:TRIES]:
            rest = {name: other for name, other in selector.items() if name != key}
            changed = with_spec(pod, _replace(spec, node_selector=rest))
            yield Change("relax", f"Remove {key}: {value} from the node selector", changed)
        for key, value in list(selector.items())[:TRIES]:
            near = self._lacking_only(rows, selector, key)
            if len(near):
                node = self._table.nodes[int(near[0])].node
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
            changed = with_spec(pod, _replace(spec, affinity=_replace(affinity, node_affinity=relaxed)))
            yield Change("relax", text, changed)
        if selector:
            none = _replace(node_affinity, required_during_scheduling_ignored_during_execution=None)
            changed = with_spec(pod, _replace(spec, affinity=_replace(affinity, node_affinity=none), node_selector={}))
            yield Change("relax", "Remove the node selector and the required node affinity", changed)

    def _lacking_only(self, rows: Rows, selector: dict[str, str], key: str) -> Rows:
        """Return the rows that match a node selector except for one key."""
        for name, value in selector.items():
            column = self._table.label(name)
            code = column.code_of.get(value)
            if code is None:
                if name != key:
                    return rows[:0]
                continue
            has = column.codes[rows] == code
            rows = rows[~has if name == key else has]
        return rows

    def _softer_spread(self, pod: Pod, _rows: Rows) -> Iterator[Change]:
        constraints = pod.spec.topology_spread_constraints
        for number, each in enumerate(constraints):
            if each.when_unsatisfiable == "DoNotSchedule":
                softer = _replace(each, when_unsatisfiable="ScheduleAnyway", min_domains=None)
                changed = (*constraints[:number], softer, *constraints[number + 1 :])
                text = f"Set whenUnsatisfiable: ScheduleAnyway for the spread constraint on {each.topology_key}"
                yield Change("relax", text, with_spec(pod, _replace(pod.spec, topology_spread_constraints=changed)))

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
                yield Change("relax", text, with_spec(pod, _replace(pod.spec, affinity=changed)))

    def _without_ports(self, pod: Pod, _rows: Rows) -> Iterator[Change]:
        ports = sorted({port.host_port for each in pod.spec.containers for port in each.ports if port.host_port})
        if ports:
            containers = tuple(
                _replace(each, ports=tuple(_replace(port, host_port=0) for port in each.ports))
                for each in pod.spec.containers
            )
            told = ", ".join(map(str, ports))
            spec = _replace(pod.spec, containers=containers, host_network=False)
            yield Change("relax", f"Do not use host port {told}; a Service can expose the port", with_spec(pod, spec))

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
            yield Change("volume", text, with_spec(pod, _replace(pod.spec, volumes=rest)))

    def new_nodes(self, pod: Pod) -> Iterator[Change]:
        """Add a node like an existing one: one of each type."""
        for told, node in self.types:
            yield Change("add-node", f"Add a node {told}", pod, (node_like(node, f"{node.name}-new"),))


def uncordoned(node: Node) -> Node:
    """Return a node that is not cordoned."""
    taints = tuple(each for each in node.spec.taints if each.key != _UNSCHEDULABLE)
    return _replace(node, spec=_replace(node.spec, unschedulable=False, taints=taints))


def _node_types(table: NodeTable) -> Iterator[tuple[str, Node]]:
    """Yield a node of each type of the cluster, with a description of the type: of type m.large, or like node-1.

    Nodes without a label for their type are of one type if they offer the same amounts.
    """
    count = len(table)
    kinds = table.label(INSTANCE_TYPES[0]).codes[:count].astype(np.intp)
    without = np.flatnonzero(kinds < 0)
    if len(without):
        amounts = np.zeros(len(without), dtype=np.intp)
        for column in (*table.allocatable, table.allowed_pods):
            first, numbers = numbered(column[without])
            _, amounts = numbered(amounts * len(first) + numbers)
        kinds[without] = count + amounts
    first, _ = numbered(kinds)
    for row in np.sort(first)[:TRIES].tolist():
        node = table.nodes[row].node
        kind = node.metadata.labels.get(INSTANCE_TYPES[0])
        yield f"of type {kind}" if kind else f"like {node.name}", node


#: Plugin -> the changes for its rejections.
_CAUSES: Final[dict[str, Callable[[PodChanges, Pod, Rows], Iterator[Change]]]] = {
    "NodeResourcesFit": PodChanges._less_requested,
    "TaintToleration": PodChanges._tolerations,
    "NodeUnschedulable": PodChanges._uncordon,
    "NodeAffinity": PodChanges._other_nodes,
    "PodTopologySpread": PodChanges._softer_spread,
    "InterPodAffinity": PodChanges._softer_affinity,
    "NodePorts": PodChanges._without_ports,
    "VolumeBinding": PodChanges._without_volumes,
    "VolumeZone": PodChanges._without_volumes,
    "VolumeRestrictions": PodChanges._without_volumes,
    "NodeVolumeLimits": PodChanges._without_volumes,
}


# Changed pods


def with_spec(pod: Pod, spec: object) -> Pod:
    """Return the pod with another spec and without its compiled template."""
    return _replace(pod, spec=spec)


def with_amounts(pod: Pod, amounts: dict[str, int]) -> Pod | None:
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
    return with_spec(pod, _replace(pod.spec, containers=tuple(containers)))


def _requested(container: Container, name: str) -> int:
    single = Pod(spec=_replace(Pod().spec, containers=(container,)))
    return pod_requests(single).get(name, 0)


def _relaxed_terms(required: NodeSelector) -> Iterator[tuple[NodeSelector | None, str]]:
    """Yield the required node affinity without one of its expressions, then no affinity at all."""
    terms = required.node_selector_terms
    if len(terms) == 1 and len(terms[0].match_expressions) > 1:
        for number, each in enumerate(terms[0].match_expressions[:TRIES]):
            rest = (*terms[0].match_expressions[:number], *terms[0].match_expressions[number + 1 :])
            selector = _replace(required, node_selector_terms=(_replace(terms[0], match_expressions=rest),))
            yield selector, f"Remove the expression on {each.key} from the required node affinity"
    yield None, "Remove the required node affinity, or make it preferred"


def _tolerates(pod: Pod, taint: Taint, comparisons: bool) -> bool:
    return any(tolerates(each, taint, comparisons=comparisons) for each in pod.spec.tolerations)


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"
