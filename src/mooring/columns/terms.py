"""Compiled affinity terms, and an index that finds the terms that match a pod.

A cluster has many terms, but a pod's labels match few of them. ``SelectorIndex`` stores each selector under one label
pair that every match must have, so that finding the terms for a pod takes a few dictionary lookups instead of a scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

from mooring.api.affinity import PodAffinityTerm
from mooring.api.label_selectors import NOTHING, Selector, SelectorError, compile_selector
from mooring.api.pod import Pod
from mooring.checkpoints import checkpoint

T = TypeVar("T")
Labels = Mapping[str, str]


class PodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """The pods of some namespaces that match a selector, as in pod (anti-)affinity and spread constraints."""

    namespaces: frozenset[str]
    selector: Selector
    #: Further namespaces, by their labels.
    namespace_selector: Selector = NOTHING
    #: Whether the selector of an incoming pod's term matches only the labels of existing namespaces.
    exact_namespaces: bool = False

    def covers_namespace(self, namespace: str, namespaces: Mapping[str, Labels], *, must_exist: bool) -> bool:
        """Return whether the term applies to pods of a namespace.

        For the terms of an incoming pod (``must_exist``), kube-scheduler resolves the namespace selector to the
        existing namespaces, unless it is empty and so selects all. For the terms of an existing pod, it matches the
        selector against the labels of the incoming pod's namespace; an unknown namespace has none. Without
        ``exact_namespaces``, as before 1.37, it also keeps the selector of an incoming pod's terms after resolving it
        and matches it against an empty set of labels, so that a selector that allows missing labels matches every
        namespace.
        """
        if namespace in self.namespaces:
            return True
        selector = self.namespace_selector
        if selector.matches_nothing:
            return False
        labels = namespaces.get(namespace)
        if labels is not None and selector.matches(labels):
            return True
        if must_exist and self.exact_namespaces:
            return selector.is_empty  # it is not resolved
        may_match_none = must_exist or labels is None
        return may_match_none and selector.matches({})


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """One compiled term of pod affinity or anti-affinity."""

    pods: PodTerm
    topology_key: str
    #: 0 for a required term; a preferred one's weight, negative for anti-affinity.
    weight: int = 0


class PodAffinityTerms(msgspec.Struct, frozen=True):
    """All terms of a pod's affinity and anti-affinity."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    #: Why the terms are invalid ("" if they are valid); the invalid kind is then empty.
    error: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the pod has no terms."""
        return not (self.required or self.required_anti or self.preferred or self.error)


NO_TERMS = PodAffinityTerms()


def affinity_terms(pod: Pod, *, exact_namespaces: bool = False) -> PodAffinityTerms:
    """Compile a pod's affinity and anti-affinity; see `PodTerm` for ``exact_namespaces``."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    errors: list[str] = []

    def compile_all(kind: str, terms: list[tuple[PodAffinityTerm, int]]) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compile(pod.namespace, term, weight, exact=exact_namespaces) for term, weight in terms)
        except SelectorError as error:
            errors.append(f"{kind}: {error}")
            return ()

    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    required = compile_all("requiredAffinityTerms", [(t, 0) for t in near.required] if near else [])
    required_anti = compile_all("requiredAntiAffinityTerms", [(t, 0) for t in far.required] if far else [])
    liked = compile_all(
        "preferredAffinityTerms", [(t.pod_affinity_term, t.weight) for t in near.preferred] if near else []
    )
    disliked = compile_all(
        "preferredAntiAffinityTerms", [(t.pod_affinity_term, -t.weight) for t in far.preferred] if far else []
    )
    error = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
    return PodAffinityTerms(required, required_anti, liked + disliked, error)


def _compile(namespace: str, term: PodAffinityTerm, weight: int, *, exact: bool) -> AffinityTerm:
    checkpoint()
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    pods = PodTerm(names, compile_selector(term.label_selector), compile_selector(term.namespace_selector), exact)
    return AffinityTerm(pods, term.topology_key, weight)


class SelectorIndex(Generic[T]):
    """Items stored by a selector; ``candidates`` returns those whose selector may match some labels."""

    __slots__ = ("_by_label", "_general")

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[int, T]] = {}
        self._general: dict[int, T] = {}

    def add(self, selector: Selector, item: T) -> None:
        """Add an item."""
        for bucket in self._buckets(selector):
            bucket[id(item)] = item

    def remove(self, selector: Selector, item: T) -> None:
        """Remove an item."""
        for bucket in self._buckets(selector):
            bucket.pop(id(item), None)
        for pair in label_pairs(selector):
            if not self._by_label.get(pair):
                self._by_label.pop(pair, None)

    def _buckets(self, selector: Selector) -> list[dict[int, T]]:
        if selector.matches_nothing:
            return []
        pairs = label_pairs(selector)
        if not pairs:
            return [self._general]
        return [self._by_label.setdefault(pair, {}) for pair in pairs]

    def candidates(self, labels: Labels) -> list[T]:
        """Return the items that may match, each once."""
        found: dict[int, T] = dict(self._general)
        by_label = self._by_label
        for pair in labels.items():
            bucket = by_label.get(pair)
            if bucket:
                found.update(bucket)
        return list(found.values())


def label_pairs(selector: Selector) -> list[tuple[str, str]]:
    """Return label pairs of which every match has exactly one; empty if the selector has no In requirement."""
    if selector.equalities:
        return [selector.equalities[0]]
    best: list[tuple[str, str]] = []
    for requirement in selector.requirements:
        if requirement.operator == "In" and (not best or len(requirement.values) < len(best)):
            best = [(requirement.key, value) for value in sorted(requirement.values)]
    return best
