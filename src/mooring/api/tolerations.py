"""Matching of taints and tolerations."""

import re
from collections.abc import Collection, Iterable
from typing import Final

from mooring.api.affinity import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
#: The numbers that `Lt` and `Gt` compare: no sign +, no leading zeros, at most as many digits as 64 bits need.
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(toleration: Toleration, taint: Taint, *, comparisons: bool = False) -> bool:
    """Return whether a toleration matches a taint. An empty effect or key matches all.

    `Lt` and `Gt` only match with `comparisons`: the gate TaintTolerationComparisonOperators is off by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    if toleration.operator == "Exists":
        return True
    if not comparisons or toleration.operator not in {"Lt", "Gt"}:
        return False
    limit, value = _number(toleration.value), _number(taint.value)
    if limit is None or value is None:
        return False
    return value < limit if toleration.operator == "Lt" else value > limit


def _number(text: str) -> int | None:
    """Return a number of 64 bits; None for other texts."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = (NO_SCHEDULE, NO_EXECUTE),
    *,
    comparisons: bool = False,
) -> Taint | None:
    """Return the first taint with one of the effects that is not tolerated, or None."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(each, taint, comparisons=comparisons) for each in tolerations):
            return taint
    return None
