"""Verdicts and scores of nodes by their topology domains, for keys with few domains.

Hot path. The counts of domains change with every pod, but most of these changes leave the verdicts as they are, so
the verdicts on all nodes are cached until a node changes (``DomainVerdicts``). The feasible nodes are then often the
same as for the last pod, and so are their domains (``FeasibleDomains``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mooring.columns.distinct import distinct
from mooring.columns.interned import LabelColumn
from mooring.framework import Nodes, Status, Verdicts

Rows = npt.NDArray[np.intp]
#: The maximum number of cached tables.
_MAX_TABLES = 32
#: Up to this many domains, results are cached, and a loop over the domains is faster than NumPy.
FEW_DOMAINS = 64


class DomainVerdicts:
    """Verdicts that depend on the domain of a node, for keys with few domains."""

    def __init__(self, status: Callable[[int], Status]) -> None:
        self._status = status
        #: The version of the nodes that the cached verdicts belong to.
        self._version = -1
        self._known: dict[tuple[LabelColumn, bytes], Verdicts | None] = {}

    def of(self, nodes: Nodes, column: LabelColumn, table: bytes) -> Verdicts | None:
        """Return the verdicts from a table by code, whose last entry is for nodes without the key; None if all are 0.

        Equal tables result in the same object.
        """
        if nodes.rows is not None or len(table) > FEW_DOMAINS:
            return self._make(nodes, column, table, lasting=False)
        version = nodes.table.nodes_version
        if version != self._version or len(self._known) >= _MAX_TABLES:
            self._known.clear()
            self._version = version
        key = column, table
        if key not in self._known:
            self._known[key] = self._make(nodes, column, table, lasting=True)
        return self._known[key]

    def _make(self, nodes: Nodes, column: LabelColumn, table: bytes, *, lasting: bool) -> Verdicts | None:
        codes = np.frombuffer(table, dtype=np.int8).take(nodes.codes(column))
        return Verdicts(codes, self._status, lasting=lasting) if codes.any() else None


class Domains:
    """The domains of some nodes: the code of each node, and each code once; -1 stands for nodes without the key."""

    __slots__ = ("codes", "present")

    def __init__(self, codes: npt.NDArray[np.integer]) -> None:
        self.codes: Rows = codes.astype(np.intp)
        self.present = distinct(self.codes)


class FeasibleDomains:
    """The domains of the nodes that are scored, cached while these are the same nodes."""

    def __init__(self) -> None:
        #: The last view, and the version of the nodes.
        self._rows: Rows | None = None
        self._version = -1
        self._known: dict[LabelColumn, Domains | None] = {}

    def of(self, nodes: Nodes, column: LabelColumn) -> Domains | None:
        """Return the domains of some nodes.

        None if the domains are many, or if these nodes are new: to find the domains takes longer than it saves then.
        """
        if column.size > FEW_DOMAINS:
            return None
        version = nodes.table.nodes_version
        if nodes.rows is not self._rows or version != self._version:
            self._rows, self._version = nodes.rows, version
            self._known.clear()
        if column not in self._known:
            self._known[column] = None
            return None
        known = self._known[column]
        if known is None:
            known = self._known[column] = Domains(nodes.codes(column))
        return known
