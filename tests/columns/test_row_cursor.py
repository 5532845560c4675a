"""Row cursors report each changed row once, and ask for a full read when rows were renumbered."""

from __future__ import annotations

import pytest

from mooring.columns.row_cursor import ChangeLog
from mooring.columns.table import NodeTable
from mooring.testing import make_node, make_pod


def table_of(*names: str) -> NodeTable:
    table = NodeTable()
    for name in names:
        table.add_node(make_node(name).obj())
    return table


def test_the_log_lists_each_row_once() -> None:
    log = ChangeLog()
    start = log.position
    for row in (3, 1, 3):
        log.mark(row)
    assert log.since(start, 10) == [1, 3]
    assert log.since(log.position, 10) == []
    assert log.since(start, 2) is None


def test_the_log_forgets_old_changes() -> None:
    log = ChangeLog()
    start = log.position
    for row in range(1 << 17):
        log.mark(row % 7)
    assert log.since(start, 1 << 20) is None
    recent = log.position
    log.mark(5)
    assert log.since(recent, 1) == [5]


def test_a_new_cursor_asks_for_all_rows() -> None:
    cursor = table_of("a", "b").cursor()
    assert not cursor.current
    assert cursor.changed(10) is None


def test_changes_are_reported_until_the_cursor_advances() -> None:
    table = table_of("a", "b")
    cursor = table.cursor()
    cursor.advance()
    assert cursor.current
    table.add_pod(make_pod("p").node("b").obj())
    assert cursor.changed(10) == [1]
    assert cursor.changed(10) == [1]
    cursor.advance()
    assert cursor.changed(10) == []


def test_a_node_cursor_ignores_pods() -> None:
    table = table_of("a", "b")
    cursor, version = table.node_cursor(), table.nodes_version
    cursor.advance()
    table.add_pod(make_pod("p").node("b").obj())
    assert cursor.current
    assert table.nodes_version == version
    table.touch("b")
    assert cursor.changed(10) == [1]
    assert table.nodes_version > version


@pytest.mark.parametrize("removed", ["a", "c"])
def test_removing_a_node_resets_a_cursor(removed: str) -> None:
    table = table_of("a", "b", "c")
    cursor, version = table.node_cursor(), table.nodes_version
    cursor.advance()
    table.remove_node(removed)
    assert not cursor.current
    assert cursor.changed(10) is None
    assert table.nodes_version > version


def test_a_cursor_that_survives_a_resize_lists_moved_and_added_rows() -> None:
    table = table_of("a", "b", "c")
    cursor = table.node_cursor(survives_resize=True)
    cursor.advance()
    table.touch("c")
    table.remove_node("a")  # c moves to row 0, so that row 2 is gone
    assert cursor.changed(10) == [0]
    table.add_node(make_node("d").obj())
    assert cursor.changed(10) == [0, 2]


def test_marked_nodes_count_as_changed_for_this_cursor_only() -> None:
    table = table_of("a", "b")
    cursor, other = table.node_cursor(), table.node_cursor()
    cursor.advance()
    other.advance()
    cursor.mark("b")
    cursor.mark("unknown")
    assert not cursor.current
    assert cursor.changed(10) == [1]
    assert other.current
    cursor.advance()
    assert cursor.current


def test_reset_makes_all_rows_count_as_changed() -> None:
    table = table_of("a")
    cursor = table.cursor()
    cursor.advance()
    cursor.reset()
    assert cursor.changed(10) is None


def test_a_cursor_tells_changes_of_nodes_from_those_of_pods() -> None:
    table = table_of("a", "b")
    cursor = table.cursor()
    assert not cursor.nodes_current
    cursor.advance()
    table.add_pod(make_pod("p").node("a").obj())
    assert cursor.nodes_current
    assert not cursor.current
    table.touch("b")
    assert not cursor.nodes_current
    assert cursor.changed(2) == [0, 1]
    cursor.advance()
    assert cursor.nodes_current
