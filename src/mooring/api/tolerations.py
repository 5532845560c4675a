"""Which taints a pod puts up with."""

from collections.abc import Collection, Iterable
from typing import Final

from mooring.api.affinity import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration covers the taint. An empty effect or key covers all of them.

    `Lt` and `Gt` never match: kube-scheduler 1.36 has them behind a feature gate that is off.
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
    """The first taint with one of the effects that no toleration covers, or None."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
