"""Header blocks of HTTP/2 (HPACK, RFC 7541) without a dynamic table, so that each block can be read by itself.

Hand-written for requests and for the status of a success, because the package hpack takes 56 us for the headers of a
response. It decodes those of failures. Requests have no Huffman codes: these would save bytes, but take time.
"""

from collections.abc import Sequence
from typing import Final

from mooring.kube.http2_frames import ErrorCode, ProtocolViolation
from mooring.kube.http_connection import Field, Head

# The indexes of names in the static table.
_AUTHORITY: Final = 1
_PATH: Final = 4
_AUTHORIZATION: Final = 23
_CONTENT_LENGTH: Final = 28
# The whole fields `:method: POST` and `:scheme: https`
_POST: Final = b"\x83"
_HTTPS: Final = b"\x87"
_METHOD: Final = 2
#: The dynamic table has the size 0. Servers that allow less than the default insist on this before the first field.
_NO_TABLE: Final = b"\x20"
#: The first bits of a literal field that is not added to the table, and of one that no proxy may add to a table either.
_PLAIN: Final = 0x00
_SECRET: Final = 0x10

#: A status of success as an index, and as a literal: the first byte (with or without indexing, and one of the seven
#: indexes of the name) and the value, with the usual Huffman codes or as text.
_INDEXED: Final = {0x88: 200, 0x89: 204, 0x8A: 206}
_LITERAL: Final = frozenset(kind | index for kind in (0x00, 0x10, 0x40) for index in range(8, 15))
_HUFFMAN: Final = {b"\x82\x10\x01": 200, b"\x82\x10\x03": 201, b"\x82\x10\x05": 202}
_TEXTS: Final = {b"\x03%d" % code: code for code in range(200, 300)}
#: The first four bytes of the header block of a creation's response, as API servers encode it.
USUAL_STATUSES: Final = {bytes((first,)) + code: status for first in _LITERAL for code, status in _HUFFMAN.items()}
#: The size of all headers of a response, as counted by hpack.
MAX_HEADERS: Final = 1 << 16


def encode_head(method: str, authority: str, fields: Sequence[Field]) -> Head:
    """Encode the fields of requests that do not depend on the path and the body."""
    first = _POST if method == "POST" else _literal(_METHOD, method)
    before = _NO_TABLE + first + _HTTPS + _literal(_AUTHORITY, authority)
    after = b"".join(
        _literal(_AUTHORIZATION, value, _SECRET)
        if name.lower() == "authorization"
        else b"\x00" + _text(name.lower()) + _text(value)
        for name, value in fields
    )
    return Head(before, after)


def encode_request(head: Head, path: str, length: int) -> bytes:
    """Return the header block of a request with a body of some length."""
    target = path.encode("latin-1")
    size = len(target)
    digits = b"%d" % length
    # These are _literal(_PATH, path) and _literal(_CONTENT_LENGTH, digits), without the calls.
    if size < 127:
        return b"%b\x04%c%b%b\x0f\x0d%c%b" % (head.before, size, target, head.after, len(digits), digits)
    return b"%b\x04%b%b%b\x0f\x0d%c%b" % (head.before, _integer(size, 7), target, head.after, len(digits), digits)


def success_status(block: bytes) -> int:
    """Return the status if it is a success in a usual encoding, otherwise 0. Hot path."""
    start = 1 if block[:1] == _NO_TABLE else 0
    first = block[start] if len(block) > start else 0
    if first in _LITERAL:
        return _HUFFMAN.get(block[start + 1 : start + 4]) or _TEXTS.get(block[start + 1 : start + 5]) or 0
    return _INDEXED.get(first, 0)


def decode_headers(block: bytes) -> tuple[int, dict[str, str]]:
    """Return the status (0 if there is no valid one) and the headers of a block. Raises ProtocolViolation."""
    import hpack  # not at the start: failures are rare

    decoder = hpack.Decoder(max_header_list_size=MAX_HEADERS)
    decoder.max_allowed_table_size = decoder.header_table_size = 0
    try:
        fields = [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except (hpack.HPACKError, ValueError, IndexError) as error:
        raise ProtocolViolation(f"headers that cannot be decoded: {error}", ErrorCode.COMPRESSION_ERROR) from None
    headers = {name.decode("latin-1").lower(): value.decode("latin-1").strip() for name, value in fields}
    status = headers.pop(":status", "")
    return (int(status) if len(status) == 3 and status.isascii() and status.isdigit() else 0), headers


def _literal(index: int, value: str, kind: int = _PLAIN) -> bytes:
    """Encode a field whose name is in the static table."""
    return _integer(index, 4, kind) + _text(value)


def _text(value: str) -> bytes:
    data = value.encode("latin-1")
    return _integer(len(data), 7) + data


def _integer(number: int, bits: int, first: int = 0) -> bytes:
    """Encode a number that begins in the last bits of a byte."""
    limit = (1 << bits) - 1
    if number < limit:
        return bytes([first | number])
    encoded = bytearray([first | limit])
    number -= limit
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
