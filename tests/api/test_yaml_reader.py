"""Tests of reading YAML documents: values, errors, lines and the use of libyaml."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api import yaml_reader
from mooring.api.yaml_composer import compose_with_goyaml_scanner
from mooring.api.yaml_nodes import ReadError, plain
from mooring.api.yaml_reader import find_line, read_documents, read_node, read_yaml


def read(text):
    return list(read_documents(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", "a"),
        ("'1'", "1"),
        ("1", 1),
        ("-1", -1),
        ("1_000", 1000),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b101", 5),
        ("1.5", 1.5),
        ("3.0", 3),
        ("1e3", 1000),
        ("08", 8),
        ("12:30", "12:30"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z"),
        ("true", True),
        ("yes", True),
        ("OFF", False),
        ("~", None),
        ("null", None),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("!!int 7", 7),
        ("100m", "100m"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        ("+", "+"),
        ("0x", "0x"),
        ("[1, [a], {b: c}]", [1, ["a"], {"b": "c"}]),
        ("{1: a, true: b, x: c}", {"1": "a", "true": "b", "x": "c"}),
        ("{a: 1, a: 2}", {"a": 2}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("d: {<<: [{a: 1}, {a: 2, b: 2}]}", {"d": {"a": 1, "b": 2}}),
        ("k: !!map {a: 1}", {"k": {"a": 1}}),
        ("a: &x b\n*x : 2", {"a": "b", "b": 2}),
        ("&x a: 1\nb: *x", {"a": 1, "b": "a"}),
        ("", None),
    ],
)
def test_values(text, value):
    assert read(text) == ([value] if text else [])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: [1\nb: 2", 2, "not valid YAML"),
        ("a: 1\n  b: 2", 2, "not valid YAML"),
        ("\n" * 4 + "a: *x", 5, r"the alias \*x has no anchor"),
        ("a: &x [*x]", 1, "contains itself"),
        ("a:\n- !!int x", 2, "the tag !!int does not fit 'x'"),
        ("? {a: 1}\n: 2", 1, "a key must be a single value"),
        ("? ~\n: 2", 1, "a key must be text"),
        ("a: &x [1]\n*x : 2", 1, "a key must be a single value"),
        ("a: {<<: 3}", 1, "value of << must be a mapping"),
        ("[" * 100_000, 1, "nested more than 200 levels"),
        ("- " * 5_000, 1, "nested more than 200 levels"),
        ("a\x00b", 1, "the control character"),
        ("\ud800", 1, "the control character"),
        ("a: 1\n---\n%TAG\n---\nb: 2", 3, "not valid YAML"),
        ("a: 1\n---\nb: !!int x\n---\n", 3, "the tag !!int does not fit 'x'"),
        ("a: 1\n---\nb: 'x\n---\nc: 1\n", 4, "found a document separator"),
    ],
)
def test_errors_report_the_line(text, line, message):
    with pytest.raises(ReadError, match=message) as caught:
        read(text)
    assert caught.value.line == line


def test_aliases_that_expand_too_much_are_rejected():
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 80)]
    with pytest.raises(ReadError, match="aliases expand the document too much"):
        read("\n".join(levels))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a: 1\n---\n---\n# nothing\n---\nb: 2\n", [{"a": 1}, None, None, {"b": 2}]),
        ("a: 1\n...\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("--- a\n--- |\n x\n---", ["a", "x\n", None]),
        ("a: 1\n---\nb: !!str 2\n---\nc: 3\n", [{"a": 1}, {"b": "2"}, {"c": 3}]),
        ("%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ('{"a": "\\/"}', [{"a": "/"}]),
        ("{a: 1}", [{"a": 1}]),
        ("\r\na: 1\r\n---\r\nb: 2\r\n", [{"a": 1}, {"b": 2}]),
        ("# comment\n", []),
    ],
)
def test_documents(text, values):
    assert read(text) == values


def test_the_first_document_can_be_read_alone():
    assert plain(read_yaml("a: 1\n---\n}{ not read\n")) == {"a": 1}
    assert plain(read_yaml("")) is None
    assert plain(read_node('{"a": "\\/"}')) == {"a": "/"}
    assert plain(read_node("{a: 1}")) == {"a": 1}


PIECES = st.sampled_from(
    [*"-:,[]{}#&*!|>'\"%@`?\n\t ~\\/ab1.", ": ", "- ", "\n  ", "&a ", "*a", "<<: ", "yes", "é", "---\n", "...\n",
     "\r\n", "a: b\n", "- a\n", "? ", "[a, b]", "{a: b}", "|\n", "1e400", "\\/", "\u2028"]
)  # fmt: skip


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=20).map("".join))
def test_libyaml_never_changes_the_result(text):
    def outcome(documents):
        try:
            return json.dumps([plain(node) for node in documents])
        except ReadError as error:
            return str(error), error.line

    expected = outcome(compose_with_goyaml_scanner(text))
    assert outcome(yaml_reader._nodes(text)) == expected
    try:
        values = yaml_reader._quick_values(text)
    except yaml_reader._NotOrdinary:
        return
    assert json.dumps(values) == expected


TEXT = """\
kind: A
spec:
  items:
  - name: one
  - name: two
    ports: {a: 1,
      b: 2}
---
kind: B
"""


@pytest.mark.parametrize(
    ("document", "steps", "line"),
    [
        (0, ("kind",), 1),
        (0, ("spec", "items", 0, "name"), 4),
        (0, ("spec", "items", 1, "name"), 5),
        (0, ("spec", "items", 1, "ports", "b"), 7),
        (0, ("spec", "items", 1, "missing"), 5),
        (0, ("spec", "items", 7), 3),
        (0, (), 1),
        (1, ("kind",), 9),
        (2, ("kind",), None),
    ],
)
def test_lines(document, steps, line):
    assert find_line(TEXT, document, steps) == line


def test_lines_of_json():
    assert find_line('{\n "a": "\\/",\n "b": 1}', 0, ("b",)) == 3
