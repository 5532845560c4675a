"""RowCursor: the rows of the node table that changed since a reader last read them.

Data derived from the table (columns, masks, cached answers) is updated with a cursor:

    changed = cursor.changed(limit)
    if changed is None:
        ...  # read all rows
    else:
        for row in changed: ...
    cursor.advance()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

_TRIM_AT = 1 << 16


class ChangeLog:
    """The row numbers in the order in which they changed. ``position`` is a bookmark in the log."""

    __slots__ = ("position", "rows")

    def __init__(self) -> None:
        #: The most recent changes; older ones are trimmed.
        self.rows: list[int] = []
        #: A bookmark for everything logged so far. It is a plain attribute because every decision reads it.
        self.position = 0

    def mark(self, row: int) -> None:
        """Log that a row changed."""
        rows = self.rows
        rows.append(row)
        self.position += 1
        if len(rows) > _TRIM_AT:
            del rows[: _TRIM_AT // 2]

    def mark_all(self, changed: Sequence[int]) -> None:
        """Log that several rows changed."""
        rows = self.rows
        rows += changed
        self.position += len(changed)
        if len(rows) > _TRIM_AT:
            del rows[: len(rows) - _TRIM_AT // 2]

    def since(self, position: int, limit: int) -> list[int] | None:
        """Return the rows changed since a bookmark, each once; None if more than ``limit`` changed or it is too old."""
        count = self.position - position
        if count == 0:
            return []
        if count > limit or count > len(self.rows):
            return None
        return sorted(set(self.rows[-count:]))


class RowCursor:
    """A reader's position in a change log of the table.

    ``changed`` and ``advance`` are separate, so that a reader that fails sees the same rows again.
    """

    __slots__ = ("_log", "_marked", "_node_position", "_position", "_structure", "_survives_resize", "_table")

    def __init__(self, table: NodeTable, log: ChangeLog, *, survives_resize: bool = False) -> None:
        self._table = table
        self._log = log
        #: Whether the reader handles added and removed rows itself. Then ``changed`` contains added and moved rows.
        self._survives_resize = survives_resize
        self._structure = -1
        self._position = self._node_position = -1
        self._marked: set[str] | None = None

    def mark(self, node_name: str) -> None:
        """Count a node as changed for this reader only. The node may not exist yet."""
        if self._marked is None:
            self._marked = set()
        self._marked.add(node_name)

    def reset(self) -> None:
        """Invalidate the position: all rows count as changed."""
        self._structure = self._position = -1

    @property
    def current(self) -> bool:
        """Whether nothing has changed since ``advance``."""
        return self._position == self._log.position and self._structure == self._table.structure and not self._marked

    def changed(self, limit: int) -> list[int] | None:
        """Return the rows that changed since ``advance``; None if all rows must be read again.

        This is the case the first time, after a reset, if more than ``limit`` changes were logged, and if rows were
        added or removed, unless the cursor was created with ``survives_resize``.
        """
        if self._structure != self._table.structure or self._marked:
            return None if self._position < 0 else self._changed_rows(limit)
        log = self._log
        count = log.position - self._position
        if count == 0:
            return []
        if count == 1 and limit:  # the usual case: the last pod was placed
            return [log.rows[-1]]
        return log.since(self._position, limit)

    @property
    def nodes_current(self) -> bool:
        """Whether no node has changed since ``advance``; changes of pods do not count."""
        return self._node_position == self._table.node_changes.position

    def nodes_changed(self, limit: int) -> list[int] | None:
        """Return the ``changed`` rows whose node changed. Call it only if ``changed`` did not return None."""
        log = self._table.node_changes
        return [] if log.position == self._node_position else log.since(self._node_position, limit)

    def _changed_rows(self, limit: int) -> list[int] | None:
        """Return the changed rows if rows were added or removed, or nodes are marked."""
        table = self._table
        resized = self._structure != table.structure
        rows = None if resized and not self._survives_resize else self._log.since(self._position, limit)
        if rows is None:
            return None
        row_of, size = table.row_of, len(table)
        marked = (row_of[name] for name in self._marked or () if name in row_of)
        return sorted({*marked, *(row for row in rows if row < size)})

    def advance(self) -> None:
        """Move the position to the end of the log."""
        table = self._table
        self._structure = table.structure
        self._position = self._log.position
        self._node_position = table.node_changes.position
        self._marked = None
