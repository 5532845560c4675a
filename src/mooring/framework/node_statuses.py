"""The status of every node in an attempt, stored as codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from mooring.columns.distinct import distinct
from mooring.columns.table import NodeTable
from mooring.framework.status import Code, Status

Rows = npt.NDArray[np.intp]

#: Status of a node that was not evaluated: it adds no reason to the message and is no candidate for preemption.
_UNSEEN = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class Rejections:
    """The nodes that one plugin rejected: rows, a code per row, and the meaning of the codes."""

    __slots__ = ("_groups", "_statuses", "codes", "plugin", "rows", "status_of")

    def __init__(
        self, plugin: str, rows: Rows, codes: npt.NDArray[np.integer], status_of: Callable[[int], Status]
    ) -> None:
        self.plugin = plugin
        self.rows = rows
        self.codes = codes
        self.status_of = status_of
        self._statuses: dict[int, Status] = {}
        self._groups: list[tuple[Status, Rows]] | None = None

    def status(self, code: int) -> Status:
        """Return the status that a code stands for, with the plugin's name."""
        status = self._statuses.get(code)
        if status is None:
            status = self._statuses[code] = self.status_of(code).by(self.plugin)
        return status

    def groups(self) -> list[tuple[Status, Rows]]:
        """Return the rows by status."""
        if self._groups is None:
            codes = distinct(self.codes)
            self._groups = (
                [(self.status(codes[0]), self.rows)]
                if len(codes) == 1
                else [(self.status(code), self.rows[self.codes == code]) for code in codes]
            )
        return self._groups


class NodeStatuses:
    """Why each node was rejected, for ``post_filter``: the status of the first plugin that rejected it.

    ``statuses.get("node-1").reasons`` returns the reasons for a node, and ``statuses.rows_with(Code.UNSCHEDULABLE)``
    the nodes where evicting pods might help.

    Attributes:
        table: The node table, to which rows refer.
        absent: The status of nodes that no plugin evaluated.
        among: The rows of the nodes that the attempt was restricted to; None for all.
    """

    def __init__(self, table: NodeTable, absent: Status = _UNSEEN, among: Rows | None = None) -> None:
        self.table = table
        self.absent = absent
        self.among = among
        self._rejections: list[Rejections] = []
        #: Statuses of single nodes; they override those of ``_rejections``.
        self._single: dict[int, Status] = {}
        #: Statuses of nodes that are not in the table: an extender may return any name.
        self._strangers: dict[str, Status] = {}

    def add(self, rejections: Rejections) -> None:
        """Add a plugin's rejections; add each row once only."""
        self._rejections.append(rejections)

    def set(self, row: int, status: Status) -> None:
        """Set the status of one node, overriding any rejection."""
        self._single[row] = status

    def set_by_name(self, name: str, status: Status) -> None:
        """Set the status of a node by name; the node need not exist."""
        row = self.table.row_of.get(name)
        if row is None:
            self._strangers[name] = status
        else:
            self.set(row, status)

    def get(self, name: str) -> Status:
        """Return the status of a node, given its name."""
        row = self.table.row_of.get(name)
        return self.absent if row is None else self.of_row(row)

    def of_row(self, row: int) -> Status:
        """Return the status of a node, given its row in the table."""
        status = self._single.get(row)
        if status is not None:
            return status
        for rejections in self._rejections:
            places = np.flatnonzero(rejections.rows == row)
            if len(places):
                return rejections.status(int(rejections.codes[places[0]]))
        return self.absent

    def groups(self) -> Iterator[tuple[Status, Rows]]:
        """Yield each status with its rows; the absent status comes last."""
        seen = np.zeros(len(self.table), dtype=np.bool_)
        single = np.fromiter(self._single, dtype=np.intp, count=len(self._single))
        seen[single] = True
        for rejections in self._rejections:
            for status, rows in rejections.groups():
                kept = rows[~seen[rows]] if len(single) else rows
                if len(kept):
                    yield status, kept
        for rejections in self._rejections:
            seen[rejections.rows] = True
        for row, status in self._single.items():
            yield status, np.array([row], dtype=np.intp)
        unseen = np.flatnonzero(~seen) if self.among is None else self.among[~seen[self.among]]
        if len(unseen):
            yield self.absent, unseen

    def rows_with(self, code: Code) -> Rows:
        """Return the rows of the nodes whose status has a code, in order."""
        found = [rows for status, rows in self.groups() if status.code is code]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.intp)

    def plugins(self, *, pending: bool = False) -> frozenset[str]:
        """Return the names of the plugins that rejected a node; with ``pending``, of those that returned Pending."""
        return frozenset(
            status.plugin
            for status, _ in self.groups()
            if status.plugin and status.is_rejected and (status.code is Code.PENDING) == pending
        )

    def reasons(self) -> Counter[str]:
        """Return the number of rejected nodes for each reason."""
        counts: Counter[str] = Counter()
        for status, rows in self.groups():
            for reason in status.reasons:
                counts[reason] += len(rows)
        for status in self._strangers.values():
            counts.update(status.reasons)
        return counts


def fit_message(total: int, statuses: NodeStatuses, pre_filter: str = "", post_filter: str = "") -> str:
    """Return the message ``0/5 nodes are available: 3 Insufficient cpu, 2 node(s) were unschedulable.``"""
    text = f"0/{total} nodes are available:"
    if pre_filter:
        text += f" {pre_filter}."
    else:
        reasons = sorted(f"{count} {reason}" for reason, count in statuses.reasons().items())
        if reasons:
            text += f" {', '.join(reasons)}."
    return f"{text} {post_filter}" if post_filter else text
