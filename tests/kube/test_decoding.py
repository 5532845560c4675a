"""Lines of a watch about a kind whose fields are required: what has only metadata, or not even that."""

from __future__ import annotations

import dataclasses
import gc
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import ObjectReference, Pod
from mooring.framework import CustomResource
from mooring.kube import BadAnswer, KubeError, custom_resource, resource_of
from mooring.kube.decoding import (
    RelaxedGarbageCollection,
    WatchEvent,
    continue_token,
    decode_line,
    decode_lines,
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


def _line(type: str, **document: object) -> bytes:
    return msgspec.json.encode({"type": type, "object": document})


POD = {"kind": "Pod", "metadata": ABOUT}
LINES = [
    _line("ADDED", **POD),
    _line("MODIFIED", **POD, spec={"nodeName": "n"}),
    _line("MODIFIED", **POD, spec={"containers": None}),
    _line("ADDED", **POD, spec={"containers": "many"}),
    _line("DELETED", **POD),
    _line("BOOKMARK", kind="Pod", metadata={"resourceVersion": "9"}),
    _line("ADDED", **POD, spec={"tolerations": [{"key": "a"}], "x": [[[]]] * 3}),
    b"",
    b" \t",
    _line("ERROR", kind="Status", status="Failure", code=410, reason="Expired"),
    _line("ADDED", kind="Node", metadata=ABOUT),
    _line("SYNC", **POD),
    b'{"type":"ADDED"}',
    b"<html>",
    b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"\xff"}}}',
    b'{"type":"ADDED","object":' + b"[" * 100_000,
]


@given(st.lists(st.sampled_from(LINES), max_size=6), st.booleans())
def test_lines_that_arrive_together_are_decoded_as_one_by_one(lines: list[bytes], caches: bool) -> None:
    resource = resource_of(Pod)
    if caches:
        resource = dataclasses.replace(resource, caches_json=lambda _pod: True)

    def one_by_one(invalid: list[str]) -> object:
        events = []
        for line in lines:
            if line.strip():
                event = decode_line(line, resource, lambda _about, why: invalid.append(why))
                if isinstance(event, KubeError):
                    return events, str(event)
                events.append(event)
        return events, None

    def together(invalid: list[str]) -> object:
        events, ended = decode_lines(lines, resource, lambda _about, why: invalid.append(why))
        assert all(type(event) is WatchEvent for event in events)
        return events, None if ended is None else str(ended)

    told: list[list[str]] = [[], []]
    try:
        expected = one_by_one(told[0])
    except BadAnswer as error:
        with pytest.raises(BadAnswer, match=re.escape(str(error))):
            together(told[1])
    else:
        assert together(told[1]) == expected
    assert told[0] == told[1]
