"""Which changes of other pods and of nodes can help a pod that required terms kept waiting."""

from __future__ import annotations

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.terms import AffinityTerm, PodAffinityTerms, affinity_terms
from mooring.framework import Hint

Terms = tuple[AffinityTerm, ...]


def means(terms: Terms, pod: Pod) -> bool:
    """Whether a pod matches all of some terms (and there are any), as far as that shows without namespace labels."""
    return bool(terms) and all(
        (pod.namespace in term.pods.namespaces or term.pods.namespace_selector.matches({}))
        and term.pods.selector.matches(pod.labels)
        for term in terms
    )


def after_pod_change(pod: Pod, own: PodAffinityTerms, old: Pod | None, new: Pod | None) -> Hint:
    """A pod came that this one wants near, or went that one of the two did not want near."""
    if old is not None and new is not None and pod.uid == new.uid:
        return Hint.QUEUE  # its own labels changed, so that other pods' terms may no longer mean it
    if any(other is not None and not _is_placed(other) for other in (old, new)):
        return Hint.SKIP
    if old is not None and new is not None:
        joins = not means(own.required, old) and means(own.required, new)
        leaves = means(own.required_anti, old) and not means(own.required_anti, new)
        return _queue(joins or leaves)
    if new is not None:
        return _queue(means(own.required, new))
    if old is None:
        return Hint.SKIP
    return _queue(means(own.required_anti, old) or means(affinity_terms(old).required_anti, pod))


def after_node_change(own: PodAffinityTerms, old: Node | None, new: Node) -> Hint:
    """A node came, or is in another domain than before."""
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
