"""JSON text is read strictly, with repeated fields kept and numbers as written."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.json_reader import read_json
from mooring.api.yaml_nodes import Mapping, ReadError, Scalar, compact_json, plain, raw_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (' {"a": [1, 2.5, -0, 1e3, true, false, null, "x"], "b": {}} \n', None),
        ('{"a": "\\u0041\\n\\/\\ud83d\\ude00"}', {"a": "A\n/\U0001f600"}),
        ('{"a": "\\ud800"}', {"a": "\ufffd"}),
        ('{"a": [[], [[]]]}', {"a": [[], [[]]]}),
    ],
)
def test_values(text: str, value: Any) -> None:
    import json

    assert plain(read_json(text)) == (json.loads(text) if value is None else value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": 1,}', 1),
        ("{a: 1}", 1),
        ('{"a" 1}', 1),
        ('{"a": 01}', 1),
        ('{"a": +1}', 1),
        ('{"a": NaN}', 1),
        ('{"a": "\n"}', 1),
        ('{"a": "\\x41"}', 1),
        ('{"a": 1}\n{"b": 2}', 2),
        ('{"a": [1 2]}', 1),
        ('{\n"a": 1\n', 3),
        ('{"a": }', 1),
        ("[" * 300, 1),
        ("", 1),
    ],
)
def test_what_is_not_json(text: str, line: int) -> None:
    with pytest.raises(ReadError) as caught:
        read_json(text)
    assert caught.value.line == line


def test_repeated_fields_numbers_lines_and_source() -> None:
    root = read_json('{\n "a": 1.0,\n "a": {"b" : [ 1 ]}}')
    assert isinstance(root, Mapping)
    assert [(entry.key, entry.line) for entry in root.entries] == [("a", 2), ("a", 3)]
    assert root.entries[0].value == Scalar("number", "1.0", 2)
    assert raw_json(root.entries[1].value) == '{"b" : [ 1 ]}'
    assert compact_json('{"b c" : [ "x \\" y" ]}') == '{"b c":["x \\" y"]}'
