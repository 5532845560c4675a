"""Soft constraints: the fewer matching pods in a node's domains, the higher the score.

Hot path. Floating point operations are kube-scheduler's, in its order. The simple per-node form is in
``tests/plugins/reference/pod_topology_spread.py``.

"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.checkpoints import checkpoint
from mooring.columns.interned import LabelColumn, Mask
from mooring.framework import Nodes
from mooring.plugins.pod_topology_spread.constraints import HOSTNAME, Plan, Target

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: This many nodes usually cover all domains.
_SAMPLE: Final = 256


class SpreadScores:
    """The scores of the feasible nodes under a pod's soft constraints."""

    __slots__ = ("_codes", "_plan", "_require_all", "_targets", "_weights", "ignored")

    def __init__(self, plan: Plan, nodes: Nodes, *, require_all: bool) -> None:
        self._plan = plan
        #: Whether a node must have the keys of all constraints; the system default constraints do not require it.
        self._require_all = require_all
        plan.keyed.refresh()
        #: The nodes that are ignored because they lack a key; None if there are none.
        self.ignored: Mask | None = None
        if require_all and not plan.keyed.everything:
            ignored = ~nodes.take(plan.keyed.mask)
            self.ignored = ignored if ignored.any() else None
        #: The constraints that count: none if all nodes are ignored, however many there are.
        self._targets = plan.targets if self.ignored is None or not self.ignored.all() else ()
        self._codes = {key: nodes.codes(key) for key in plan.keys if key != HOSTNAME} if self._targets else {}
        self._weights = tuple(math.log(self._size(target, nodes) + 2) for target in self._targets)

    def _size(self, target: Target, nodes: Nodes) -> int:
        """Return the number of domains of a constraint that have feasible nodes."""
        checkpoint()
        key = target.constraint.topology_key
        if key == HOSTNAME:
            return len(nodes) - (0 if self.ignored is None else int(np.count_nonzero(self.ignored)))
        column, codes = nodes.label(key), self._codes[key]
        if self._plan.keyed.everything:
            if np.count_nonzero(np.bincount(codes[:_SAMPLE])) == column.distinct:
                return column.distinct  # all domains are found
            return int(np.count_nonzero(np.bincount(codes)))
        if self.ignored is not None:
            codes = codes[~self.ignored]
        seen = np.bincount(codes + 1, minlength=column.size + 1)
        size = int(np.count_nonzero(seen[1:]))
        empty = column.code_of.get("")
        # Nodes without the key form a domain of their own, that of the empty value.
        return size + (1 if seen[0] and (empty is None or not seen[empty + 1]) else 0)

    def score(self, nodes: Nodes) -> Ints:
        """Return the raw scores: weighted counts of matching pods."""
        total: Floats | None = None
        for target, weight in zip(self._targets, self._weights, strict=True):
            checkpoint()
            if target.constraint.topology_key == HOSTNAME:
                found = self._by_node(target, weight, nodes)
            else:
                found = self._by_domain(target, weight, nodes)
            total = found if total is None else np.add(total, found, out=total)
        if total is None:
            return np.zeros(len(nodes), dtype=np.int64)
        # Round half away from zero: scores are integers or greater than 1, where this is exact.
        total += 0.5
        raw = np.floor(total, out=total).astype(np.int64)
        if self.ignored is not None:
            raw[self.ignored] = 0
        return raw

    def _by_node(self, target: Target, weight: float, nodes: Nodes) -> Floats:
        counter, bonus = target.counter, float(target.constraint.max_skew - 1)
        if counter is None:
            found: Floats = np.full(len(nodes), bonus)
        else:
            found = np.multiply(nodes.take(counter.rows.array(len(nodes.table))), weight, dtype=np.float64)
            found += bonus
        if not self._plan.keyed.everything:
            found[~nodes.has_label(HOSTNAME)] = 0.0
        return found

    def _by_domain(self, target: Target, weight: float, nodes: Nodes) -> Floats:
        column = nodes.label(target.constraint.topology_key)
        table: Floats = np.zeros(column.size + 1)
        by_domain = table[:-1]
        if target.counter is not None:
            np.multiply(self._domain_counts(target, column, nodes), weight, out=by_domain)
        by_domain += float(target.constraint.max_skew - 1)
        return table.take(self._codes[target.constraint.topology_key])

    def _domain_counts(self, target: Target, column: LabelColumn, nodes: Nodes) -> Ints:
        counter, region = target.counter, target.region.refresh()
        assert counter is not None, "asked only about constraints that count"
        counts = counter.by_domain(target.constraint.topology_key, region)
        found = counts.array(column.size)
        empty = column.code_of.get("")
        if empty is not None and not self._require_all:
            # The domain of the empty value includes the nodes without the key.
            rows = counter.rows.array(len(nodes.table))
            found = found.copy()
            found[empty] += int(rows.sum(where=region.mask)) - counts.total
        return found


def normalize(scores: Ints, ignored: Mask | None) -> Ints:
    """Convert counts to scores from 0 to 100: the fewer pods, the higher the score; 0 for ignored nodes."""
    judged: Mask | bool = True if ignored is None else ~ignored
    most = int(scores.max(where=judged, initial=0))
    if most == 0:
        result = np.full(len(scores), 100, dtype=np.int64)
    else:
        least = int(scores.min(where=judged, initial=most))
        result = 100 * (most + least - scores) // most
    if ignored is not None:
        result[ignored] = 0
    return result
