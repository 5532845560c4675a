"""Why a task found no node: what was said of each node, and the message people read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mooring.framework.status import Code, Status

Mask = npt.NDArray[np.bool_]
#: What was said of one node, in order.
Verdict = tuple[Status, ...]

#: Codes for which making room is no remedy.
SEVERE = frozenset({Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.ERROR, Code.WAIT, Code.SKIP})


class Stage(Protocol):
    """One step of looking for nodes: which rows it turned down, and with what words."""

    failed: Mask

    def verdict(self, row: int) -> Verdict:
        """What was said of a row that failed."""

    def unresolvable(self) -> Mask:
        """The failed rows that no eviction can help."""


class Everywhere:
    """The same verdict for all rows."""

    def __init__(self, rows: Mask, verdict: Verdict) -> None:
        self.failed = rows
        self._verdict = verdict

    def verdict(self, row: int) -> Verdict:
        """The verdict."""
        return self._verdict

    def unresolvable(self) -> Mask:
        """All rows, or none."""
        hopeless = any(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in self._verdict)
        return self.failed if hopeless else np.zeros(len(self.failed), dtype=np.bool_)


class FitErrors:
    """The outcome of a search that found nothing."""

    def __init__(self, stages: Iterable[Stage] = (), message: str = "") -> None:
        self._stages = list(stages)
        self._message = message
        self._text: str | None = None

    def verdicts(self) -> Iterator[tuple[int, Verdict]]:
        """Each failed row with what was said of it, the first stage's words counting."""
        seen: Mask | None = None
        for stage in self._stages:
            failed = stage.failed if seen is None else stage.failed & ~seen
            for row in np.flatnonzero(failed).tolist():
                yield row, stage.verdict(row)
            seen = stage.failed.copy() if seen is None else seen | stage.failed

    def unresolvable(self) -> Mask | None:
        """Rows that no eviction can help; None if there are none."""
        found: Mask | None = None
        seen: Mask | None = None
        for stage in self._stages:
            mask = stage.unresolvable() if seen is None else stage.unresolvable() & ~seen
            found = mask if found is None else found | mask
            seen = stage.failed if seen is None else seen | stage.failed
        return found if found is not None and found.any() else None

    def text(self) -> str:
        """The message: ``0/5 nodes are unavailable: 3 Insufficient cpu, 2 node(s) were unschedulable.``"""
        if self._text is None:
            self._text = self._compose()
        return self._text

    def _compose(self) -> str:
        reasons: Counter[str] = Counter()
        count = 0
        for _, verdict in self.verdicts():
            count += 1
            for status in verdict:
                if status.reasons:
                    reasons[status.message] += 1
        message = self._message or f"0/{count} nodes are unavailable"
        if not count:
            return message
        listed = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))
        return f"{message}: {listed}."
