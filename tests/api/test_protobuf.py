"""Kubernetes' protobuf, written: the same bytes as Kubernetes' own types make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.codec import decode_json
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.protobuf import ProtobufError, decode_message, encode_list, encode_message, encode_object

HERE = Path(__file__).parent / "protobuf"
CASES = [
    pytest.param(text, bytes.fromhex(wanted), id=f"{json.loads(text)['kind']}-{len(wanted) // 2}")
    for text, wanted in zip(
        (HERE / "objects.jsonl").read_text().splitlines(), (HERE / "objects.hex").read_text().split(), strict=True
    )
]


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_documents_are_written_as_go_writes_them(text: str, wanted: bytes) -> None:
    document = json.loads(text)
    assert encode_message(f"core.{document['kind']}", document) == wanted


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_structs_are_written_as_go_writes_them(text: str, wanted: bytes) -> None:
    kind: Any = Pod if json.loads(text)["kind"] == "Pod" else Node
    assert encode_object(decode_json(text, kind)) == wanted


def test_a_list_is_its_items_after_an_empty_header() -> None:
    nodes = [encode_message("core.Node", {"metadata": {"name": name}}) for name in ("a", "b")]
    assert decode_message(encode_list(nodes), "core.NodeList") == {
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    }


texts = st.text(max_size=20)
metadata = st.fixed_dictionaries(
    {"name": texts.filter(bool)},
    optional={
        "labels": st.dictionaries(texts, texts, min_size=1, max_size=3),
        "finalizers": st.lists(texts, min_size=1, max_size=2),
        "deletionGracePeriodSeconds": st.integers(-(2**63), 2**63 - 1),
        "creationTimestamp": st.sampled_from(["2026-01-02T03:04:05Z", "1969-12-31T23:59:59Z"]),
    },
)


@given(metadata)
def test_what_is_written_can_be_read(document: dict[str, Any]) -> None:
    pod = {"metadata": document, "spec": {"priority": 0, "hostUsers": False}}
    assert decode_message(encode_message("core.Pod", pod), "core.Pod") == pod


def test_a_message_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ProtobufError):
        decode_message(encode_message("core.Node", {"metadata": {"name": "n"}})[:-1], "core.Node")
