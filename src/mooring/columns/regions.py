"""Regions: the nodes on which a spread constraint counts pods, updated as nodes change.

A constraint counts pods only on nodes that have all its topology keys, match the pod's node affinity and (optionally)
have only taints that the pod tolerates. Usually these are all nodes, so that every count is a lookup. Otherwise, pod
counters maintain counts for the region in addition to those for all nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from mooring.api.affinity import Toleration
from mooring.api.node_selectors import RequiredNodeAffinity
from mooring.api.tolerations import untolerated
from mooring.columns.interned import Codes, LabelColumn, Mask
from mooring.columns.nodes import Nodes

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

#: If more nodes have changed, the region is rebuilt.
_FEW = 32
#: The maximum number of regions. Beyond it, the least recently used ones are dropped.
_KEEP = 512
#: The maximum number of keys, values and tolerations in the conditions of all regions, since a tenant can write
#: thousands of them for one region.
_KEEP_PARTS = 16_384

Tolerations = tuple[Toleration, ...]
Conditions = tuple[frozenset[str], RequiredNodeAffinity | None, Tolerations | None]
_NO_DOMAINS: tuple[Mask, int] = (np.zeros(0, dtype=np.bool_), 0)


class Region:
    """The nodes that have some labels, match a node affinity (None: any) and have only tolerated taints (None: any)."""

    __slots__ = (
        "_affinity",
        "_codes",
        "_comparisons",
        "_cursor",
        "_domains",
        "_keys",
        "_missing",
        "_table",
        "_tolerations",
        "everything",
        "mask",
        "version",
    )

    def __init__(
        self,
        table: NodeTable,
        keys: frozenset[str],
        affinity: RequiredNodeAffinity | None,
        tolerations: Tolerations | None,
        *,
        comparisons: bool = False,
    ) -> None:
        self._table = table
        self._comparisons = comparisons
        self._keys = tuple(sorted(keys))
        self._affinity = None if affinity is None or affinity.is_empty else affinity
        self._tolerations = tolerations
        self._cursor = table.node_cursor()
        #: The codes of the keys when the mask was computed: a member that moves to another domain changes the region.
        self._codes: tuple[Codes, ...] = ()
        self._domains: dict[str, tuple[int, Mask, int]] = {}
        #: A key that no node has, if there is one. Until a node has it, the region is empty.
        self._missing: str | None = None
        #: Which rows are members.
        self.mask: Mask = np.zeros(0, dtype=np.bool_)
        #: Whether all nodes are members.
        self.everything = False
        #: Increases when the members, or their domains, change.
        self.version = 0

    def refresh(self) -> Region:
        """Apply the changes of nodes since the last call; O(changed nodes)."""
        cursor = self._cursor
        if cursor.current:
            return self
        changed = cursor.changed(_FEW)
        if changed is None or (self._missing is not None and self._table.has_label_key(self._missing)):
            self._build()
        elif [row for row in changed if self._recheck(row)]:
            self.everything = bool(self.mask.all())
            self.version += 1
        cursor.advance()
        return self

    def _build(self) -> None:
        table = self._table
        nodes = Nodes(table)
        self.version += 1
        self._missing = next((key for key in self._keys if not table.has_label_key(key)), None)
        if self._missing is not None:
            self.mask, self.everything, self._codes = np.zeros(len(nodes), dtype=np.bool_), not len(nodes), ()
            return
        columns = [table.label(key) for key in self._keys]
        mask: Mask = np.ones(len(nodes), dtype=np.bool_)
        for column in columns:
            mask &= nodes.codes(column) >= 0
        if self._affinity is not None:
            mask &= nodes.matches(self._affinity)
        tolerations = self._tolerations
        if tolerations is not None and table.taints.distinct:
            lookup = table.taints.lookup(
                lambda taints: untolerated(taints, tolerations, comparisons=self._comparisons) is None, absent=True
            )
            mask &= lookup.take(nodes.taint_codes)
        self.mask = mask
        self.everything = bool(mask.all())
        self._codes = tuple(column.codes[: len(nodes)].copy() for column in columns)

    def _recheck(self, row: int) -> bool:
        """Update one row; return whether that changed the region."""
        if self._missing is not None:
            return False
        table = self._table
        node = table.nodes[row].node
        labels = node.labels
        member = (
            all(key in labels for key in self._keys)
            and (self._affinity is None or self._affinity.matches(labels, node.name))
            and (
                self._tolerations is None
                or untolerated(node.taints, self._tolerations, comparisons=self._comparisons) is None
            )
        )
        moved = bool(self.mask[row]) != member
        self.mask[row] = member
        for key, seen in zip(self._keys, self._codes, strict=True):
            code = table.label(key).codes[row]
            if seen[row] != code:
                seen[row] = code
                moved = True
        return moved

    def covers(self, row: int) -> bool:
        """Return whether a row was a member at the last refresh."""
        return row < len(self.mask) and bool(self.mask[row])

    def column(self, key: str) -> LabelColumn:
        """Return the column of a topology key."""
        return self._table.label(key)

    def domains(self, key: str) -> tuple[Mask, int]:
        """Return which codes of one of the region's keys have a member, and their number."""
        column = self._table.label(key)
        if not column.size:
            return _NO_DOMAINS
        known = self._domains.get(key)
        if known is None or known[0] != self.version or len(known[1]) != column.size:
            found: Mask = np.zeros(column.size, dtype=np.bool_)
            found[column.codes[: len(self.mask)][self.mask]] = True
            known = self._domains[key] = (self.version, found, int(np.count_nonzero(found)))
        return known[1], known[2]


class Regions:
    """The recently used regions."""

    def __init__(self, table: NodeTable, *, comparisons: bool = False) -> None:
        """With ``comparisons``, tolerations can compare numbers."""
        self._table = table
        self._comparisons = comparisons
        self._regions: OrderedDict[Conditions, Region] = OrderedDict()
        self._parts = 0

    def of(
        self,
        keys: frozenset[str],
        affinity: RequiredNodeAffinity | None = None,
        tolerations: Tolerations | None = None,
    ) -> Region:
        """Return the region of some conditions; equal conditions share one."""
        if affinity is not None and affinity.is_empty:
            affinity = None
        conditions = (keys, affinity, tolerations)
        region = self._regions.get(conditions)
        if region is None:
            region = Region(self._table, keys, affinity, tolerations, comparisons=self._comparisons)
            self._regions[conditions] = region
            self._parts += _parts(conditions)
            while len(self._regions) > _KEEP or (self._parts > _KEEP_PARTS and len(self._regions) > 1):
                oldest, _ = self._regions.popitem(last=False)
                self._parts -= _parts(oldest)
        else:
            self._regions.move_to_end(conditions)
        return region

    def __len__(self) -> int:
        return len(self._regions)


def _parts(conditions: Conditions) -> int:
    """Return the number of keys, values and tolerations in the conditions of a region."""
    keys, affinity, tolerations = conditions
    parts = 1 + len(keys) + len(tolerations or ())
    if affinity is None:
        return parts
    requirements = [] if affinity.selector is None else list(affinity.selector.requirements)
    if affinity.affinity is not None:
        for term in affinity.affinity.terms:
            requirements += [*term.expressions, *term.fields]
    return parts + sum(1 + len(each.values) for each in requirements)
