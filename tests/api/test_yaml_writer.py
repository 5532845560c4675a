"""Tests of writing YAML that Kubernetes reads back as the same data."""

import pytest

from mooring.api.yaml_nodes import plain
from mooring.api.yaml_reader import read_documents, read_yaml
from mooring.api.yaml_writer import documents_text, yaml_text


@pytest.mark.parametrize(
    "text", ["y", "n", "0o10", "1e3", "2001-01-01", "a\nb\n", "a\n  b", "\u2028", "\ufeffa", " a", "<<"]
)
def test_text_is_read_back_as_text(text: str) -> None:
    assert plain(read_yaml(yaml_text({"a": text, "b": [text]}))) == {"a": text, "b": [text]}


def test_documents_have_blocks_and_no_aliases() -> None:
    shared = {"script": "one\ntwo\n", "name": "n"}
    text = documents_text([{"a": shared, "b": shared}, {"c": 1}])
    assert list(read_documents(text)) == [{"a": shared, "b": shared}, {"c": 1}]
    assert "script: |\n    one\n    two\n" in text
    assert "name: 'n'" in text
    assert "&" not in text
