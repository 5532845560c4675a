"""What controllers of pods share: judging pods, choosing which to delete."""

from typing import Any, Final

from mooring.apiserver.documents import Document, condition, seconds_of

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def is_active(pod: Document) -> bool:
    """Whether the pod still counts: it neither ended nor is being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase not in {"Succeeded", "Failed"} and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: Document) -> bool:
    """Whether the pod serves."""
    ready = condition(pod, "Ready")
    return ready is not None and ready["status"] == "True"


def is_available(pod: Document, after: int, now: float) -> bool:
    """Whether the pod has been ready for long enough."""
    if not is_ready(pod):
        return False
    if not after:
        return True
    ready = condition(pod, "Ready") or {}
    return now - seconds_of(ready["lastTransitionTime"]) >= after


def deletion_order(pod: Document) -> tuple[Any, ...]:
    """By what pods are sorted when some must go: the least useful first."""
    metadata, spec = pod["metadata"], pod["spec"]
    ready = condition(pod, "Ready") or {}
    since = ready.get("lastTransitionTime", "") if is_ready(pod) else ""
    annotations = metadata.get("annotations") or {}
    return (
        bool(spec.get("nodeName")),
        _PHASES.get(pod.get("status", {}).get("phase", ""), 0),
        is_ready(pod),
        _cost(annotations.get(_COST, "0")),
        _newest_first(since),
        _newest_first(metadata["creationTimestamp"]),
    )


def _cost(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _newest_first(timestamp: str) -> float:
    return -seconds_of(timestamp) if timestamp else 0.0
