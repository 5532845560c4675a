"""Container images on nodes: name -> size and rows."""

from __future__ import annotations

from mooring.api.node import Node
from mooring.columns.counts import Counts


class ImageState:
    """One image name: its size as first seen, and the rows that have it."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows = Counts()


class ImageIndex:
    """All image names of the cluster."""

    def __init__(self) -> None:
        self._images: dict[str, ImageState] = {}

    def add_node(self, row: int, node: Node) -> None:
        """Take over a node's images."""
        for name, size in _images(node).items():
            state = self._images.get(name)
            if state is None:
                state = self._images[name] = ImageState(size)
            state.rows.add(row, 1)

    def remove_node(self, row: int, node: Node) -> None:
        """Forget a node's images."""
        for name in _images(node):
            state = self._images[name]
            state.rows.add(row, -1)
            if not state.rows.total:
                del self._images[name]

    def get(self, name: str) -> ImageState | None:
        """An image by (normalised) name."""
        return self._images.get(name)

    def snapshot(self) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        """Everything, for checks."""
        return {name: (state.size, state.rows.items()) for name, state in self._images.items()}


def _images(node: Node) -> dict[str, int]:
    found: dict[str, int] = {}
    for image in node.status.images:
        for name in image.names:
            found.setdefault(name, image.size_bytes)
    return found
