"""Header blocks: what is encoded and read without hpack is the same as with it."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.http2_frames import ProtocolViolation
from mooring.kube.http2_headers import USUAL_STATUSES, decode_headers, encode_head, encode_request, success_status
from tests.kube import http2_server as h2

TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=300)


@given(st.sampled_from(["POST", "PATCH", "DELETE"]), TEXTS, TEXTS, st.integers(0, 10**9), TEXTS, TEXTS)
def test_a_request_is_what_hpack_reads(
    method: str, authority: str, path: str, length: int, value: str, token: str
) -> None:
    head = encode_head(method, authority, [("X-A", value), ("Authorization", token), ("x" * 200, "")])
    decoder = hpack.Decoder()
    # A server that allows no table insists on being told that the client has none.
    decoder.max_allowed_table_size = 0
    decoded = decoder.decode(encode_request(head, path, length), raw=True)
    assert [(bytes(name).decode("latin-1"), bytes(found).decode("latin-1")) for name, found in decoded] == [
        (":method", method),
        (":scheme", "https"),
        (":authority", authority),
        (":path", path),
        ("x-a", value),
        ("authorization", token),
        ("x" * 200, ""),
        ("content-length", str(length)),
    ]
    # Only the token may never be added to a table.
    kinds = [isinstance(each, hpack.NeverIndexedHeaderTuple) for each in decoded]
    assert kinds == [False, False, False, False, False, True, False, False]


def test_the_headers_of_a_failure() -> None:
    block = h2.block(429, ("Retry-After", " 3 "), ("x", "\xfc"), ("x-odd", ""))
    assert decode_headers(block) == (429, {"retry-after": "3", "x": "\xc3\xbc", "x-odd": ""})


@pytest.mark.parametrize("status", ["", "2", "20", "2000", "2x0", "\u0662\u0660\u0660", "+20", " 20"])
def test_a_status_that_is_none(status: str) -> None:
    assert decode_headers(h2.block(status))[0] == 0


@given(st.binary(max_size=60))
def test_any_block(block: bytes) -> None:
    try:
        status, headers = decode_headers(block)
    except ProtocolViolation:
        return
    assert 0 <= status < 1000
    assert all(name == name.lower() for name in headers)


@pytest.mark.parametrize("code", range(200, 300))
def test_the_status_of_a_success(code: int) -> None:
    """Either it is read without a decoder, or it is left to the decoder: never another one."""
    for huffman in (True, False):
        for size in (0, 4096):
            encoder = hpack.Encoder()
            encoder.header_table_size = size
            block = encoder.encode([(":status", str(code)), ("a", "b")], huffman=huffman)
            assert success_status(block) in {code, 0}
            if not huffman or code in {200, 201, 202, 204}:
                assert success_status(block) == code


@pytest.mark.parametrize(("start", "code"), USUAL_STATUSES.items())
def test_the_usual_starts_of_a_block(start: bytes, code: int) -> None:
    assert success_status(start + b"rest") == success_status(start) == code
    assert len(start) == 4


@given(st.binary(max_size=12))
def test_the_status_of_any_block(block: bytes) -> None:
    found = success_status(block)
    if found:
        decoder = hpack.Decoder()
        fields = []
        for end in range(1, len(block) + 1):
            try:
                fields = decoder.decode(block[:end])
            except hpack.HPACKError:
                continue
            if fields:
                break
        assert fields == [(":status", str(found))]
