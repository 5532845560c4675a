"""Lines of a watch about a kind whose fields are required: what has only metadata, or not even that."""

from __future__ import annotations

import gc

import msgspec
import pytest

from mooring.api import ObjectReference
from mooring.framework import CustomResource
from mooring.kube import custom_resource
from mooring.kube.decoding import (
    RelaxedGarbageCollection,
    WatchEvent,
    continue_token,
    decode_line,
    decode_page,
    next_page_size,
)
from tests.log_capture import capture_logs


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


def test_an_object_that_does_not_fit_its_class_is_reported_and_skipped() -> None:
    told: list[tuple[ObjectReference, str]] = []
    good = {"metadata": {**ABOUT, "name": "good"}, "seats": 1}
    bad = {"metadata": ABOUT, "seats": "x" * 10_000}
    body = msgspec.json.encode({"kind": "TicketList", "metadata": {"resourceVersion": "9"}, "items": [good, bad]})
    page = decode_page(body, TICKETS, lambda about, why: told.append((about, why)))
    assert [each.name for each in page.items] == ["good"]
    decode_line(
        msgspec.json.encode({"type": "ADDED", "object": bad}), TICKETS, lambda about, why: told.append((about, why))
    )
    about = ObjectReference(api_version="example.com/v1", kind="Ticket", namespace="default", name="web", uid="u1")
    assert [each for each, _ in told] == [about, about]
    assert all("seats" in why and len(why) < 400 for _, why in told)


@pytest.mark.parametrize("levels", [200, 9_000])
def test_a_deep_object_does_not_hide_the_others(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    items = b'{"metadata":{"name":"a"},"seats":1,"x":' + deep + b'},{"metadata":{"name":"b"},"seats":2}'
    page = decode_page(b'{"kind":"TicketList","metadata":{},"items":[' + items + b"]}", TICKETS)
    assert [(each.name, each.seats) for each in page.items] == [("a", 1), ("b", 2)]
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a"},"seats":1,"x":' + deep + b"}}"
    event = decode_line(line, TICKETS)
    assert isinstance(event, WatchEvent)
    assert event.object is not None


@pytest.mark.parametrize(
    ("body", "token"),
    [
        (
            b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"abc"},"items":[{}]}',
            "abc",
        ),
        (
            b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"continue":"x"}}]}',
            "",
        ),
        (b'{"items":[{"metadata":{"continue":"x"}}],"metadata":{"continue":"abc"}}', ""),
        (b'{"kind":"PodList","metadata":{"continue":7},"items":[]}', ""),
        (b"", ""),
    ],
)
def test_the_token_of_the_next_page_is_read_from_the_start_of_a_list(body: bytes, token: str) -> None:
    assert continue_token(body) == token


@pytest.mark.parametrize(
    ("first", "size", "length", "following"),
    [
        (500, 500, 500 * 1_600, 2000),  # small objects: four times as many
        (500, 500, 500 * 8_192, 512),  # 4 MiB
        (500, 500, 500 * 1_500_000, 500),  # large objects: as many as in the first page
        (500, 2000, 2000 * 4_096, 1024),  # the objects become larger
        (500, 512, 512 * 1_600, 2000),  # and smaller again
        (500, 500, 0, 2000),
        (0, 0, 82_000_000, 0),  # no pages
    ],
)
def test_pages_are_larger_if_the_objects_are_small(first: int, size: int, length: int, following: int) -> None:
    assert next_page_size(first, size, length) == following


def test_garbage_collection_is_relaxed_until_the_outermost_block_ends() -> None:
    before = gc.get_threshold()
    relaxed = RelaxedGarbageCollection()
    with relaxed:
        with relaxed:
            assert gc.get_threshold()[0] > before[0]
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
