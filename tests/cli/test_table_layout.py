"""Tables fit the width of a terminal, and nothing is cut off."""

from __future__ import annotations

import random

import pytest

from mooring.cli.table_layout import fit, text_width, wrap
from mooring.simulation.report import Bar, Column, Grid

LONG = "research-large-language-models-evaluation"


def lines(grid: Grid, width: int | None, *, wide: bool = False) -> list[str]:
    shown, layout = fit(grid, width, wide=wide)
    return [*layout.header(), *(line for row in shown.rows for line in layout.row(row))]


def test_a_table_that_fits_stays_as_it_is() -> None:
    grid = Grid("T", (Column("name"), Column("count", "right")), [("a", "1"), (LONG, "20")])
    assert lines(grid, 80) == lines(grid, None) == [f"NAME{' ' * 39}COUNT", f"a{' ' * 46}1", f"{LONG}     20"]


def test_text_is_wrapped_between_words_and_names_are_not() -> None:
    grid = Grid(
        "T", (Column("name"), Column("reason")), [(LONG, "node(s) had untolerated taint(s), and more"), ("b", "")]
    )
    assert lines(grid, 66) == [
        f"NAME{' ' * 39}REASON",
        f"{LONG}  node(s) had untolerated",
        f"{' ' * 43}taint(s), and more",
        "b",
    ]


def test_the_least_important_columns_are_left_out_first() -> None:
    columns = (Column("name"), Column("version", rank=2), Column("source", rank=1), Column("state"))
    grid = Grid("T", columns, [(LONG, "v1.2.3-alpha.4", "/opt/plugins/file.py", "running")])
    assert [fit(grid, width)[1].left_out for width in (90, 80, 60)] == [[], ["VERSION"], ["VERSION", "SOURCE"]]
    assert fit(grid, 60, wide=True)[1].left_out == []


def test_empty_columns_are_left_out_before_others() -> None:
    columns = (Column("name"), Column("calls", rank=1), Column("mean", rank=2))
    grid = Grid("T", columns, [(LONG, "", "12.5 us")])
    assert fit(grid, len(LONG) + 10)[1].left_out == ["CALLS"]


def test_rows_and_columns_are_swapped_where_that_helps() -> None:
    plugins = [f"NodeResourcesBalancedAllocation{number}" for number in range(6)]
    columns = (Column("node"), *(Column(each, "right", is_name=True) for each in plugins))
    grid = Grid("T", columns, [(node, *map(str, range(6))) for node in ("node-1", "node-2")], can_swap=True)
    shown = lines(grid, 80)
    assert shown[0].split() == ["node-1", "node-2"]
    assert shown[1].split() == [plugins[0], "0", "0"]
    assert len(shown) == 7
    assert lines(grid, 400)[0].split() == ["NODE", *plugins]


def test_a_row_is_a_list_of_its_cells_at_last() -> None:
    columns = tuple(Column(f"column-{number}") for number in range(12))
    grid = Grid("T", columns, [tuple(f"value-{number}" for number in range(12))])
    assert lines(grid, 40)[:2] == ["COLUMN-0   value-0", "COLUMN-1   value-1"]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 10, ["short"]),
        ("preFilter,filter,score", 12, ["preFilter,", "filter,score"]),
        ("two words\nand a line", 9, ["two words", "and a", "line"]),
        ("ip-10-0-0-23.eu-west-1.compute.internal", 16, ["ip-10-0-0-23.eu-", "west-1.compute.", "internal"]),
        ("NodeResourcesBalancedAllocation", 13, ["NodeResources", "Balanced", "Allocation"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("节点资源不足", 4, ["节点", "资源", "不足"]),
        ("  indented text", 11, ["  indented", "text"]),
        ("", 5, [""]),
    ],
)
def test_wrapping(text: str, width: int, expected: list[str]) -> None:
    assert wrap(text, width) == expected


@pytest.mark.parametrize("seed", range(150))
def test_no_line_is_too_long_and_nothing_is_lost(seed: int) -> None:
    """Any table at any width: the cells can be put together again from what is printed."""
    rng = random.Random(seed)
    words = ["default", "node-7", "queue,", "NodeResourcesFit", "ip-10-0-0-1.compute.internal", "节点", "x" * 70, "a/b"]

    def cell() -> str | Bar:
        if rng.random() < 0.1:
            return Bar(rng.random(), "50%")
        return " ".join(rng.choices(words, k=rng.choice((0, 1, 1, 2, 8))))

    count = rng.randrange(1, 9)
    columns = tuple(Column(rng.choice(words), rng.choice(("left", "right")), rng.randrange(3)) for _ in range(count))
    rows = [tuple(cell() for _ in columns) for _ in range(rng.randrange(1, 4))]
    grid = Grid("T", columns, rows, can_swap=rng.random() < 0.3)
    width = rng.choice((40, 80, 120))
    shown, layout = fit(grid, width, wide=rng.random() < 0.5)
    assert all(text_width(line) <= width for line in layout.header())
    places = [place for place in range(len(shown.columns)) if place in set(layout._places)]
    for row in shown.rows:
        printed = layout.row(row)
        assert all(text_width(line) <= width for line in printed)
        left = "".join("".join(printed).split())
        wanted = "".join("".join(each.split()) for place in places if isinstance(each := row[place], str))
        bars = "".join("#.50% " * 20 for place in places if isinstance(row[place], Bar))
        titles = "".join(shown.columns[place].title.upper() for place in places) if layout._widths is None else ""
        assert sorted(set(wanted) - set(left)) == []
        if not bars and not titles:
            assert sorted(left) == sorted(wanted)
