"""The Cluster view: all nodes in columns for a canvas, their changes, and the details of one node.

Everything is computed in the scheduler's loop from the node table, in columns; 5,000 nodes take a few milliseconds.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.resources import format_amount, pod_requests
from mooring.columns.nodes import Nodes
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place
from mooring.scheduler.schedule_pod import evaluate_pod
from mooring.unexpected_errors import shortened

#: The labels by which nodes are grouped unless another one is chosen: the first that some node has.
_GROUP_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/rack",
    "rack",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
)
#: Chosen as the label: no groups. Also the group of nodes without the label. No label has this key.
NO_GROUP: Final = "(none)"
#: The maximum number of groups and of labels to choose from, and of pods, labels and rejections of one node.
MAX_GROUPS: Final = 200
_MAX_LABELS: Final = 100
_MAX_PODS: Final = 500
_MAX_REJECTIONS: Final = 20
#: The time in seconds in which rejections of one node are looked for.
_REJECTION_SECONDS: Final = 0.05
#: Flags of a node.
_CORDONED, _TAINTED, _NOT_READY = 1, 2, 4
#: The length to which texts of users are shortened.
_MAX_TEXT: Final = 300

Ints = npt.NDArray[np.int64]


class ClusterView:
    """The nodes of a cluster, and what changed since the last update."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._table = engine.cache.table
        self._cursor = self._table.cursor()
        self._labels_version = -1
        self._known_labels: dict[str, int] = {}

    # All nodes

    def columns(self, group: str, resource: str) -> dict[str, Any]:
        """Return all nodes with their groups and their use of a resource. Raises HttpError."""
        table = self._table
        labels = self._labels()
        group = group or next((key for key in _GROUP_LABELS if key in labels), "")
        group = "" if group == NO_GROUP else group
        codes, groups = self._groups(group, labels)
        resource = self._known(resource)
        totals = self._totals()
        return {
            "structure": table.structure,
            "names": [info.name for info in table.nodes],
            "group": group,
            "groups": groups,
            "codes": codes,
            "labels": labels,
            "resource": resource,
            "resources": list(totals),
            "totals": totals,
            **self._values(None, resource),
        }

    def changes(self) -> dict[str, Any]:
        """Return the rows that changed since the last call; ``rows`` is None if all did."""
        table = self._table
        rows = self._cursor.changed(max(len(table), 1))
        self._cursor.advance()
        return {"structure": table.structure, "rows": rows}

    def values(self, changes: dict[str, Any], resource: str) -> dict[str, Any]:
        """Return the changed rows with their values."""
        rows = changes["rows"]
        if changes["structure"] != self._table.structure:
            return {"structure": -1}  # the client loads everything again
        picked = None if rows is None else np.array(rows, dtype=np.intp)
        totals = self._totals()
        return {**changes, "resource": resource, "totals": totals, **self._values(picked, resource)}

    def _labels(self) -> dict[str, int]:
        """Return the labels by which nodes can be grouped, with the number of their values."""
        table = self._table
        if self._labels_version != table.nodes_version:
            self._labels_version = table.nodes_version
            values: dict[str, set[str]] = {}
            for info in table.nodes:
                for key, value in info.labels.items():
                    values.setdefault(key, set()).add(value)
            keys = [key for key, found in values.items() if len(found) <= MAX_GROUPS]
            known = [key for key in _GROUP_LABELS if key in keys]
            rest = sorted(key for key in keys if key not in known)
            self._known_labels = {key: len(values[key]) for key in (*known, *rest)[:_MAX_LABELS]}
        return self._known_labels

    def _groups(self, key: str, labels: dict[str, int]) -> tuple[list[int], list[str]]:
        """Return the number of each node's group, and the names of the groups in order."""
        table = self._table
        if not key or not len(table):
            return [0] * len(table), [""] if len(table) else []
        if key not in labels:
            raise HttpError(400, f"group: {shortened(key, 100)!r} is not a label with at most {MAX_GROUPS} values")
        column = table.label(key)
        order = sorted(column.code_of)
        place = np.full(column.size + 1, len(order), dtype=np.int64)  # the last entry is for ABSENT
        for number, value in enumerate(order):
            place[column.code_of[value]] = number
        codes = place[Nodes(table).codes(column)]
        absent = bool((codes == len(order)).any())
        return codes.tolist(), [*order, *([NO_GROUP] if absent else [])]

    def _known(self, resource: str) -> str:
        resource = resource or "cpu"
        if resource != "pods" and (resource not in self._table.slots or not resource):
            raise HttpError(400, f"resource: no node offers {shortened(resource, 100)!r}")
        return resource

    def _totals(self) -> dict[str, Any]:
        """Return the requested and the allocatable amounts of the whole cluster, of resources that nodes offer."""
        nodes = Nodes(self._table)
        found = {}
        for name in ("cpu", "memory", "pods", *(each for each in self._table.slots if each not in ("cpu", "memory"))):
            allocatable = int(nodes.allocatable(name).sum()) if name else 0
            if allocatable:
                requested = int(nodes.requested(name).sum())
                texts = [format_amount(name, requested), format_amount(name, allocatable)]
                found[name] = {"share": round(requested / allocatable, 4), "texts": texts}
        return found

    def _values(self, rows: npt.NDArray[np.intp] | None, resource: str) -> dict[str, Any]:
        nodes = Nodes(self._table, rows)
        allocatable, requested = nodes.allocatable(resource), nodes.requested(resource)
        use = np.where(allocatable > 0, requested * 1000 // np.maximum(allocatable, 1), -1)
        flags = nodes.unschedulable.astype(np.int64) * _CORDONED
        flags |= (nodes.taint_codes >= 0).astype(np.int64) * _TAINTED
        return {"use": use.tolist(), "pods": nodes.pod_count.tolist(), "flags": flags.tolist()}

    # One node

    def node(self, name: str) -> dict[str, Any]:
        """Return a node: resources, pods, taints, labels, and why it is not feasible for pending pods."""
        table = self._table
        row = table.row_of.get(name)
        if row is None:
            raise HttpError(404, f"there is no node {shortened(name, 100)!r}")
        info = table.nodes[row]
        node = info.node
        pods = sorted((each.pod for each in info.pods), key=lambda pod: (-pod.priority, pod.key))
        ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "")
        return {
            "name": name,
            "ready": ready,
            "unschedulable": node.unschedulable,
            "created": node.metadata.creation_timestamp or "",
            "labels": {key: shortened(value, _MAX_TEXT) for key, value in list(node.labels.items())[:_MAX_LABELS]},
            "taints": [
                {"key": each.key, "value": shortened(each.value, _MAX_TEXT), "effect": each.effect}
                for each in node.taints[:_MAX_LABELS]
            ],
            "resources": self._resources(row),
            "podCount": len(pods),
            "pods": [_pod_row(pod, assumed=pod.uid in table.assumed) for pod in pods[:_MAX_PODS]],
            "rejections": self._rejections(row),
        }

    def _resources(self, row: int) -> list[dict[str, Any]]:
        info = self._table.nodes[row]
        found = []
        for name in ("cpu", "memory", "pods", *(each for each in self._table.slots if each not in ("cpu", "memory"))):
            allocatable = info.allocatable(name) if name else 0
            if name and (allocatable or (name != "pods" and info.requested(name))):
                requested = info.pod_count if name == "pods" else info.requested(name)
                share = requested / allocatable if allocatable else 0.0
                texts = [format_amount(name, requested), format_amount(name, allocatable)]
                found.append({"name": name, "share": round(share, 4), "texts": texts})
        return found

    def _rejections(self, row: int) -> list[dict[str, Any]]:
        """Return why the node is not feasible for pending pods: one pod of each template, within a time limit."""
        engine = self._engine
        if engine.lock.held:
            return []
        deadline = perf_counter() + _REJECTION_SECONDS
        examples: dict[object, Pod] = {}
        counts: Counter[object] = Counter()
        for place, queued in engine.queue.waiting():
            if place in (Place.UNSCHEDULABLE, Place.BACKOFF):
                template = self._table.template(queued.pod)
                counts[id(template)] += 1
                examples.setdefault(id(template), queued.pod)
            if perf_counter() > deadline:
                break
        found = []
        for key, pod in list(examples.items())[:_MAX_REJECTIONS]:
            runner = engine.profiles.runners.get(pod.scheduler_name)
            if runner is None or perf_counter() > deadline:
                continue
            _, evaluation = evaluate_pod(runner, pod)
            if evaluation.statuses is None or row in evaluation.feasible:
                continue
            status = evaluation.statuses.of_row(row)
            reasons = [shortened(reason, _MAX_TEXT) for reason in status.reasons]
            found.append({"pod": pod.key, "pods": counts[key], "plugin": status.plugin, "reasons": reasons})
        return found


def _pod_row(pod: Pod, *, assumed: bool) -> dict[str, Any]:
    requests = {name: format_amount(name, amount) for name, amount in pod_requests(pod).items() if amount}
    state = "terminating" if pod.is_terminating else "binding" if assumed else pod.status.phase or "Pending"
    return {"pod": pod.key, "priority": pod.priority, "state": state, "requests": requests, "owner": owner_of(pod)}


def owner_of(item: KubeObject) -> str:
    """Return the kind and name of the controller of an object; empty without one."""
    for each in item.metadata.owner_references:
        if each.controller:
            return f"{each.kind}/{each.name}"
    return ""
