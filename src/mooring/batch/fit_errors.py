"""Fit errors: the statuses of the nodes if none is feasible for a task, and the message for users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mooring.columns.distinct import numbered
from mooring.framework.status import Code, Status

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
#: The statuses of one node, in order.
Verdict = tuple[Status, ...]

#: Codes that evictions cannot resolve.
SEVERE = frozenset({Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.ERROR, Code.WAIT, Code.SKIP})


class Stage(Protocol):
    """One step of a search: the rows that it rejected, and their statuses."""

    failed: Mask

    def verdict(self, row: int) -> Verdict:
        """Return the statuses of a rejected row."""

    def kinds(self, rows: Rows) -> npt.NDArray[np.integer]:
        """Return a number for each of some rejected rows: rows with equal numbers have equal verdicts."""

    def unresolvable(self) -> Mask:
        """Return the rejected rows on which no eviction can help."""


class Everywhere:
    """The same verdict for all rows."""

    def __init__(self, rows: Mask, verdict: Verdict) -> None:
        self.failed = rows
        self._verdict = verdict

    def verdict(self, row: int) -> Verdict:
        """Return the verdict."""
        return self._verdict

    def kinds(self, rows: Rows) -> Rows:
        """Return the same number for all rows."""
        return np.zeros(len(rows), dtype=np.intp)

    def unresolvable(self) -> Mask:
        """Return all rows, or none."""
        unresolvable = any(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in self._verdict)
        return self.failed if unresolvable else np.zeros(len(self.failed), dtype=np.bool_)


class FitErrors:
    """The result of a search without a feasible node."""

    def __init__(self, stages: Iterable[Stage] = (), message: str = "") -> None:
        self._stages = list(stages)
        self._message = message
        self._text: str | None = None

    def verdicts(self) -> Iterator[tuple[int, Verdict]]:
        """Yield each rejected row with its statuses from the first stage that rejected it."""
        seen: Mask | None = None
        for stage in self._stages:
            failed = stage.failed if seen is None else stage.failed & ~seen
            for row in np.flatnonzero(failed).tolist():
                yield row, stage.verdict(row)
            seen = stage.failed.copy() if seen is None else seen | stage.failed

    def groups(self) -> Iterator[tuple[Verdict, Rows]]:
        """Yield the statuses of rejected rows, each with the rows that have them, in the order of the first rows."""
        seen: Mask | None = None
        for stage in self._stages:
            rows = np.flatnonzero(stage.failed if seen is None else stage.failed & ~seen)
            seen = stage.failed if seen is None else seen | stage.failed
            if not len(rows):
                continue
            first, numbers = numbered(stage.kinds(rows))
            for kind in np.argsort(first).tolist():
                yield stage.verdict(int(rows[first[kind]])), rows if len(first) == 1 else rows[numbers == kind]

    def unresolvable(self) -> Mask | None:
        """Return the rows on which no eviction can help; None if there are none."""
        found: Mask | None = None
        seen: Mask | None = None
        for stage in self._stages:
            mask = stage.unresolvable() if seen is None else stage.unresolvable() & ~seen
            found = mask if found is None else found | mask
            seen = stage.failed if seen is None else seen | stage.failed
        return found if found is not None and found.any() else None

    def text(self) -> str:
        """Return the message: ``0/5 nodes are unavailable: 3 Insufficient cpu, 2 node(s) were unschedulable.``"""
        if self._text is None:
            self._text = self._compose()
        return self._text

    def _compose(self) -> str:
        reasons: Counter[str] = Counter()
        count = 0
        for verdict, rows in self.groups():
            count += len(rows)
            for status in verdict:
                if status.reasons:
                    reasons[status.message] += len(rows)
        message = self._message or f"0/{count} nodes are unavailable"
        if not count:
            return message
        listed = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))
        return f"{message}: {listed}."
