"""Printing results as tables, JSON and YAML."""

from __future__ import annotations

import io
import json

import pytest
import yaml

from mooring.cli.output import print_documents, print_parts, print_result, table
from mooring.simulation.report import Bar, Column, Grid, Listing


class Screen(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


GRID = Grid("Title", (Column("a"), Column("b", "right"), Column("c")), [("x", "1", Bar(0.95, "95%"))], "more")


def test_only_a_terminal_gets_colors() -> None:
    pytest.importorskip("rich")
    parts = [GRID, Listing("List", [("head", "[body]")]), "text"]
    screen, pipe = Screen(), io.StringIO()
    print_parts(parts, screen)
    print_parts(parts, pipe)
    assert "█████████" in screen.getvalue()
    assert "[body]" in screen.getvalue()
    assert pipe.getvalue() == ("TITLE\nA  B  C\nx  1  #########. 95%\nmore\n\nLIST\nhead\n  [body]\n\ntext\n")


@pytest.mark.parametrize(("share", "drawn"), [(0, 0), (0.001, 1), (0.5, 5), (0.96, 9), (1, 10), (1.3, 10), (-1, 0)])
def test_a_bar_is_empty_or_full_only_at_the_limits(share: float, drawn: int) -> None:
    stream = io.StringIO()
    print_parts([Grid("T", (Column("a"),), [(Bar(share, ""),)])], stream)
    assert stream.getvalue().count("#") == drawn


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_values_are_printed_for_programs(capsys: pytest.CaptureFixture[str], output: str) -> None:
    value = {"name": "Zoë", "lines": "a\nb\n", "numbers": [1, 2]}
    print_result(value, output, list)
    text = capsys.readouterr().out
    assert yaml.safe_load(text) == value
    assert "Zoë" in text


def test_a_table_is_made_only_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("a", "1"), ("long name", "20")]
    print_result(None, "table", lambda: [table("Things", ("Name", "Count"), rows, right={"Count"}, footer="end")])
    assert capsys.readouterr().out == "THINGS\nNAME       COUNT\na              1\nlong name     20\nend\n"


def test_documents_are_a_yaml_stream_without_anchors_or_a_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    shared = {"app": "web"}
    documents = [{"kind": "A", "labels": shared}, {"kind": "B", "labels": shared}]
    print_documents(documents, "yaml")
    text = capsys.readouterr().out
    assert "&" not in text
    assert list(yaml.safe_load_all(text)) == documents
    print_documents(documents, "json")
    assert json.loads(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": documents}
    print_documents([], "yaml")
    assert capsys.readouterr().out == ""
