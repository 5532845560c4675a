"""Tables for `kubectl get`: columns, rows, and formatting of ages, selectors and lists."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from mooring.apiserver.documents import Document, seconds_of
from mooring.cluster.selectors import selector_of

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"
_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}

Row = Callable[[Document, float], list[Any]]


class Columns(NamedTuple):
    """The columns of a kind, and a function that returns the cells of an object."""

    definitions: tuple[Document, ...]
    row: Row


def columns(text: str, row: Row) -> Columns:
    """Parse `Name Ready:integer +Node`: a type follows a colon, `+` marks columns of `-o wide`, `_` is a space."""
    found: list[Document] = []
    for word in text.split():
        wide = word.startswith("+")
        name, _, kind = word.lstrip("+").partition(":")
        name = name.replace("_", " ")
        found.append(
            {
                "name": name,
                "type": kind or "string",
                "format": "name" if name == "Name" and not wide else "",
                "description": "",
                "priority": int(wide),
            }
        )
    return Columns(tuple(found), row)


def _name_and_age(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], age(document, now)]


def _name_and_created(document: Document, _now: float) -> list[Any]:
    return [document["metadata"]["name"], document["metadata"].get("creationTimestamp", "")]


NAME_AND_AGE: Final = columns("Name Age", _name_and_age)
#: The columns of kinds without specific columns. kubectl converts the date to an age.
PLAIN: Final = Columns(
    (*NAME_AND_AGE.definitions[:1], {**NAME_AND_AGE.definitions[1], "name": "Created At", "type": "date"}),
    _name_and_created,
)


def table_rows(documents: Iterable[Document], columns: Columns, now: float, include: str) -> list[Document]:
    """Return a row for each object. `include` selects how much of the object each row contains."""
    rows: list[Document] = []
    for document in documents:
        row: Document = {"cells": columns.row(document, now)}
        phase = document.get("status", {}).get("phase") if document.get("kind") == "Pod" else None
        if phase in {"Succeeded", "Failed"}:
            row["conditions"] = [{
                "type": "Completed", "status": "True", "reason": phase,
                "message": "The pod has completed successfully." if phase == "Succeeded" else "The pod failed.",
            }]  # fmt: skip
        if include == "Object":
            row["object"] = document
        elif include == "Metadata":
            row["object"] = partial_metadata(document)
        rows.append(row)
    return rows


def partial_metadata(document: Document) -> Document:
    """Return the metadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": document["metadata"],
    }


def table_document(columns: Columns, rows: list[Document], metadata: Document, *, headers: bool = True) -> Document:
    """Return a Table."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": list(columns.definitions) if headers else [],
        "rows": rows,
    }


def human_duration(seconds: float) -> str:
    """Format a duration as kubectl does: exact if it is short, rounded if it is long."""
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
    """Format the time since a timestamp."""
    return human_duration(now - seconds_of(timestamp)) if timestamp else UNKNOWN


def age(document: Document, now: float) -> str:
    """Format the age of an object."""
    return since(document["metadata"].get("creationTimestamp"), now)


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Format labels as `a=1,b=2`."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Format a label selector."""
    if not selector:
        return NONE
    parts = [
        f"{each.key}={next(iter(each.values))}" if each.operator == "In" and len(each.values) == 1 else str(each)
        for each in selector_of(selector).requirements
    ]
    return ",".join(parts) or NONE


def container_cells(containers: Iterable[Document]) -> tuple[str, str]:
    """Return the names and the images of containers."""
    found = list(containers)
    return ",".join(each["name"] for each in found), ",".join(each.get("image", "") for each in found)


def access_modes_text(modes: Iterable[str] | None) -> str:
    """Format access modes in their short form, in the order of Kubernetes."""
    present = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in present)
