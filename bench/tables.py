"""Rows of a table as text."""

from __future__ import annotations

from collections.abc import Sequence


def row(cells: Sequence[object]) -> str:
    """A row whose first cell is on the left and whose others are on the right."""
    first, *rest = (str(cell) for cell in cells)
    return f"{first:<18}" + "".join(f"{cell:>13}" for cell in rest)
