"""A chart of the trials of a search, as SVG."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from xml.sax.saxutils import escape

import msgspec

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _MARGIN = 640, 400, 70, 50, 50, 20
#: The number of labels of an axis.
_TICKS = 5
_TRIAL, _BEST, _PRESENT = "#bbb", "#d62728", "#1f77b4"


class Point(msgspec.Struct, frozen=True):
    """A trial: its number and its place."""

    number: int
    x: float
    y: float


class _Axis:
    """A range of values and the pixels that they are drawn at."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low = min(values)
        self._span = max(values) - self._low or 1.0
        self._start, self._size = start, end - start

    def pixel(self, value: float) -> float:
        """Return where a value is drawn."""
        return self._start + (value - self._low) / self._span * self._size

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the pixels and texts of the labels."""
        for number in range(_TICKS):
            value = self._low + self._span * number / (_TICKS - 1)
            yield self.pixel(value), f"{value:.4g}"


def draw(x_title: str, y_title: str, points: Sequence[Point], best: Collection[int], present: int) -> str:
    """Return a chart with the trials, the ``best`` ones, and the ``present`` configuration in different colors."""
    bottom = _HEIGHT - _BOTTOM
    across = _Axis([each.x for each in points], _LEFT + _MARGIN, _WIDTH - _MARGIN)
    up = _Axis([each.y for each in points], bottom - _MARGIN, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f"<title>{escape(y_title)} by {escape(x_title)}</title><style>text{{font-size:12px}}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<path d="M{_LEFT} {_TOP - 10}V{bottom}H{_WIDTH - 10}" stroke="#888" fill="none"/>',
        f'<text x="{_WIDTH / 2:.0f}" y="{_HEIGHT - 10}" text-anchor="middle">{escape(x_title)}</text>',
        f'<text transform="translate(14 {_HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>',
    ]
    for number, (text, color) in enumerate((("trial", _TRIAL), ("best", _BEST), ("present configuration", _PRESENT))):
        x = _LEFT + 90 * number
        parts.append(
            f'<rect x="{x}" y="12" width="10" height="10" fill="{color}"/><text x="{x + 15}" y="21">{text}</text>'
        )
    for pixel, text in across.ticks():
        parts.append(f'<text x="{pixel:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>')
    for pixel, text in up.ticks():
        parts.append(f'<path d="M{_LEFT} {pixel:.1f}H{_WIDTH - 10}" stroke="#eee"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{pixel + 4:.1f}" text-anchor="end">{text}</text>')
    for point in sorted(points, key=lambda each: (each.number == present, each.number in best)):
        color = _PRESENT if point.number == present else _BEST if point.number in best else _TRIAL
        place = f'cx="{across.pixel(point.x):.1f}" cy="{up.pixel(point.y):.1f}" r="{3.5 if color == _TRIAL else 5.5}"'
        label = f"trial {point.number}: {point.x:.4g}, {point.y:.4g}"
        parts.append(f'<circle {place} fill="{color}"><title>{label}</title></circle>')
    return "\n".join([*parts, "</svg>", ""])
