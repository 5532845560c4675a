"""Answering cases, one JSON object per line."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest

from mooring.cli.json_lines import answer_cases


def evaluate(case: dict[str, Any]) -> dict[str, Any]:
    if "fail" in case:
        raise LookupError("no such thing")
    return {"twice": case["number"] * 2}


LINES = b'{"id": 1, "number": 4}\n\n{"id": 2, "number": 5}\n'


@pytest.mark.parametrize("data", [LINES, gzip.compress(LINES)], ids=["plain", "gzip"])
def test_every_line_is_answered(capfdbinary: pytest.CaptureFixture[bytes], data: bytes) -> None:
    answer_cases(io.BufferedReader(io.BytesIO(data)), evaluate, LookupError, "{id, number}")
    answers = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert answers == [{"id": 1, "twice": 8}, {"id": 2, "twice": 10}]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object; a case is {id, number}"),
        (b'{"id": 7, "fail": true}', "no such thing"),
    ],
)
def test_an_invalid_case_does_not_prevent_other_answers(
    capfdbinary: pytest.CaptureFixture[bytes], line: bytes, error: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        answer_cases(io.BufferedReader(io.BytesIO(line + b"\n" + LINES)), evaluate, LookupError, "{id, number}")
    assert ended.value.code == 1
    first, *rest = [json.loads(each) for each in capfdbinary.readouterr().out.splitlines()]
    assert error in first["error"]
    assert len(rest) == 2
