"""YAML is read as Kubernetes reads it, safely, and lines are found."""

import pytest

from mooring.api.yaml_reader import YamlError, find_line, read_documents


def read(text):
    return [document.value for document in read_documents(text)]


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


def test_several_documents():
    assert read("a: 1\n---\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, None, None, {"b": 2}]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: [1\nb: 2", 2, "not valid YAML"),
        ("a: 1\n  b: 2", 2, "not valid YAML"),
        ("\n" * 4 + "a: *x", 5, r"the alias \*x has no anchor"),
        ("a: &x [*x]", 1, "contains itself"),
        ("a:\n- !!int x", 2, "cannot be read with the tag"),
        ("!!python/object:os.system x", 1, "cannot be read with the tag"),
        ("!foo {a: 1}", 1, "tag '!foo' is not supported"),
        ("? {a: 1}\n: 2", 1, "a key must be a single value"),
        ("? ~\n: 2", 1, "a key is missing"),
        ("a: &x [1]\n*x : 2", 2, "a key must be text"),
        ("a: {<<: 3}", 1, "merged with << must be a mapping"),
        ("[" * 100_000, 1, "nested more than 100 levels"),
        ("- " * 5_000, 1, "nested more than 100 levels"),
        ("a\x00b", None, "not valid YAML"),
        ("\ud800", None, "not valid YAML"),
    ],
)
def test_errors_say_where(text, line, message):
    with pytest.raises(YamlError, match=message) as caught:
        read(text)
    assert caught.value.line == line


def test_aliases_do_not_multiply():
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 80)]
    (document,) = read("\n".join(levels))
    assert document["a79"][0] is document["a79"][1]


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
        (0, ("spec", "items", 7), 4),
        (0, (), 1),
        (1, ("kind",), 9),
        (2, ("kind",), None),
    ],
)
def test_lines(document, steps, line):
    assert find_line(TEXT, document, steps) == line
