"""A pod's own terms, each with the counter of the placed pods that it means."""

from __future__ import annotations

from mooring.columns.counters import CounterRegistry, PodCounter
from mooring.columns.terms import AffinityTerm, PodTerm
from mooring.framework import PodTemplate


class Counted:
    """Pods that match all of some terms, and the topology keys of the terms."""

    __slots__ = ("_counter", "_registry", "_terms", "keys", "weight")

    def __init__(self, terms: tuple[AffinityTerm, ...], registry: CounterRegistry) -> None:
        self._terms: tuple[PodTerm, ...] = tuple(term.pods for term in terms)
        self._registry = registry
        self._counter: PodCounter | None = None
        #: Each topology key once.
        self.keys = tuple(dict.fromkeys(term.topology_key for term in terms))
        self.weight = terms[0].weight

    @property
    def counter(self) -> PodCounter:
        """The counter, made when first asked for."""
        if self._counter is None:
            self._counter = self._registry.counter(self._terms)
        else:
            self._counter = self._registry.renew(self._counter)
        return self._counter


class OwnTerms:
    """The terms of a template: required ones count pods that match them all, the others each on its own."""

    __slots__ = ("anti", "preferred", "required")

    def __init__(self, template: PodTemplate, registry: CounterRegistry) -> None:
        terms = template.affinity
        self.required = Counted(terms.required, registry) if terms.required else None
        self.anti = tuple(Counted((term,), registry) for term in terms.required_anti)
        self.preferred = tuple(Counted((term,), registry) for term in terms.preferred)
