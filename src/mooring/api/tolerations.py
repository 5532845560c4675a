"""Matching of taints and tolerations."""

from collections.abc import Collection, Iterable
from typing import Final

from mooring.api.affinity import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration matches a taint. An empty effect or key matches all.

    `Lt` and `Gt` never match: their feature gate is disabled by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = (NO_SCHEDULE, NO_EXECUTE),
) -> Taint | None:
    """Return the first taint with one of the effects that is not tolerated, or None."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
