"""NodeAffinity: the pod's nodeSelector and node affinity, and the profile's ``addedAffinity``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.affinity import NodeAffinity as NodeAffinitySpec
from mooring.api.affinity import NodeSelectorTerm
from mooring.api.label_selectors import IN, SelectorError
from mooring.api.node import Node
from mooring.api.node_selectors import (
    NODE_NAME_FIELD,
    NodeMatcher,
    RequiredNodeAffinity,
    WeightedNodeTerm,
    compile_node_selector,
    compile_preferred_terms,
)
from mooring.api.pod import Pod
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    NodeInfo,
    Nodes,
    Plugin,
    PodTemplate,
    PreFilterResult,
    Status,
    Verdicts,
    Victims,
    WhatIf,
    default_normalize,
    depends_on,
)

Ints = npt.NDArray[np.int64]

_REJECTED = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
_ENFORCED = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
_CONFLICT = Status.unresolvable("pod affinity terms conflict")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Plan(msgspec.Struct, frozen=True):
    """The compiled affinity of a pod template."""

    required: RequiredNodeAffinity
    pre_filter: Status | PreFilterResult | None
    preferred: tuple[WeightedNodeTerm, ...]
    pre_score: Status | None


class NodeAffinityArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Affinity that applies to every pod of the profile."""

    added_affinity: NodeAffinitySpec | None = None


class NodeAffinity(Plugin[NodeAffinityArgs]):
    """Rejects nodes that do not match the required affinity, and scores the others by the preferred terms."""

    template_part = "constraints"

    _plain: Plan | None = None

    def setup(self) -> None:
        """Compile the added affinity."""
        self._added: NodeMatcher | None = None
        self._added_preferred: tuple[WeightedNodeTerm, ...] = ()
        self._prefers = False
        added = self.args.added_affinity
        if added is None:
            return
        if added.required is not None:
            self._added = compile_node_selector(added.required)
            if self._added.error:
                raise ValueError(f"parsing addedAffinity.{_REQUIRED}: {self._added.error}")
        self._prefers = bool(added.preferred)
        try:
            self._added_preferred = compile_preferred_terms(added.preferred)
        except SelectorError as error:
            raise ValueError(f"parsing addedAffinity.{_PREFERRED}: {error}") from None

    # Required

    @depends_on("template")
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | PreFilterResult | None:
        """Skip pods that accept any node; restrict the nodes if the pod requires some by name."""
        return self._plan(self.handle.template(pod)).pre_filter

    def signature(self, template: PodTemplate) -> Hashable:
        """Return the node selector and the node affinity."""
        selector, affinity = template.pod.spec.node_selector, template.pod.spec.affinity
        if selector is None and affinity is None:
            return None
        labels = None if selector is None else tuple(sorted(selector.items()))
        return (labels, affinity and affinity.node_affinity)

    @depends_on("node")
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Filter with one lookup per requirement and node."""
        required = self._plan(self.handle.template(pod)).required
        if self._added is None:
            return None if required.is_empty else Verdicts.reject(~nodes.matches(required), _REJECTED)
        enforced = ~nodes.matches_any(self._added.terms)
        if required.is_empty:
            return Verdicts.reject(enforced, _ENFORCED)
        return Verdicts.first([(enforced, _ENFORCED), (~nodes.matches(required), _REJECTED)])

    @depends_on("node")
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node."""
        if self._added is not None and not self._added.matches(node.labels, node.name):
            return _ENFORCED
        required = self._plan(self.handle.template(pod)).required
        return None if required.matches(node.labels, node.name) else _REJECTED

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model: the result does not depend on other pods."""
        return WhatIf.constant(self.filter_nodes(state, pod, victims.nodes), victims)

    # Preferred

    @depends_on("template")
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip pods without preferences."""
        return self._plan(self.handle.template(pod)).pre_score

    @depends_on("node")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Sum the weights of the matching preferred terms."""
        terms = self._added_preferred + self._plan(self.handle.template(pod)).preferred
        if not terms:
            return 0
        scores = np.zeros(len(nodes), dtype=np.int64)
        for weight, term in terms:
            scores += nodes.matches_term(term) * np.int64(weight)
        return scores

    @depends_on("node")
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score one node."""
        terms = self._added_preferred + self._plan(self.handle.template(pod)).preferred
        return sum(weight for weight, term in terms if term.matches(node.labels, node.name))

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        """Scale the highest score to 100."""
        return default_normalize(scores)

    # Events

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for nodes that are added or whose labels change."""
        return [ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL, self._matches_now)]

    def _matches_now(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        if self._added is not None and not self._added.matches(new.labels, new.name):
            return Hint.SKIP
        required = self.handle.template(pod).node_requirement
        if not required.matches(new.labels, new.name):
            return Hint.QUEUE if _fails_unread(required, new) else Hint.SKIP
        if old is None:
            return Hint.QUEUE
        return Hint.SKIP if required.matches(old.labels, old.name) else Hint.QUEUE

    # Plans

    def _plan(self, template: PodTemplate) -> Plan:
        spec = template.pod.spec
        if spec.affinity is None and spec.node_selector is None:
            if self._plain is None:
                self._plain = self._make_plan(template)
            return self._plain  # most pods accept any node, and share one plan
        return template.kept(self, lambda: self._make_plan(template))

    def _make_plan(self, template: PodTemplate) -> Plan:
        spec = template.pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required if affinity is not None else None
        preferred = affinity.preferred if affinity is not None else ()
        pre_filter: Status | PreFilterResult | None = None
        if required is None and self._added is None and spec.node_selector is None:
            pre_filter = Status.skip(template=True)
        elif required is not None:
            pre_filter = _narrow(required.node_selector_terms)
        pre_score: Status | None = None if preferred or self._prefers else Status.skip(template=True)
        terms: tuple[WeightedNodeTerm, ...] = ()
        try:
            terms = compile_preferred_terms(preferred)
        except SelectorError as error:
            pre_score = Status.error(str(error))
        return Plan(template.node_requirement, pre_filter, terms, pre_score)


def _narrow(terms: Sequence[NodeSelectorTerm]) -> Status | PreFilterResult | None:
    """Return the nodes that the terms select by name; None unless every term does so."""
    names: set[str] = set()
    for term in terms:
        asked = [set(each.values) for each in term.match_fields if each.key == NODE_NAME_FIELD and each.operator == IN]
        if not asked:
            return None
        names |= set.intersection(*asked)
    if not terms:
        return None
    return PreFilterResult.only(names) if names else _CONFLICT


def _fails_unread(required: RequiredNodeAffinity, node: Node) -> bool:
    """Return whether a node is rejected because of invalid terms: that is an error, so the pod is retried."""
    if required.selector is not None and not required.selector.matches(node.labels):
        return False
    return required.affinity is not None and required.affinity.error is not None
