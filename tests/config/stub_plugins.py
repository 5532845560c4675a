"""The four out-of-tree plugins that the golden configuration files may name; they take arguments of any shape."""

from __future__ import annotations

from typing import Any

from mooring.framework import Plugin


class NodeCRDResourceFit(Plugin):
    """Serves filter and score."""

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        return None

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


class ScoreByName(Plugin):
    """Serves score."""

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


class ScoreByNameLength(Plugin):
    """Serves score."""

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


class BlockAll(Plugin):
    """Serves preFilter."""

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> str:
        return "blocked"
