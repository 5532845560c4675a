"""InterPodAffinity: the plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.counters import TermCounter
from mooring.columns.terms import NO_TERMS, AffinityTerm, PodAffinityTerms
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Hint,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PodTemplate,
    StateKey,
    Status,
    Verdicts,
    Victims,
    WhatIf,
)
from mooring.framework.status import SKIP_THIS_VERSION
from mooring.plugins.domains import DomainVerdicts, FeasibleDomains
from mooring.plugins.inter_pod_affinity.filtering import STATUSES, AffinityState, OwnTerms, affinity_state
from mooring.plugins.inter_pod_affinity.scoring import AffinityScores, affinity_scores

Ints = npt.NDArray[np.int64]

_FILTER: StateKey[AffinityState] = StateKey("InterPodAffinity/filter")

_SCORE: StateKey[AffinityScores] = StateKey("InterPodAffinity/score")


class AffinityArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class InterPodAffinity(Plugin[AffinityArgs]):
    """Filters and scores nodes by the pods in their topology domains."""

    def setup(self) -> None:
        """Create the caches of domains."""
        self._by_domain = DomainVerdicts(STATUSES.__getitem__)
        self._feasible = FeasibleDomains()

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Look up the counts of the pod's required terms, and of the placed pods' terms against it."""
        table = self.handle.table
        template = table.template(pod)
        terms = template.affinity
        if terms.error:
            return Status.unresolvable(f"parsing pod: {terms.error}")
        existing = self.existing_terms(template)
        unwanted = _unwanted(existing)
        if not (unwanted or terms.required or terms.required_anti):
            return Status.skip() if existing else SKIP_THIS_VERSION
        state.write(_FILTER, affinity_state(table, template, self._own(template), unwanted))
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """Add a hypothetical pod."""
        state.read(_FILTER).shift(added.template, node.row, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Remove a pod hypothetically."""
        state.read(_FILTER).shift(removed.template, node.row, -1)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Reject nodes that violate required affinity or anti-affinity."""
        return state.read(_FILTER).filter(nodes, self._by_domain)

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return the filter as a function of the counts in the candidates' own domains."""
        return state.read(_FILTER).what_if(victims)

    # Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Sum the weights of preferred terms by domain."""
        table = self.handle.table
        template = table.template(pod)
        terms = template.affinity
        if self.args.ignore_preferred_terms_of_existing_pods and not (terms.preferred or terms.error):
            return Status.skip(template=True)
        if terms.error:
            return Status.error(f"failed to parse pod: {terms.error}")
        existing = self.existing_terms(template, scoring=True)
        if not (existing or terms.preferred):
            return SKIP_THIS_VERSION
        scores = affinity_scores(table, self._own(template), existing, self.args.hard_pod_affinity_weight)
        if scores is None:
            return Status.skip()
        state.write(_SCORE, scores)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Sum the weights of each node's domains."""
        return state.read(_SCORE).score(nodes, self._feasible)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Scale the scores to 0..100."""
        return state.read(_SCORE).normalize(scores)

    # Terms

    def skip_version(self) -> object:
        """Return the version of the terms of placed pods."""
        return self.handle.table.counters.terms_epoch

    def existing_terms(self, template: PodTemplate, *, scoring: bool = False) -> tuple[TermCounter, ...]:
        """Return the terms of placed pods that match a pod; batch sessions override this."""
        return self.handle.table.counters.terms_matching(template)

    def _own(self, template: PodTemplate) -> OwnTerms:
        return template.kept((self, "own"), lambda: OwnTerms(template, self.handle.table.counters))

    # Events

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for pods that are added, deleted or relabeled, and nodes of the topology."""
        pod_changes = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            ClusterEvent("Pod", pod_changes, self._after_pod_change),
            ClusterEvent("Node", node_changes, self._after_node_change),
        ]

    def _after_pod_change(self, pod: object, old: object, new: object) -> Hint:
        waiting, before = cast(Pod, pod), cast("Pod | None", old)
        theirs = NO_TERMS if before is None else self.handle.template(before).affinity
        meets = matches_any if self.handle.release.any_anti_affinity_term_requeues else matches_all
        own = self._readable_terms(waiting)
        return after_pod_change(waiting, own, before, cast("Pod | None", new), theirs, meets)

    def _after_node_change(self, pod: object, old: object, new: object) -> Hint:
        return after_node_change(self._readable_terms(cast(Pod, pod)), cast("Node | None", old), cast(Node, new))

    def _readable_terms(self, pod: Pod) -> PodAffinityTerms:
        terms = self.handle.template(pod).affinity
        if terms.error:
            raise ValueError(terms.error)  # the queue requeues the pod on an exception
        return terms


