"""Print results: tables and lists for people, JSON and YAML for programs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import click
import msgspec

from mooring.simulate.report import Bar, Cell, Column, Grid, Listing, Part

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_BAR_WIDTH: Final = 10
#: A bar is yellow from the first share on, and red from the second.
_BUSY, _FULL = 0.7, 0.9


def table(
    title: str,
    titles: Sequence[str],
    rows: Iterable[tuple[Cell, ...]],
    *,
    right: Collection[str] = (),
    footer: str = "",
) -> Grid:
    """Return a table; the columns titled ``right`` are aligned to the right."""
    columns = tuple(Column(each, "right" if each in right else "left") for each in titles)
    return Grid(title, columns, list(rows), footer)


def print_result(value: Any, output: str, parts: Callable[[], Sequence[Part]]) -> None:
    """Print a value as JSON or YAML, or its ``parts`` if the output format is a table."""
    if output == "json":
        print_json(value)
    elif output == "yaml":
        _print_yaml([msgspec.to_builtins(value)])
    else:
        print_parts(parts())


def print_documents(documents: Sequence[dict[str, Any]], output: str) -> None:
    """Print documents for `kubectl apply -f -`: as a YAML stream, or in JSON as one List."""
    if output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    elif documents:
        _print_yaml(documents)


def print_json(value: Any) -> None:
    """Print one value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _print_yaml(documents: Sequence[Any]) -> None:
    from mooring.api.yaml_writer import documents_text

    click.echo(documents_text(documents), nl=False)


def print_parts(parts: Sequence[Part], stream: TextIO | None = None) -> None:
    """Print the parts of a report, with colors if the stream is a terminal and rich is installed."""
    stream = stream if stream is not None else sys.stdout
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        _print_rich(parts, stream)
    else:
        stream.write("\n\n".join(plain(part) for part in parts) + "\n")


def plain(part: Part) -> str:
    """Return a part as plain text."""
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
    return f"{'#' * filled}{'.' * (_BAR_WIDTH - filled)} {cell.text}"


def _filled(bar: Bar) -> int:
    """Return how many tenths to draw: 0 only for an empty bar, 10 only for a full one."""
    if bar.share <= 0:
        return 0
    if bar.share >= 1:
        return _BAR_WIDTH
    return min(max(round(bar.share * _BAR_WIDTH), 1), _BAR_WIDTH - 1)


def _print_rich(parts: Sequence[Part], stream: TextIO) -> None:
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
    color = "red" if bar.share >= _FULL else "yellow" if bar.share >= _BUSY else "green"
    return Text.assemble(("█" * filled, color), ("░" * (_BAR_WIDTH - filled), "dim"), f" {bar.text}")


def _rich_listing(listing: Listing, console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(f"\n{listing.title}", markup=False, style="bold cyan")
    for head, body in listing.items:
        console.print(Text(head, style="bold"))
        console.print(Padding(Text(body), (0, 0, 1, 2)))
