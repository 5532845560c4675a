"""Printing of results as tables, lists, JSON and YAML."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TextIO

import click
import msgspec

from mooring.cli.table_layout import bar_tenths, bar_text, fit, wrap
from mooring.simulation.report import Bar, Cell, Column, Grid, Listing, Part

#: The fractions from which a bar is yellow and red.
_BUSY, _FULL = 0.7, 0.9


def table(
    title: str,
    titles: Sequence[str],
    rows: Iterable[tuple[Cell, ...]],
    *,
    right: Collection[str] = (),
    footer: str = "",
) -> Grid:
    """Return a table. The columns titled ``right`` are aligned to the right."""
    return Grid(title, columns(titles, right=right), list(rows), footer)


def columns(
    titles: Sequence[str], *, right: Collection[str] = (), ranks: Mapping[str, int] = MappingProxyType({})
) -> tuple[Column, ...]:
    """Return columns; those titled ``right`` are aligned to the right. For ``ranks`` see `Column.rank`."""
    return tuple(Column(each, "right" if each in right else "left", ranks.get(each, 0)) for each in titles)


def print_result(value: Any, output: str, parts: Callable[[], Sequence[Part]]) -> None:
    """Print a value as JSON or YAML, or its ``parts`` if the output format is table or wide."""
    if output == "json":
        print_json(value)
    elif output == "yaml":
        print_yaml([msgspec.to_builtins(value)])
    else:
        print_parts(parts(), wide=output == "wide")


def print_documents(documents: Sequence[dict[str, Any]], output: str) -> None:
    """Print documents for `kubectl apply -f -`: as a YAML stream, or in JSON as one List."""
    if output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": list(documents)})
    elif documents:
        print_yaml(documents)


def print_json(value: Any) -> None:
    """Print one value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_yaml(documents: Sequence[Any]) -> None:
    """Print values as YAML documents."""
    from mooring.api.yaml_writer import documents_text

    click.echo(documents_text(documents), nl=False)


class Screen:
    """The properties of an output stream: its width in columns (None: unlimited), and whether it supports colors."""

    def __init__(self, stream: TextIO) -> None:
        terminal = stream.isatty()
        self.width = shutil.get_terminal_size().columns if terminal else None
        self._colors = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._blocks = terminal and (stream.encoding or "utf-8").lower().startswith("utf")

    def heading(self, text: str) -> str:
        """Return a heading, in bold on a terminal."""
        return click.style(text, bold=True) if self._colors else text

    def bar(self, bar: Bar) -> str:
        """Return a bar, in color on a terminal."""
        text, filled = bar_text(bar), bar_tenths(bar)
        if self._blocks:
            text = text.replace("#", "█", filled).replace(".", "░", 10 - filled)
        if not self._colors:
            return text
        color = "red" if bar.share >= _FULL else "yellow" if bar.share >= _BUSY else "green"
        return f"{click.style(text[:filled], fg=color)}{click.style(text[filled:10], dim=True)}{text[10:]}"


def print_parts(parts: Sequence[Part], stream: TextIO | None = None, *, wide: bool = False) -> None:
    """Print the parts of a report. On a terminal, fit them to its width, with colors unless $NO_COLOR is set."""
    stream = stream if stream is not None else sys.stdout
    screen = Screen(stream)
    stream.write("\n\n".join("\n".join(part_lines(part, screen, wide=wide)) for part in parts) + "\n")


def plain(part: Part) -> str:
    """Return a part as plain text of any width."""
    return "\n".join(part_lines(part, Screen(io.StringIO())))


def part_lines(part: Part, screen: Screen, *, wide: bool = False) -> list[str]:
    """Return the lines of a part for a screen."""
    match part:
        case str():
            return wrap(part, screen.width)
        case Grid():
            return _grid_lines(part, screen, wide=wide)
        case Listing():
            lines = [screen.heading(part.title.upper())]
            for head, body in part.items:
                lines += wrap(head, screen.width)
                lines += [f"  {line}" for line in wrap(body, screen.width and screen.width - 2)]
            return lines


def _grid_lines(given: Grid, screen: Screen, *, wide: bool) -> list[str]:
    grid, layout = fit(given, screen.width, wide=wide)
    lines = [screen.heading(line) for line in (*wrap(grid.title.upper(), screen.width), *layout.header())]
    for row in grid.rows:
        lines += layout.row(row, screen.bar)
    if grid.footer:
        lines += wrap(grid.footer, screen.width)
    if layout.left_out:
        lines += wrap(f"Not shown: {', '.join(layout.left_out)}. `-o wide` shows all.", screen.width)
    return lines
