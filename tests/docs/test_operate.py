"""The dashboard and the alerts: they are well-formed, and every metric and label in them is one that there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

import yaml

from tests.docs.commands import ROOT

#: Names as the code writes them, and what an exposition puts behind them.
_PREFIX: Final = r"(?:scheduler|mooring|volcano|rest_client|workqueue|leader_election)"
_NAMED: Final = re.compile(rf'"({_PREFIX}_[a-z0-9_]+)"')
_USED: Final = re.compile(rf"\b{_PREFIX}_[a-z0-9_]+")
_ENDINGS: Final = ("", "_total", "_bucket", "_sum", "_count")


def known() -> set[str]:
    sources = [path.read_text() for path in (ROOT / "src" / "mooring").rglob("*.py")]
    return {name + ending for text in sources for name in _NAMED.findall(text) for ending in _ENDINGS}


def expressions() -> Iterator[str]:
    for panel in json.loads((ROOT / "docs/operate/dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for group in yaml.safe_load((ROOT / "docs/operate/alerts.yaml").read_text())["spec"]["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_every_metric_exists() -> None:
    used = {name for each in expressions() for name in _USED.findall(each)}
    assert len(used) > 15
    assert used - known() == set()


def test_the_page_names_metrics_that_exist() -> None:
    used = set(_USED.findall((ROOT / "docs/operate.md").read_text()))
    assert used - known() == set()


def test_every_selector_names_the_job() -> None:
    """kube-scheduler exports metrics of the same names."""
    for each in expressions():
        selectors = re.findall(rf"\b(?:{_PREFIX}|process)_[a-z0-9_]+(\{{[^}}]*\}})?", each)
        assert selectors
        assert all('job="mooring"' in selector for selector in selectors), each


def test_expressions_are_closed() -> None:
    for each in expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert each.count(opening) == each.count(closing), each


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in json.loads((ROOT / "docs/operate/dashboard.json").read_text())["panels"]]
    taken = {
        (place["x"] + dx, place["y"] + dy) for place in places for dx in range(place["w"]) for dy in range(place["h"])
    }
    assert len(taken) == sum(place["w"] * place["h"] for place in places)
