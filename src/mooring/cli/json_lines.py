"""JSON Lines input and output of the commands that evaluate test cases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import msgspec


def answer_cases(
    file: BinaryIO, evaluate: Callable[[dict[str, Any]], dict[str, Any]], invalid: type[Exception], shape: str
) -> None:
    """Answer every line of a file, which may be gzipped. The exit code is 1 if a case is invalid.

    ``evaluate`` raises ``invalid`` for an invalid case; ``shape`` describes a case in error messages.
    """
    failed = False
    out = sys.stdout.buffer
    for line in _lines(file):
        reply = _reply(line, evaluate, invalid, shape)
        failed = failed or "error" in reply
        out.write(msgspec.json.encode(reply) + b"\n")
    out.flush()
    if failed:
        raise SystemExit(1)


def _reply(
    line: bytes, evaluate: Callable[[dict[str, Any]], dict[str, Any]], invalid: type[Exception], shape: str
) -> dict[str, object]:
    try:
        case = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {"id": None, "error": f"not JSON: {error}"}
    if not isinstance(case, dict):
        return {"id": None, "error": f"not a JSON object; a case is {shape}"}
    try:
        return {"id": case.get("id"), **evaluate(case)}
    except invalid as error:
        return {"id": case.get("id"), "error": str(error)}


def _lines(file: BinaryIO) -> Iterator[bytes]:
    start = file.peek(2)[:2] if hasattr(file, "peek") else b""
    stream: Iterable[bytes] = file
    if start == b"\x1f\x8b":
        import gzip

        stream = gzip.GzipFile(fileobj=file)
    return (line for line in stream if line.strip())
