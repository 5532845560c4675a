"""Documents, anchors, merge keys, repeated keys and broken YAML, as goyaml 2 has them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.yaml_nodes import ReadError, line_of, plain
from mooring.api.yaml_reader import read_yaml
from mooring.config.field_decoder import repeated_keys


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("---\n", None),
        ("---\n---\na: 1\n", None),
        ("a: 1\n---\n}{ not read\n", {"a": 1}),
        ("\ufeffa: 1\n", {"a": 1}),
        ("%YAML 1.1\n---\na: 1\n", {"a": 1}),
        ("--- {a: 1}\n", {"a": 1}),
        ("a:\tb\n", {"a": "b"}),
        ("a: b\t# c\n", {"a": "b"}),
        ("{a:,b: 1}", {"a:": None, "b": 1}),
        ("[a: 1, b]", [{"a": 1}, "b"]),
        ("a: 'it''s'\nb: \"x\\ty\"\n", {"a": "it's", "b": "x\ty"}),
        ('a: "one\\\n  two"\n', {"a": "onetwo"}),
        ("a: one\n  two\n\n  three\n", {"a": "one two\nthree"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: >-\n  x\n  y\n", {"a": "x y"}),
        ("a: |+2\n    x\n\n", {"a": "  x\n\n"}),
        ("y: 1\n1: 2\n1.5: 3\n", {"true": 1, "1": 2, "1.5": 3}),
        ("a: &x {p: 1}\nb: *x\n", {"a": {"p": 1}, "b": {"p": 1}}),
        ("a: &x {p: 1}\nb: {<<: *x, q: 2}\n", {"a": {"p": 1}, "b": {"p": 1, "q": 2}}),
        ("b: {<<: [{p: 1}, {q: 2}]}\n", {"b": {"p": 1, "q": 2}}),
        ("a: {'<<': 1}\n", {"a": {"<<": 1}}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("? a\n: 1\n", {"a": 1}),
        ("a: \u00e9\u2028\nb: 1\n", {"a": "\u00e9", "b": 1}),
    ],
)
def test_documents(text: str, value: Any) -> None:
    assert plain(read_yaml(text)) == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: b: c\n", 1),
        ("a: 1\n\tb: 2\n", 2),
        ("a: [1\n", 2),
        ("a: *nowhere\n", 1),
        ("a: &x [*x]\n", 1),
        ("? [a]\n: 1\n", 1),
        ("~: 1\n", 1),
        ("18446744073709551615: 1\n", 1),
        ("a: {<<: 1}\n", 1),
        ("a: {<<: [1]}\n", 1),
        ("a: 'open\n", 2),
        ('a: "\\q"\n', 1),
        ('a: "\\ud800"\n', 1),
        ('a: "\\u12"\n', 1),
        ("a: |0\n", 1),
        ("a: |\n\tx\n", 2),
        ("%YAML 1.2\n---\na: 1\n", 1),
        ("%FOO bar\n---\na: 1\n", 1),
        ("a: !x!y 1\n", 1),
        ("a: 1\nb: \x01\n", 2),
        ("@a: 1\n", 1),
        ("a: 1\n b: 2\n", 2),
        ("[" * 201, 1),
        ("\n".join("a: [*a]" for _ in range(2)), 1),
    ],
)
def test_what_is_not_yaml(text: str, line: int) -> None:
    with pytest.raises(ReadError) as caught:
        read_yaml(text)
    assert caught.value.line == line


def test_control_characters_after_the_first_document_are_seen_only_nearby() -> None:
    near, far = "a: 1\n---\n\x01\n", "a: 1\n---\n" + "#" * 2000 + "\x01\n"
    with pytest.raises(ReadError):
        read_yaml(near)
    assert plain(read_yaml(far)) == {"a": 1}


def test_an_alias_bomb_is_refused() -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    with pytest.raises(ReadError, match="expand"):
        read_yaml("\n".join(layers))


@pytest.mark.parametrize(
    ("text", "paths", "value"),
    [
        ("a: 1\na: 2\n", ["a"], {"a": 2}),
        ("a: {b: 1, b: 2}\n", ["a.b"], {"a": {"b": 2}}),
        ("- {b: 1, b: 2}\n", ["[0].b"], [{"b": 2}]),
        ("a: &x {p: 1}\nb: {<<: *x, p: 2}\n", ["b.p"], {"a": {"p": 1}, "b": {"p": 2}}),
        ("a: {p: 2, <<: {p: 1}}\n", ["a.p"], {"a": {"p": 1}}),
        ("1: a\n'1': b\n", [], {"1": "b"}),
    ],
)
def test_repeated_keys(text: str, paths: list[str], value: Any) -> None:
    root = read_yaml(text)
    assert [error.path for error in repeated_keys(root)] == paths
    assert plain(root) == value


@pytest.mark.parametrize(
    ("path", "line"), [("a", 1), ("a.b", 2), ("a.b[1]", 4), ("a.b[1].c", 5), ("a.b[7]", 2), ("a.nope.x", 1), ("", 1)]
)
def test_lines_of_fields(path: str, line: int) -> None:
    assert line_of(read_yaml("a:\n  b:\n  - 1\n  - x: 1\n    c: 2\n"), path) == line
