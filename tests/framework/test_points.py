"""Extension points: which ones a class serves, and errors in its methods."""

from __future__ import annotations

from mooring.framework import Plugin
from mooring.framework.points import CONFIG_POINTS, POINTS, check_methods, points_of


def test_every_configured_point_has_a_method() -> None:
    assert {point.config for point in POINTS} - {""} == set(CONFIG_POINTS)


def test_points_follow_from_methods() -> None:
    class Both(Plugin):
        def filter_nodes(self, state, pod, nodes):
            return None

        def unreserve(self, state, pod, node_name):
            return None

    assert points_of(Both) == {"filter", "reserve"}
    assert check_methods(Both) == []


def test_a_wrong_signature_is_reported() -> None:
    class Wrong(Plugin):
        def score(self, pod, node):
            return 0

    (problem,) = check_methods(Wrong)
    assert problem.message == "'score' takes (self, pod, node); write 'def score(self, state, pod, node)'"
    assert problem.line > 0


def test_a_misspelled_method_is_reported() -> None:
    class Misspelled(Plugin):
        def filter_node(self, state, pod, nodes):
            return None

    (problem,) = check_methods(Misspelled)
    assert "did you mean" in problem.message


def test_async_is_allowed_only_where_a_plugin_may_wait() -> None:
    class Waiting(Plugin):
        async def pre_bind(self, state, pod, node_name):
            return None

        async def filter(self, state, pod, node):
            return None

    (problem,) = check_methods(Waiting)
    assert problem.message.startswith("'filter' must not be async")
