"""Levels of JSON that are nested too deeply become null, and nothing else changes."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.codec import decode_json
from mooring.api.json_depth import prune_json
from mooring.api.pod import Pod

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def pruned(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        return [pruned(each, depth - 1) for each in value] if depth else None
    if isinstance(value, dict):
        return {key: pruned(each, depth - 1) for key, each in value.items()} if depth else None
    return value


@given(VALUES, st.integers(0, 4), st.sampled_from([None, 2]))
def test_it_equals_a_plain_implementation(value: Any, depth: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    assert json.loads(prune_json(text, depth)) == pruned(value, depth)


@pytest.mark.parametrize("text", [b"[" * 300, b"]" * 300, b'"', b'{"a":"\\', b"", b"[" * 300 + b'"'])
def test_text_that_is_not_json_stays_invalid(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(prune_json(text))


def test_an_object_with_deep_fields_is_decoded_without_them() -> None:
    deep = b"[" * 200_000 + b"1" + b"]" * 200_000
    started = time.process_time()
    pod = decode_json(b'{"metadata":{"name":"a"},"unknown":' + deep + b',"spec":{"nodeName":"n"}}', Pod)
    assert (pod.name, pod.node_name) == ("a", "n")
    assert time.process_time() - started < 5.0
