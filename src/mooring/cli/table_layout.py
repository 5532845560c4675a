"""The layout of a table within the width of a terminal, without truncated text.

Hand-written because table libraries truncate cells, which makes names ambiguous. A table that is too wide is made to
fit in steps: text is wrapped between words; the least important columns are omitted; rows and columns are swapped, if
the table allows it; long names continue on the next line; finally, every row becomes a list of its cells.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from mooring.simulation.report import Bar, Cell, Column, Grid

_GAP: Final = "  "
_BAR_WIDTH: Final = 10
#: The minimum width of text columns while other columns can still be omitted.
_COMFORTABLE: Final = 20
#: The minimum width of a column.
_NARROWEST: Final = 8
#: A word with the punctuation and spaces after it.
_WORDS: Final = re.compile(r"[^\s,;]+[,;]*\s*|[\s,;]+")
#: The preferred positions to break a name.
_BREAKS: Final = re.compile(r"(?<=[-./_:@=])|(?<=[a-z0-9])(?=[A-Z])")


class Layout:
    """The visible columns of a table, their widths, and the form of its rows."""

    def __init__(self, grid: Grid, places: Sequence[int], widths: Sequence[int] | None, width: int | None) -> None:
        """``places`` are the visible columns. Without ``widths``, every row is a list of its cells."""
        self._columns = grid.columns
        self._places = places
        self._widths = widths
        self._width = width
        #: The titles of the omitted columns.
        self.left_out = [_title(column) for place, column in enumerate(grid.columns) if place not in set(places)]

    def header(self) -> list[str]:
        """Return the lines with the titles."""
        if self._widths is None:
            return []
        return self._join([_title(self._columns[place]) for place in self._places], _text)

    def row(self, cells: Sequence[Cell], draw: Callable[[Bar], str] | None = None) -> list[str]:
        """Return the lines of a row. ``draw`` draws bars, in the width of `bar_text`."""
        shown = [cells[place] for place in self._places]
        if self._widths is not None:
            return self._join(shown, draw or _text)
        titles = [_title(self._columns[place]) for place in self._places]
        width = self._width or sum(map(text_width, titles))
        indent = min(max(map(text_width, titles)) + len(_GAP), width // 2)
        lines: list[str] = []
        for title, cell in zip(titles, shown, strict=True):
            left = wrap(title, indent - len(_GAP))
            right = [(draw or _text)(cell)] if isinstance(cell, Bar) else wrap(cell, width - indent)
            if cell:
                lines += [
                    (_padded(head, indent) + text).rstrip() for head, text in zip_longest(left, right, fillvalue="")
                ]
        return [*lines, ""]

    def _join(self, cells: Sequence[Cell], draw: Callable[[Bar], str]) -> list[str]:
        assert self._widths is not None
        wrapped = [
            [bar_text(c)] if isinstance(c, Bar) else wrap(c, w) for c, w in zip(cells, self._widths, strict=True)
        ]
        lines = []
        for number in range(max(map(len, wrapped), default=0)):
            parts = []
            for place, cell, texts, width in zip(self._places, cells, wrapped, self._widths, strict=True):
                text = texts[number] if number < len(texts) else ""
                shown = draw(cell) if isinstance(cell, Bar) and text else text
                padding = " " * (width - text_width(text))
                parts.append(padding + shown if self._columns[place].align == "right" else shown + padding)
            lines.append(_GAP.join(parts).rstrip())
        return lines


def fit(grid: Grid, width: int | None, *, wide: bool = False) -> tuple[Grid, Layout]:
    """Return the layout of a table for a width (None: unlimited), and the table, whose rows may be swapped.

    With ``wide``, no column is omitted.
    """
    everything = range(len(grid.columns))
    natural = [_natural(grid, place) for place in everything]
    if width is None or _total(natural) <= width:
        return grid, Layout(grid, everything, natural, width)
    titles = [_longest_word([_title(column)]) for column in grid.columns]
    words = [_longest_word(row[place] for row in grid.rows) for place in everything]
    bars = [_longest_word(row[place] for row in grid.rows if isinstance(row[place], Bar)) for place in everything]

    def narrowed(places: Sequence[int], narrowest: Callable[[int], int]) -> list[int] | None:
        return _shrink([natural[each] for each in places], [narrowest(each) for each in places], width)

    places: Sequence[int] = everything
    for places in _choices(grid, wide=wide):
        if widths := narrowed(places, lambda each: max(words[each], titles[each], min(natural[each], _COMFORTABLE))):
            return grid, Layout(grid, places, widths, width)
    if widths := narrowed(places, lambda each: max(words[each], titles[each])):
        return grid, Layout(grid, places, widths, width)
    if grid.can_swap:
        return fit(_swapped(grid), width, wide=wide)
    # First break only titles, then also names.
    least = [min(natural[each], _NARROWEST) for each in everything]
    widths = narrowed(places, lambda each: max(words[each], least[each]))
    widths = widths or narrowed(places, lambda each: max(bars[each], least[each]))
    return grid, Layout(grid, places, widths, width)


def _choices(grid: Grid, *, wide: bool) -> Iterator[list[int]]:
    """Yield the columns to show: first all, then without empty ones, then without the least important ones.

    The first column is always shown.
    """
    places = list(range(len(grid.columns)))
    yield places
    if wide:
        return
    places = [each for each in places if not each or not grid.columns[each].rank or any(row[each] for row in grid.rows)]
    yield places
    while ranked := [each for each in places if each and grid.columns[each].rank]:
        places.remove(max(ranked, key=lambda each: (grid.columns[each].rank, each)))
        yield list(places)


def _shrink(natural: Sequence[int], narrowest: Sequence[int], width: int) -> list[int] | None:
    """Return widths that fit, by applying the same maximum to all columns; None if that is impossible."""
    if _total(narrowest) > width:
        return None

    def limited(limit: int) -> list[int]:
        return [max(least, min(each, limit)) for each, least in zip(natural, narrowest, strict=True)]

    limit = bisect.bisect_right(range(max(natural)), width, key=lambda limit: _total(limited(limit)))
    widths = limited(limit - 1)
    for place, each in enumerate(natural):
        widths[place] += min(each - widths[place], width - _total(widths))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _natural(grid: Grid, place: int) -> int:
    lines = [line for row in grid.rows for line in _text(row[place]).split("\n")]
    return max(map(text_width, (_title(grid.columns[place]), *lines)))


def _longest_word(cells: Iterable[Cell]) -> int:
    words = [word for cell in cells for word in ([bar_text(cell)] if isinstance(cell, Bar) else _WORDS.findall(cell))]
    return max((text_width(word.rstrip()) for word in words), default=0)


def _swapped(grid: Grid) -> Grid:
    """Return a table with a row for each column, and a column for each row, headed by its first cell."""
    others = grid.columns[1:]
    names = [_text(row[0]) for row in grid.rows]
    align = others[0].align if others else "left"
    columns = (Column(""), *(Column(name, align, is_name=True) for name in names))
    rows = [(column.title, *(row[place] for row in grid.rows)) for place, column in enumerate(others, start=1)]
    return Grid(grid.title, columns, rows, grid.footer)


def _title(column: Column) -> str:
    return column.title if column.is_name else column.title.upper()


def _padded(text: str, width: int) -> str:
    return text + " " * (width - text_width(text))


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else bar_text(cell)


def bar_text(bar: Bar) -> str:
    """Return a bar as plain text."""
    filled = bar_tenths(bar)
    return f"{'#' * filled}{'.' * (_BAR_WIDTH - filled)} {bar.text}"


def bar_tenths(bar: Bar) -> int:
    """Return the number of tenths to draw: 0 only for an empty bar, 10 only for a full one."""
    if bar.share <= 0:
        return 0
    if bar.share >= 1:
        return _BAR_WIDTH
    return min(max(round(bar.share * _BAR_WIDTH), 1), _BAR_WIDTH - 1)


def text_width(text: str) -> int:
    """Return the width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def wrap(text: str, width: int | None) -> list[str]:
    """Return the lines of a text, none wider than ``width``. A word that is too long continues on the next line."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if width is None or text_width(paragraph) <= width:
            lines.append(paragraph)
            continue
        line = ""
        for word in _WORDS.findall(paragraph):
            if line and text_width(line + word.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            rest = word
            while text_width(rest.rstrip()) > width:
                end = _break(rest, width)
                lines.append(rest[:end])
                rest = rest[end:]
            line += rest
        lines.append(line.rstrip())
    return lines


def _break(word: str, width: int) -> int:
    """Return the position at which to break a long word."""
    end = 1
    while end < len(word) and text_width(word[: end + 1]) <= width:
        end += 1
    better = [found.start() for found in _BREAKS.finditer(word) if end // 2 < found.start() <= end]
    return better[-1] if better else end
