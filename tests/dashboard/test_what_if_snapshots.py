"""The steps of a client's snapshot, and the description of the what-if service."""

from __future__ import annotations

import re

import msgspec
import pytest

from mooring.dashboard.what_if_snapshots import openapi, read_batch
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.simulation.snapshot import MAX_STEPS


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the steps are not valid: "),
        (b"\xff", "the steps are not valid: "),
        (b'{"steps": 1}', "the steps are not valid: "),
        (b'{"step": []}', "the steps are not valid: "),
        (b'{"steps": ' + b"[" * 100_000, "the steps are not valid: "),
        (
            b'{"steps": [' + b",".join([b'{"op": "begin"}'] * (MAX_STEPS + 1)) + b"]}",
            f"there are {MAX_STEPS + 1} steps",
        ),
    ],
    ids=["cut off", "no text", "no list", "another field", "nested", "too many"],
)
def test_invalid_steps_are_rejected(body: bytes, message: str) -> None:
    with pytest.raises(HttpError, match=message) as caught:
        read_batch(body)
    assert caught.value.status == 400


def test_the_description_is_complete() -> None:
    found = openapi()
    assert set(found["paths"]) == {"/what-if", "/what-if/snapshots", "/what-if/snapshots/{id}"}
    schemas = found["components"]["schemas"]
    assert {"Question", "Batch", "Answers", "SnapshotInfo", "Schedule", "Rollback"} <= set(schemas)
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', msgspec.json.encode(found).decode()))
    assert {"Question", "Schedule", "Answers"} <= named <= set(schemas)
    for path in found["paths"].values():
        assert all(each["responses"] for method, each in path.items() if method in ("get", "post", "delete"))
