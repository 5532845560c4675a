"""Lines of a watch about a kind whose fields are required: what has only metadata, or not even that."""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from mooring.framework import CustomResource
from mooring.kube import custom_resource
from mooring.kube.decoding import WatchEvent, decode_line


class Ticket(CustomResource, group="example.com", version="v1"):
    seats: int


TICKETS = custom_resource(Ticket, group="example.com", version="v1", kind="Ticket", plural="tickets", namespaced=True)
ABOUT = {"name": "web", "namespace": "default", "uid": "u1", "resourceVersion": "7"}


@pytest.mark.parametrize(
    ("type", "fields", "kept", "told"),
    [
        ("ADDED", {"seats": 2}, True, 0),
        ("BOOKMARK", {}, True, 0),
        ("DELETED", {"seats": "many"}, True, 1),
        ("MODIFIED", {"seats": "few"}, False, 1),
        ("ADDED", {}, False, 1),
    ],
)
def test_lines(type: str, fields: dict[str, object], kept: bool, told: int) -> None:
    line = msgspec.json.encode({"type": type, "object": {"metadata": ABOUT, **fields}})
    with capture_logs() as logs:
        event = decode_line(line, TICKETS)
        decode_line(line, TICKETS)
    assert isinstance(event, WatchEvent)
    assert (event.type, event.version, event.object is not None) == (type, "7", kept)
    assert event.object is None or event.object.metadata.uid == "u1"
    assert len(logs) == told  # once, however often it comes
