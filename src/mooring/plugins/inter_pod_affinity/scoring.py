"""Preferred terms: those of the pod, and those of placed pods that match it.

Hot path. The simple per-node form is in ``tests/plugins/reference/inter_pod_affinity.py``.

"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mooring.checkpoints import checkpoint
from mooring.columns.counters import TermCounter
from mooring.columns.counts import Counts
from mooring.columns.interned import LabelColumn
from mooring.framework import Nodes, NodeTable
from mooring.plugins.domains import Domains, FeasibleDomains
from mooring.plugins.inter_pod_affinity.filtering import OwnTerms

Ints = npt.NDArray[np.int64]


class AffinityScores:
    """The weight of each domain of each topology key for a pod."""

    __slots__ = ("_domains", "_scores", "_worth")

    def __init__(self, worth: dict[str, tuple[LabelColumn, Ints]]) -> None:
        #: By key: its column, and the weights by code, with a last entry (0) for nodes without the key.
        self._worth = worth
        #: The last scores that have one domain for each node, and these domains.
        self._scores: Ints | None = None
        self._domains: Domains | None = None

    def score(self, nodes: Nodes, feasible: FeasibleDomains) -> Ints | int:
        """Return the raw scores: the sum of the weights of a node's domains; a number if all nodes have the same."""
        if len(self._worth) == 1:
            ((column, worth),) = self._worth.values()
            domains = self._domains = feasible.of(nodes, column)
            if domains is not None:
                values = [worth.item(code) for code in domains.present]
                if values and min(values) == max(values):
                    return values[0]
                self._scores = worth.take(domains.codes)
                return self._scores
        total: Ints | None = None
        for column, worth in self._worth.values():
            found = worth.take(nodes.codes(column))
            total = found if total is None else np.add(total, found, out=total)
        assert total is not None, "there is a key, or scoring is skipped"
        return total

    def normalize(self, scores: Ints) -> Ints:
        """Normalize scores, by domain if they are the last ones."""
        domains = self._domains
        if scores is not self._scores or domains is None:
            return normalize(scores)
        ((_, worth),) = self._worth.values()
        values = [worth.item(code) for code in domains.present]
        least = min(values)
        span = max(values) - least
        table = np.zeros(len(worth), dtype=np.int64)
        for code, value in zip(domains.present, values, strict=True):
            table[code] = int((value - least) / span * 100.0)
        return table.take(domains.codes)


def affinity_scores(
    table: NodeTable, own: OwnTerms, existing: Iterable[TermCounter], hard_weight: int
) -> AffinityScores | None:
    """Sum the weights of terms by domain; None if no term matches any pod."""
    worth: dict[str, tuple[LabelColumn, Ints]] = {}

    def add(key: str, counts: Counts, weight: int) -> None:
        if not counts.total:
            return
        known = worth.get(key)
        if known is None:
            column = table.label(key)
            known = worth[key] = (column, np.zeros(column.size + 1, dtype=np.int64))
        counts.add_to(known[1], weight)

    for term in own.preferred:
        if not table.has_label_key(term.keys[0]):
            checkpoint()
            continue  # no node is in a domain of the key
        add(term.keys[0], term.counter.by_domain(term.keys[0]), term.weight)
    for carried in existing:
        checkpoint()
        if carried.kind == "preferred":
            add(carried.term.topology_key, carried.counts, carried.term.weight)
        elif carried.kind == "required" and hard_weight > 0:
            add(carried.term.topology_key, carried.counts, hard_weight)
    return AffinityScores(worth) if worth else None


def normalize(scores: Ints) -> Ints:
    """Scale scores to 0..100; all 0 if they are equal."""
    least, most = int(scores.min()), int(scores.max())
    if most == least:
        return np.zeros(len(scores), dtype=np.int64)
    # Divide, multiply, then truncate, as kube-scheduler does: 29 of 100 gives 28.
    share = (scores - least) / (most - least)
    share *= 100.0
    return share.astype(np.int64)
