"""How ages, selectors and lists are written in a table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.apiserver.documents import Document, seconds_of
from mooring.cluster.selectors import selector_of

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"


def human_duration(seconds: float) -> str:
    """A duration as kubectl writes it: exact when short, coarse when long."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, unit: int, letter: str, small: int, small_letter: str) -> str:
    rest = whole % unit // small
    return f"{whole // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")


def since(timestamp: str | None, now: float) -> str:
    """How long ago something was."""
    return human_duration(now - seconds_of(timestamp)) if timestamp else UNKNOWN


def age(document: Document, now: float) -> str:
    """How long ago the object was created."""
    return since(document["metadata"].get("creationTimestamp"), now)


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Labels as `a=1,b=2`."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as text."""
    if not selector:
        return NONE
    parts = [
        f"{each.key}={next(iter(each.values))}" if each.operator == "In" and len(each.values) == 1 else str(each)
        for each in selector_of(selector).requirements
    ]
    return ",".join(parts) or NONE


def container_cells(containers: Iterable[Document]) -> tuple[str, str]:
    """The names and the images of containers."""
    found = list(containers)
    return ",".join(each["name"] for each in found), ",".join(each.get("image", "") for each in found)


_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes_text(modes: Iterable[str] | None) -> str:
    """Access modes in their short form, in Kubernetes' order."""
    present = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in present)
