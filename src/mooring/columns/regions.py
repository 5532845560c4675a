"""Regions: the nodes on which a spread constraint counts pods, kept current as nodes change.

A constraint counts pods only on nodes that have all its topology keys, fit the pod's node affinity and (on request)
have only taints that the pod tolerates. Most often these are all nodes, which makes every count a plain look-up; where
they are not, pod counters keep counts for the region beside those for all nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from mooring.api.affinity import Toleration
from mooring.api.selectors import RequiredNodeAffinity
from mooring.api.tolerations import untolerated
from mooring.columns.interned import Codes, LabelColumn, Mask
from mooring.columns.nodes import Nodes

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

#: More changed nodes than this are not looked at one by one.
_FEW = 32
#: Regions kept; beyond that, the ones not asked about for longest are dropped.
_KEEP = 512

Tolerations = tuple[Toleration, ...]


class Region:
    """Nodes that have some labels, fit a node affinity (None: any) and have tolerated taints only (None: any)."""

    __slots__ = (
        "_affinity",
        "_codes",
        "_cursor",
        "_domains",
        "_keys",
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
    ) -> None:
        self._table = table
        self._keys = tuple(sorted(keys))
        self._affinity = None if affinity is None or affinity.is_empty else affinity
        self._tolerations = tolerations
        self._cursor = table.node_cursor()
        #: The codes of the keys when the mask was made: a member that moves to another domain changes the region.
        self._codes: tuple[Codes, ...] = ()
        self._domains: dict[str, tuple[int, Mask, int]] = {}
        #: Membership by row.
        self.mask: Mask = np.zeros(0, dtype=np.bool_)
        #: Whether all nodes are members.
        self.everything = False
        #: Rises when the members, or the domains they are in, change.
        self.version = 0

    def refresh(self) -> Region:
        """Take over what happened to the nodes since the last time; O(changed nodes)."""
        cursor = self._cursor
        if cursor.current:
            return self
        changed = cursor.changed(_FEW)
        if changed is None:
            self._build()
        elif [row for row in changed if self._recheck(row)]:
            self.everything = bool(self.mask.all())
            self.version += 1
        cursor.advance()
        return self

    def _build(self) -> None:
        table = self._table
        nodes = Nodes(table)
        mask: Mask = np.ones(len(nodes), dtype=np.bool_)
        for key in self._keys:
            mask &= nodes.codes(key) >= 0
        if self._affinity is not None:
            mask &= nodes.matches(self._affinity)
        tolerations = self._tolerations
        if tolerations is not None and table.taints.distinct:
            lookup = table.taints.lookup(lambda taints: untolerated(taints, tolerations) is None, absent=True)
            mask &= lookup.take(nodes.taint_codes)
        self.mask = mask
        self.everything = bool(mask.all())
        self._codes = tuple(table.label(key).codes[: len(nodes)].copy() for key in self._keys)
        self.version += 1

    def _recheck(self, row: int) -> bool:
        """Bring one row up to date; whether that changed the region."""
        table = self._table
        node = table.nodes[row].node
        labels = node.labels
        member = (
            all(key in labels for key in self._keys)
            and (self._affinity is None or self._affinity.matches(labels, node.name))
            and (self._tolerations is None or untolerated(node.taints, self._tolerations) is None)
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
        """Whether a row was a member at the last refresh."""
        return row < len(self.mask) and bool(self.mask[row])

    def column(self, key: str) -> LabelColumn:
        """The codes of a topology key."""
        return self._table.label(key)

    def domains(self, key: str) -> tuple[Mask, int]:
        """Which codes of one of the region's keys have a member, and how many do."""
        column = self._table.label(key)
        known = self._domains.get(key)
        if known is None or known[0] != self.version or len(known[1]) != column.size:
            found: Mask = np.zeros(column.size, dtype=np.bool_)
            found[column.codes[: len(self.mask)][self.mask]] = True
            known = self._domains[key] = (self.version, found, int(np.count_nonzero(found)))
        return known[1], known[2]


class Regions:
    """The regions that were asked about lately."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._regions: OrderedDict[object, Region] = OrderedDict()

    def of(
        self,
        keys: frozenset[str],
        affinity: RequiredNodeAffinity | None = None,
        tolerations: Tolerations | None = None,
    ) -> Region:
        """The region of some conditions; equal conditions share one."""
        if affinity is not None and affinity.is_empty:
            affinity = None
        conditions = (keys, affinity, tolerations)
        region = self._regions.get(conditions)
        if region is None:
            region = self._regions[conditions] = Region(self._table, keys, affinity, tolerations)
            if len(self._regions) > _KEEP:
                self._regions.popitem(last=False)
        else:
            self._regions.move_to_end(conditions)
        return region
