"""Nodes told apart by a few labels only, so that what depends on those is worked out once a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from mooring.framework import Nodes
from mooring.plugins.volume_binding.reach import Reach

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]


class NodeGroups:
    """A partition of some nodes by the values of some labels. Groups are numbers below ``size``."""

    def __init__(self, nodes: Nodes, keys: Iterable[str]) -> None:
        self._columns = {key: nodes.label(key) for key in sorted(set(keys))}
        #: By label: the code of each group; -1 (the last entry of any look-up table) where it has none.
        self._codes: dict[str, Codes] = {}
        self._known: dict[Reach, Collection[int]] = {}
        #: (label, value) -> groups with several labels, value -> group with one.
        self._values: dict[tuple[str, str], list[int]] = {}
        self._code_of: dict[str, int] | None = None
        if not self._columns:
            self._of: Codes = np.zeros(len(nodes), dtype=np.intp)
            self.size = 1
            self.present = frozenset({0}) if len(nodes) else frozenset()
        elif len(self._columns) == 1:
            self._by_one(nodes, *self._columns)
        else:
            self._by_many(nodes)

    def _by_one(self, nodes: Nodes, key: str) -> None:
        """With one label its codes are the groups; those without it come last."""
        codes = nodes.codes(key)
        self._code_of = self._columns[key].code_of
        self.size = self._columns[key].size + 1
        self._of = np.where(codes < 0, self.size - 1, codes)
        self._codes[key] = np.append(np.arange(self.size - 1), -1)
        self.present = frozenset(np.flatnonzero(np.bincount(self._of, minlength=self.size)).tolist())

    def _by_many(self, nodes: Nodes) -> None:
        rows = np.stack([nodes.codes(key) for key in self._columns])
        groups, of = np.unique(rows, axis=1, return_inverse=True)
        self._of = of.reshape(-1)
        self.size = groups.shape[1]
        self._codes = {key: groups[number].astype(np.intp) for number, key in enumerate(self._columns)}
        self.present = frozenset(range(self.size))
        for key, codes in self._codes.items():
            values = self._columns[key].values
            for group, code in enumerate(codes.tolist()):
                if code >= 0:
                    self._values.setdefault((key, values[code] or ""), []).append(group)

    def spread(self, groups: Collection[int]) -> Mask:
        """Which nodes are in any of some groups."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        chosen[list(groups)] = True
        found: Mask = chosen[self._of]
        return found

    def within(self, reach: Reach | None) -> Collection[int]:
        """The groups that a volume's reach covers; some of them may have no nodes."""
        if reach is None:
            return self.present
        if reach.key:
            # There may be a volume for each node, so this has to be quick, and make nothing for the collector.
            if self._code_of is None:
                return self._with_values(reach.key, reach.values)
            return [self._code_of[value] for value in reach.values if value in self._code_of]
        known = self._known.get(reach)
        if known is None:
            known = self._known[reach] = self._covered(reach)
        return known

    def _with_values(self, key: str, values: frozenset[str]) -> Collection[int]:
        found = [self._values.get((key, value), ()) for value in values]
        return found[0] if len(found) == 1 else [group for groups in found for group in groups]

    def _covered(self, reach: Reach) -> Collection[int]:
        covered = np.zeros(self.size, dtype=np.bool_)
        for term in reach.terms:
            found = np.ones(self.size, dtype=np.bool_)
            for each in term.expressions:
                found &= self._columns[each.key].requirement(each)[self._codes[each.key]]
            covered |= found
        return frozenset(np.flatnonzero(covered).tolist())
