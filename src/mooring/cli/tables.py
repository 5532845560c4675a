"""Tables on a screen or in a pipe: with colours and lines where somebody looks, plain text where something reads."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

from mooring.simulate.report import Bar, Cell, Grid, Listing, Part

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WIDTH: Final = 10
#: From this share on a bar is yellow, then red.
_BUSY, _FULL = 0.7, 0.9


def show(parts: Sequence[Part], stream: TextIO | None = None) -> None:
    """Write parts of a report one under the other."""
    stream = stream if stream is not None else sys.stdout
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        _show_rich(parts, stream)
    else:
        stream.write("\n\n".join(plain(part) for part in parts) + "\n")


# Plain


def plain(part: Part) -> str:
    """A part as text without any decoration."""
    match part:
        case str():
            return part
        case Grid():
            return _plain_grid(part)
        case Listing():
            lines = [part.title.upper()]
            for head, body in part.items:
                lines += [head, f"  {body}"]
            return "\n".join(lines)


def _plain_grid(grid: Grid) -> str:
    table = [[column.title.upper() for column in grid.columns], *([_text(cell) for cell in row] for row in grid.rows)]
    widths = [max(len(row[place]) for row in table) for place in range(len(grid.columns))]
    lines = [grid.title.upper()]
    for row in table:
        cells = [
            text.rjust(width) if column.align == "right" else text.ljust(width)
            for text, width, column in zip(row, widths, grid.columns, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    if grid.footer:
        lines.append(grid.footer)
    return "\n".join(lines)


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    filled = _filled(cell)
    return f"{'#' * filled}{'.' * (_WIDTH - filled)} {cell.text}"


def _filled(bar: Bar) -> int:
    """How many tenths to draw: none only for nothing, all only for everything."""
    if bar.share <= 0:
        return 0
    if bar.share >= 1:
        return _WIDTH
    return min(max(round(bar.share * _WIDTH), 1), _WIDTH - 1)


# Rich


def _show_rich(parts: Sequence[Part], stream: TextIO) -> None:
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    for part in parts:
        match part:
            case str():
                console.print(part, markup=False, style="bold")
            case Grid():
                _rich_grid(part, console)
            case Listing():
                _rich_listing(part, console)


def _rich_grid(grid: Grid, console: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=grid.title, title_justify="left", title_style="bold cyan", pad_edge=False)
    for column in grid.columns:
        table.add_column(column.title, justify=column.align)
    for row in grid.rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else _rich_bar(cell) for cell in row))
    console.print(table)
    if grid.footer:
        console.print(grid.footer, markup=False, style="dim")


def _rich_bar(bar: Bar) -> Text:
    from rich.text import Text

    filled = _filled(bar)
    colour = "red" if bar.share >= _FULL else "yellow" if bar.share >= _BUSY else "green"
    return Text.assemble(("█" * filled, colour), ("░" * (_WIDTH - filled), "dim"), f" {bar.text}")


def _rich_listing(listing: Listing, console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(f"\n{listing.title}", markup=False, style="bold cyan")
    for head, body in listing.items:
        console.print(Text(head, style="bold"))
        console.print(Padding(Text(body), (0, 0, 1, 2)))
