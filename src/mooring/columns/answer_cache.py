"""AnswerCache: answers about nodes, cached per kind of pod, and evaluated again only for the rows that changed.

Hot path. The pod-by-pod engine caches the answers of filters and scorers per pod template (``scheduler.answer_cache``),
batch sessions cache scores per kind of task (``batch.score_cache``). Both store the answers in columns with one entry
for each row of the node table. The least recently used kinds are dropped when the columns exceed a budget.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from mooring.columns.row_cursor import RowCursor

_ARRAY = np.ndarray
#: The minimum number of cached kinds, regardless of the budget.
_LEAST_KINDS = 16
#: An estimate of the size of a kind's columns per row.
_BYTES_PER_ROW = 34


class AnswerColumn:
    """One answer for each row; a single value while all rows have the same answer."""

    __slots__ = ("_shared", "derived", "values", "version")

    def __init__(self, values: Any = 0, *, shared: bool = False) -> None:
        #: An array, or the value that all rows have. Do not modify it.
        self.values: Any = values
        #: Whether the array must be copied before it is modified.
        self._shared = shared
        #: It changes with every answer that changes.
        self.version = 0
        #: What a reader has computed from the answers, with the version and whatever else it depends on.
        self.derived: Any = None

    def replace(self, values: Any, *, shared: bool = False) -> None:
        """Set all answers."""
        self.values = values
        self._shared = shared
        self.version += 1

    def share(self) -> Any:
        """Return all answers for storage elsewhere: from now on the array is copied before it is modified."""
        self._shared = True
        return self.values

    def set(self, row: int, answer: Any, size: int) -> None:
        """Set the answer of one row; ``size`` is the number of rows."""
        values = self.values
        if type(values) is not _ARRAY:
            if values == answer:
                return
            values = self.values = np.full(size, values)
        elif values.item(row) == answer:
            return
        elif self._shared:
            values = self.values = values.copy()
        self._shared = False
        self.version += 1
        values[row] = answer

    def patch(self, rows: Sequence[int], answers: Any, size: int) -> None:
        """Set the answers of some rows: one for each row, or one for all of them; ``size`` is the number of rows."""
        if len(rows) == 1 and type(answers) is list:
            self.set(rows[0], answers[0], size)
            return
        values = self.values
        if type(values) is not _ARRAY:
            same = answers.count(values) == len(answers) if isinstance(answers, list) else np.all(answers == values)
            if same:
                return
            values = self.values = np.full(size, values)
        elif self._shared:
            values = self.values = values.copy()
        self._shared = False
        self.version += 1
        values[rows] = answers

    def refresh(self, cursor: RowCursor, size: int, evaluate: Callable[[list[int] | None], Any]) -> None:
        """Evaluate the rows that changed since ``cursor`` again, or all rows (``evaluate(None)``) if many did."""
        changed = cursor.changed(max(2, size >> 2))
        if changed is None:
            self.replace(evaluate(None))
        elif changed:
            self.patch(changed, evaluate(changed), size)
        cursor.advance()


class CachedAnswers:
    """The answers for one kind of pod; subclasses store them."""

    __slots__ = ("alive", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        #: Whether the cache still holds this entry.
        self.alive = True

    def drop(self) -> None:
        """Release the memory."""
        self.alive = False


E = TypeVar("E", bound=CachedAnswers)


class AnswerCache(Generic[E]):
    """The cached answers by kind of pod. If they exceed the budget, the least recently used ones are dropped."""

    def __init__(
        self, make: Callable[[Hashable], E], rows: Callable[[], int], *, budget_bytes: int = 128 << 20
    ) -> None:
        #: Creates an entry that is not in the cache.
        self.make = make
        self._rows = rows
        self._budget = budget_bytes
        self._entries: OrderedDict[Hashable, E] = OrderedDict()

    def of(self, key: Hashable) -> E:
        """Return the answers for a kind; new answers are empty."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self.make(key)
            self.add(entry)
        else:
            self._entries.move_to_end(key)
        return entry

    def add(self, entry: E) -> None:
        """Add an entry whose key is not in the cache."""
        self._evict()
        self._entries[entry.key] = entry

    def used(self, entry: E) -> None:
        """Mark an entry of this cache as used."""
        self._entries.move_to_end(entry.key)

    def find(self, key: Hashable) -> E | None:
        """Return the answers for a kind if there are any, without marking them as used."""
        return self._entries.get(key)

    def discard(self, entry: E) -> None:
        """Drop an entry of this cache."""
        del self._entries[entry.key]
        entry.drop()

    def _evict(self) -> None:
        capacity = max(_LEAST_KINDS, self._budget // (_BYTES_PER_ROW * (self._rows() + 64)))
        while len(self._entries) >= capacity:
            _, oldest = self._entries.popitem(last=False)
            oldest.drop()
