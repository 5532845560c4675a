"""The columns that a batch guest may ask for, by name, as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from mooring.api.pod import Pod
from mooring.framework import Nodes

#: The column itself, and its dictionary (texts that end in a zero byte), for columns that have one.
Column = tuple[bytes, bytes]
_Source = Callable[[str, Pod, Nodes], Column]


#: Of how many sets of nodes the names are kept.
_KEPT: Final = 8


class ColumnError(ValueError):
    """A column that there is not."""


def make_column(spec: str) -> Callable[[Pod, Nodes], Column]:
    """How to make the column that a guest calls `allocatable:cpu`, say. Raises ColumnError."""
    kind, _, name = spec.partition(":")
    source, needs_name = _SOURCES.get(kind, (None, False))
    if source is None or needs_name != bool(name):
        raise ColumnError(f"asks for the column {spec!r}; columns are {', '.join(KNOWN)}")
    if kind == "name":
        return _Names()
    found = source
    return lambda pod, nodes: found(name, pod, nodes)


def _label(key: str, _pod: Pod, nodes: Nodes) -> Column:
    values = nodes.label(key).values
    return nodes.codes(key).astype("<i4").tobytes(), _texts(value or "" for value in values)


class _Names:
    """The nodes' names, which are kept: mostly the same nodes are asked about, and to go through them all is slow."""

    def __init__(self) -> None:
        self._made_of: tuple[object, int] = (None, -1)
        self._kept: dict[bytes | None, Column] = {}

    def __call__(self, _pod: Pod, nodes: Nodes) -> Column:
        made_of = (nodes.table, nodes.table.structure)
        if made_of != self._made_of or len(self._kept) >= _KEPT:
            self._kept.clear()
            self._made_of = made_of
        rows = None if nodes.rows is None else nodes.rows.tobytes()
        known = self._kept.get(rows)
        if known is None:
            known = self._kept[rows] = _names("", _pod, nodes)
        return known


def _names(_: str, _pod: Pod, nodes: Nodes) -> Column:
    names = [name.encode() for name in nodes.names]
    ends = np.cumsum([0, *(len(name) + 1 for name in names)], dtype="<u4")
    return ends.tobytes(), b"".join(name + b"\0" for name in names)


def _texts(values: object) -> bytes:
    return b"".join(f"{value}\0".encode() for value in values)  # type: ignore[attr-defined]  # any iterable of texts


def _amount(read: Callable[[Nodes, str], object]) -> _Source:
    return lambda name, _pod, nodes: (np.asarray(read(nodes, name), dtype="<i8").tobytes(), b"")


#: Kind -> how it is made, and whether it takes a name after a colon.
_SOURCES: Final[dict[str, tuple[_Source, bool]]] = {
    "name": (_names, False),
    "allocatable": (_amount(lambda nodes, name: nodes.allocatable(name)), True),
    "requested": (_amount(lambda nodes, name: nodes.requested(name)), True),
    "nonzero_requested": (_amount(lambda nodes, name: nodes.nonzero_requested(name)), True),
    "pod_count": (_amount(lambda nodes, _: nodes.pod_count), False),
    "allowed_pods": (_amount(lambda nodes, _: nodes.allowed_pods), False),
    "unschedulable": (
        lambda _name, _pod, nodes: (np.asarray(nodes.unschedulable, dtype=np.uint8).tobytes(), b""),
        False,
    ),
    "label": (_label, True),
    "pod_request": (
        lambda name, pod, _nodes: (pod.requests.get(name, 0).to_bytes(8, "little", signed=True), b""),
        True,
    ),
}
KNOWN: Final = tuple(kind + (":NAME" if named else "") for kind, (_, named) in _SOURCES.items())
