"""The chart of trials."""

from __future__ import annotations

from xml.etree import ElementTree

from mooring.simulation.tuning.chart import Point, draw


def test_a_chart() -> None:
    points = [Point(-1, 5, 5), Point(0, 1, 9), Point(1, 3, 3)]
    root = ElementTree.fromstring(draw("a < b", "y", points, {1}, -1))
    circles = {each[0].text: each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}circle")}
    assert circles == {"trial -1: 5, 5": "#1f77b4", "trial 0: 1, 9": "#bbb", "trial 1: 3, 3": "#d62728"}
    assert draw("x", "y", [Point(0, 1, 1)], (), -1)
