"""Text tables."""

from __future__ import annotations

from collections.abc import Sequence


def row(cells: Sequence[object]) -> str:
    """Format a row with the first cell on the left and the others on the right."""
    first, *rest = (str(cell) for cell in cells)
    return f"{first:<18}" + "".join(f"{cell:>13}" for cell in rest)
