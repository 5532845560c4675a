"""From which nodes a volume can be used: its node affinity, compiled to what decides about labels alone."""

from __future__ import annotations

import functools
from typing import TypeAlias

from mooring.api.affinity import NodeSelector
from mooring.api.selectors import NodeTerm, compile_node_selector
from mooring.api.storage import VolumeNodeAffinity

#: Terms of which a node's labels must meet one; None is everywhere, no terms is nowhere.
Reach: TypeAlias = tuple[NodeTerm, ...] | None


def reach_of(affinity: VolumeNodeAffinity | None) -> Reach:
    """The reach that an affinity means; equal affinities give the same object."""
    return None if affinity is None or affinity.required is None else _compile(affinity.required)


@functools.lru_cache(maxsize=16384)
def _compile(selector: NodeSelector) -> Reach:
    terms = []
    for term in compile_node_selector(selector).terms:
        if term.errors or term.is_empty:
            continue
        if not term.expressions:  # kube-scheduler shows volumes a node without a name, which any matchFields accept
            return None
        terms.append(NodeTerm(term.expressions))
    return tuple(terms)
