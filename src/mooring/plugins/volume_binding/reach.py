"""From which nodes a volume can be used: its node affinity, compiled to what decides about labels alone."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from mooring.api.affinity import NodeSelector
from mooring.api.selectors import IN, NodeTerm, compile_node_selector
from mooring.api.storage import VolumeNodeAffinity


class Reach:
    """Terms of which a node's labels must meet one; without terms the volume can be used nowhere."""

    __slots__ = ("key", "keys", "terms", "values")

    def __init__(self, terms: tuple[NodeTerm, ...]) -> None:
        self.terms = terms
        #: All labels that it is about.
        self.keys = frozenset(each.key for term in terms for each in term.expressions)
        #: The usual reach is a list of values of one label: that label and those values, else "" and none.
        self.key = ""
        self.values: frozenset[str] = frozenset()
        if len(terms) == 1 and len(terms[0].expressions) == 1 and terms[0].expressions[0].operator == IN:
            self.key, self.values = terms[0].expressions[0].key, terms[0].expressions[0].values

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is within reach."""
        return any(term.matches(labels, "") for term in self.terms)


def reach_of(affinity: VolumeNodeAffinity | None) -> Reach | None:
    """The reach that an affinity means, None for everywhere; equal affinities give the same object."""
    return None if affinity is None or affinity.required is None else _compile(affinity.required)


@functools.lru_cache(maxsize=65536)
def _compile(selector: NodeSelector) -> Reach | None:
    terms = []
    for term in compile_node_selector(selector).terms:
        if term.errors or term.is_empty:
            continue
        if not term.expressions:  # kube-scheduler shows volumes a node without a name, which any matchFields accept
            return None
        terms.append(NodeTerm(term.expressions))
    return Reach(tuple(terms))