def _unwanted(existing: tuple[TermCounter, ...]) -> dict[str, list[TermCounter]]:
    """Return the anti-affinity terms among some terms of placed pods, by topology key."""
    found: dict[str, list[TermCounter]] = {}
    for carried in existing:
        if carried.kind == "required_anti" and carried.counts.total:
            found.setdefault(carried.term.topology_key, []).append(carried)
    return found


Terms = tuple[AffinityTerm, ...]


def matches_all(terms: Terms, pod: Pod) -> bool:
    """Return whether a pod matches all of some terms (and there are any), ignoring namespace labels."""
    return bool(terms) and all(_matches(term, pod) for term in terms)


def matches_any(terms: Terms, pod: Pod) -> bool:
    """Return whether a pod matches any of some terms, ignoring namespace labels."""
    return any(_matches(term, pod) for term in terms)


def _matches(term: AffinityTerm, pod: Pod) -> bool:
    covered = pod.namespace in term.pods.namespaces or term.pods.namespace_selector.matches({})
    return covered and term.pods.selector.matches(pod.labels)


def after_pod_change(
    pod: Pod,
    own: PodAffinityTerms,
    old: Pod | None,
    new: Pod | None,
    theirs: PodAffinityTerms,
    violates: Callable[[Terms, Pod], bool] = matches_any,
) -> Hint:
    """Queue if a pod that satisfies affinity was added, or one that violates anti-affinity was deleted.

    ``theirs`` are the terms of the old pod, and ``violates`` decides whether a pod violates anti-affinity terms: if it
    matches any of them or, before 1.37, all of them.
    """
    if old is not None and new is not None and pod.uid == new.uid:
        return Hint.QUEUE  # its own labels changed, so that other pods' terms may no longer match it
    if any(other is not None and not _is_placed(other) for other in (old, new)):
        return Hint.SKIP
    if old is not None and new is not None:
        joins = not matches_all(own.required, old) and matches_all(own.required, new)
        leaves = violates(own.required_anti, old) and not violates(own.required_anti, new)
        return _queue(joins or leaves)
    if new is not None:
        return _queue(matches_all(own.required, new))
    if old is None:
        return Hint.SKIP
    return _queue(violates(own.required_anti, old) or violates(theirs.required_anti, pod))


def after_node_change(own: PodAffinityTerms, old: Node | None, new: Node) -> Hint:
    """Queue if a node was added or moved to another domain."""
    for term in own.required:
        key = term.topology_key
        if key in new.labels and (old is None or old.labels.get(key) != new.labels[key]):
            return Hint.QUEUE
    if old is None:
        return _queue(bool(own.required_anti))
    moved = (
        term.topology_key in old.labels and old.labels[term.topology_key] != new.labels.get(term.topology_key)
        for term in own.required_anti
    )
    return _queue(any(moved))


def _is_placed(pod: Pod) -> bool:
    return bool(pod.node_name or pod.status.nominated_node_name)


def _queue(worth_it: bool) -> Hint:
    return Hint.QUEUE if worth_it else Hint.SKIP
