"""A pytest plugin: ``pytest_plugins = ["mooring.testing.pytest_plugin"]`` in conftest.py.

It provides the fixture ``plugin_cluster``, and shows the nodes where compared verdicts or scores differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mooring.framework.status import Status
from mooring.testing.harness import compare, verdict_text
from mooring.testing.plugin_cluster import PluginCluster


@pytest.fixture
def plugin_cluster() -> Iterator[PluginCluster]:
    """Provide an embedded cluster with three nodes. Call ``start`` with your plugins."""
    with PluginCluster() as cluster:
        yield cluster


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Return a table of the nodes whose verdicts or scores differ."""
    if op != "==" or not _by_node(left) or not _by_node(right):
        return None
    actual, wanted = _texts(left), _texts(right)
    title = "verdicts" if any(isinstance(each, Status) for each in (*left.values(), *right.values())) else "scores"  # type: ignore[attr-defined]
    return compare(title, wanted, actual) or None


def _by_node(value: object) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(key, str) for key in value)
        and all(isinstance(each, Status | int) and not isinstance(each, bool) for each in value.values())
    )


def _texts(value: Any) -> dict[str, str]:
    return {name: verdict_text(each) if isinstance(each, Status) else str(each) for name, each in value.items()}
