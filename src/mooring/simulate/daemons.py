"""DaemonSets: which nodes get a pod, and how a pod is tied to its node, as the DaemonSet controller does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from mooring.api.node import Node
from mooring.api.pod import Pod, PodTemplateSpec
from mooring.api.selectors import NODE_NAME_FIELD, required_node_affinity
from mooring.api.tolerations import untolerated

_replace = msgspec.structs.replace

_ALWAYS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


def daemon_template(template: PodTemplateSpec) -> PodTemplateSpec:
    """The template with the tolerations that all daemons get: they stay where others must leave."""
    spec = template.spec
    tolerations = spec.tolerations
    for key, effect in (*_ALWAYS, *(_HOST_NETWORK if spec.host_network else ())):
        toleration = Toleration(key=key, operator="Exists", effect=effect)
        others = tuple(each for each in tolerations if not _same(each, toleration))
        tolerations = tolerations if toleration in tolerations else (*others, toleration)
    return _replace(template, spec=_replace(spec, tolerations=tolerations))


def _same(one: Toleration, other: Toleration) -> bool:
    """Whether two tolerations are of the same taint, if perhaps for different times."""
    return _replace(one, toleration_seconds=None) == _replace(other, toleration_seconds=None)


def fitting_nodes(nodes: Iterable[Node], template: PodTemplateSpec) -> Iterator[Node]:
    """The nodes that get a pod: those that its selectors and tolerations allow, full or not."""
    required = required_node_affinity(Pod(spec=template.spec))
    wanted = template.spec.node_name
    for node in nodes:
        if (
            wanted in ("", node.name)
            and required.matches(node.labels, node.name)
            and untolerated(node.taints, template.spec.tolerations, ("NoSchedule", "NoExecute")) is None
        ):
            yield node


def tied_to(pod: Pod, node: str) -> Pod:
    """The pod with the one node affinity that a daemon's pod has: its node's name."""
    field = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node,))
    only = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = pod.spec.affinity or Affinity()
    near = _replace(affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=only)
    return _replace(pod, spec=_replace(pod.spec, affinity=_replace(affinity, node_affinity=near)))


def target_node(pod: Pod) -> str:
    """The node that a daemon's pod is on or meant for; empty if that cannot be told."""
    if pod.node_name:
        return pod.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return ""
    for term in affinity.required.node_selector_terms:
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""
