"""Verdicts: the result of ``filter_nodes`` for many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mooring.framework.status import Code, Status

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Verdicts:
    """The answer of ``filter_nodes``: a code per node.

    Create it with ``reject``, ``first`` or ``of``. The scheduler reads the codes as an array; it looks up the status of
    a node only when its reasons are needed.

    Attributes:
        codes: A code per node, in the order of the nodes: 0 means that the node is feasible.
        status: Returns the Status that a code other than 0 stands for.
        may_fail: Whether a code may stand for an Error, which ends the attempt even if other nodes are feasible.
        lasting: Whether the plugin returns this same object again while its answer is the same, so that what the
            scheduler derives from it is kept. The codes never change then.
    """

    __slots__ = ("codes", "lasting", "may_fail", "status")

    def __init__(
        self,
        codes: npt.NDArray[np.integer],
        status: Callable[[int], Status],
        *,
        may_fail: bool = False,
        lasting: bool = False,
    ) -> None:
        self.codes = codes
        self.status = status
        self.may_fail = may_fail
        self.lasting = lasting

    @classmethod
    def reject(cls, rejected: Mask, status: Status) -> Verdicts:
        """Reject the nodes where ``rejected`` is true with ``status``; the others are feasible.

        ``Verdicts.reject(nodes.free("cpu") < 1000, Status.unschedulable("less than one core is free"))``
        """
        return cls(rejected.view(np.int8), lambda _code: status, may_fail=status.code is Code.ERROR)

    @classmethod
    def first(cls, rejections: Sequence[tuple[Mask, Status]]) -> Verdicts:
        """Reject each node with the status of the first mask that is true for it; nodes without one are feasible."""
        codes = np.zeros(len(rejections[0][0]), dtype=np.int8)
        for number, (mask, _) in reversed(list(enumerate(rejections, start=1))):
            codes[mask] = number
        statuses = [status for _, status in rejections]
        may_fail = any(status.code is Code.ERROR for status in statuses)
        return cls(codes, lambda code: statuses[code - 1], may_fail=may_fail)

    @classmethod
    def of(cls, statuses: Sequence[Status | None]) -> Verdicts:
        """Return the verdicts for a list with a status, or None, per node."""
        codes = np.array(
            [0 if s is None or s.is_success else i for i, s in enumerate(statuses, start=1)], dtype=np.int32
        )
        may_fail = any(status is not None and status.code is Code.ERROR for status in statuses)
        return cls(codes, lambda code: statuses[code - 1] or Status(), may_fail=may_fail)

    def __len__(self) -> int:
        return len(self.codes)
