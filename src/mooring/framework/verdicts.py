"""Verdicts: the result of ``filter_nodes`` for many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework.status import Code, Status

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Verdicts:
    """A code per node: 0 is success, any other number stands for the Status that ``status(code)`` returns.

    Create one with ``reject`` or ``first``. The framework reads the codes as an array; it looks up the status of a
    single node only when its reasons are needed.
    """

    __slots__ = ("codes", "may_fail", "status")

    def __init__(
        self, codes: npt.NDArray[np.integer], status: Callable[[int], Status], *, may_fail: bool = False
    ) -> None:
        self.codes = codes
        self.status = status
        #: Whether a code may stand for an Error, which aborts the attempt even if other nodes are feasible.
        self.may_fail = may_fail

    @classmethod
    def reject(cls, rejected: Mask, status: Status) -> Verdicts:
        """Reject the nodes where ``rejected`` is true with ``status``; the others succeed."""
        return cls(rejected.view(np.int8), lambda _code: status, may_fail=status.code is Code.ERROR)

    @classmethod
    def first(cls, rejections: Sequence[tuple[Mask, Status]]) -> Verdicts:
        """Give each node the status of the first mask that is true for it."""
        codes = np.zeros(len(rejections[0][0]), dtype=np.int8)
        for number, (mask, _) in reversed(list(enumerate(rejections, start=1))):
            codes[mask] = number
        statuses = [status for _, status in rejections]
        may_fail = any(status.code is Code.ERROR for status in statuses)
        return cls(codes, lambda code: statuses[code - 1], may_fail=may_fail)

    @classmethod
    def of(cls, statuses: Sequence[Status | None]) -> Verdicts:
        """Convert a list with one status per node, for a plugin that works node by node."""
        codes = np.array(
            [0 if s is None or s.is_success else i for i, s in enumerate(statuses, start=1)], dtype=np.int32
        )
        may_fail = any(status is not None and status.code is Code.ERROR for status in statuses)
        return cls(codes, lambda code: statuses[code - 1] or Status(), may_fail=may_fail)

    def __len__(self) -> int:
        return len(self.codes)
