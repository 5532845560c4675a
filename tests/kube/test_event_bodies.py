"""Events in protobuf: the same bytes as the general encoder's, the same event as with JSON, the same checks."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import Event, EventSeries, ObjectMeta, ObjectReference, format_time
from mooring.api.codec import encode_json
from mooring.api.events import CoreEvent
from mooring.api.protobuf import decode_object
from mooring.api.protobuf.encode import encode_message, tagged
from mooring.kube import Access, AlreadyExists, BadAnswer, Client
from mooring.kube.binding_bodies import PROTOBUF
from mooring.kube.decoding import Expected, check_object
from mooring.kube.event_bodies import _usual_event, encode_protobuf_event, is_protobuf_event
from tests.kube.server import Api, Fault

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
#: The event about a bound pod.
EVENT = Event(
    metadata=ObjectMeta(name="p.17a8", namespace="default"),
    event_time="2026-11-19T10:00:00.123456Z",
    reporting_controller="default-scheduler",
    reporting_instance="default-scheduler-host",
    action="Binding",
    reason="Scheduled",
    regarding=ObjectReference(
        api_version="v1", kind="Pod", namespace="default", name="p", uid="u-1", resource_version="7"
    ),
    note="Successfully assigned default/p to n",
    type="Normal",
)
TEXTS = st.one_of(
    st.text("abc-.0", max_size=300), st.text(max_size=20), st.integers(0, 3000).map(lambda size: "n" * size)
)
TIMES = st.one_of(
    st.none(),
    st.sampled_from(["", "2026-11-19T10:00:00Z", "2026-11-19T10:00:00.5Z", "2026-11-19T12:00:00.000001+02:00"]),
    st.floats(0, 4e9).map(lambda seconds: format_time(seconds, micros=True)),
)
REFERENCES = st.builds(
    ObjectReference, api_version=TEXTS, kind=TEXTS, namespace=TEXTS, name=TEXTS, uid=TEXTS, field_path=TEXTS
)
METADATA = st.one_of(
    st.builds(ObjectMeta, name=TEXTS, namespace=TEXTS),
    st.builds(ObjectMeta, name=TEXTS, namespace=TEXTS, labels=st.dictionaries(TEXTS, TEXTS, max_size=2)),
)
SERIES = st.builds(EventSeries, count=st.integers(0, 99), last_observed_time=st.just("2026-11-19T10:00:00.000001Z"))


def in_general(event: Event) -> bytes:
    names = tagged(1, b"events.k8s.io/v1") + tagged(2, b"Event")
    return b"k8s\x00" + tagged(1, names) + tagged(2, encode_message("events.Event", msgspec.to_builtins(event)))


@given(
    st.builds(
        Event,
        metadata=METADATA,
        event_time=TIMES,
        series=st.none() | SERIES,
        reporting_controller=TEXTS,
        reporting_instance=TEXTS,
        action=TEXTS,
        reason=TEXTS,
        regarding=REFERENCES,
        related=st.none() | REFERENCES,
        note=TEXTS,
        type=st.sampled_from(["Normal", "Warning", "Grüße"]),
    )
)
def test_the_bytes_are_those_of_the_general_encoder(event: Event) -> None:
    assert encode_protobuf_event(event) == in_general(event)


@given(
    st.integers(0, 999_999),
    st.integers(0, 4_000_000_000),
    st.text("ab-.", max_size=127),
    st.text("ab c", max_size=1024),
)
def test_usual_events_need_no_general_encoder(micros: int, seconds: int, name: str, note: str) -> None:
    time = f"{format_time(float(seconds))[:-1]}.{micros:06d}Z"
    regarding = msgspec.structs.replace(EVENT.regarding, name=name)
    metadata = ObjectMeta(name=name, namespace="default")
    event = msgspec.structs.replace(EVENT, metadata=metadata, event_time=time, regarding=regarding, note=note)
    assert _usual_event(event).encode("latin-1") == encode_protobuf_event(event) == in_general(event)


def test_the_event_is_the_same_as_in_json() -> None:
    assert decode_object(encode_protobuf_event(EVENT)) == json.loads(encode_json(EVENT))


def stored(event: Event, **metadata: Any) -> bytes:
    """Return the event as the API server answers its creation."""
    document: dict[str, Any] = msgspec.to_builtins(event)
    document["metadata"] |= {"uid": "u-2", "resourceVersion": "8", "managedFields": [{"manager": "m"}], **metadata}
    names = tagged(1, b"events.k8s.io/v1") + tagged(2, b"Event")
    return b"k8s\x00" + tagged(1, names) + tagged(2, encode_message("events.Event", document)) + b'\x1a\x00"\x00'


@pytest.mark.parametrize("note", ["", "n" * 80, "n" * 900, "n" * 40_000])
@pytest.mark.parametrize("name", ["p", "p" * 127, "p" * 128, "p" * 253, "Grüße"])
def test_a_response_is_the_event(name: str, note: str) -> None:
    """Names that are not usual are checked by decoding."""
    event = msgspec.structs.replace(EVENT, metadata=ObjectMeta(name=name, namespace="default"), note=note)
    body = stored(event)
    assert len(body) > 200
    check_object(body, Expected("Event", name, "default"))
    assert is_protobuf_event(body, name, "default") == (len(name) < 128 and name.isascii())
    for other in (f"{name}q", name[:-1] + "q", name[:-1]):
        for namespace in ("default", "other"):
            assert not is_protobuf_event(body, other, namespace)
    if len(name) > 1:
        for expected in (Expected("Event", name[:-1], "default"), Expected("Event", name, "other")):
            with pytest.raises(BadAnswer):
                check_object(body, expected)


@pytest.mark.parametrize(
    "body",
    [
        stored(EVENT)[:60],
        stored(EVENT)[:-5],
        stored(EVENT)[:31],
        stored(EVENT)[:33],
        stored(EVENT).replace(b"Event", b"Lease", 1),
        b"k8s\x00" + stored(EVENT)[31:],
        stored(msgspec.structs.replace(EVENT, metadata=ObjectMeta(name="q.17a8", namespace="default"))),
    ],
)
def test_another_response_is_not(body: bytes) -> None:
    assert not is_protobuf_event(body, "p.17a8", "default")
    with pytest.raises(BadAnswer):
        check_object(body, Expected("Event", "p.17a8", "default"))


# The client


@pytest.mark.parametrize("code", [406, 415])
@pytest.mark.parametrize("fast", [True, False])
async def test_a_server_that_refuses_protobuf_gets_json(api: Api, code: int, fast: bool) -> None:
    """It is asked once."""

    def refuse(request: web.Request) -> Fault | None:
        refused = request.headers["Content-Type"] == PROTOBUF
        return Fault(status=code, body={"kind": "Status"}) if refused else None

    api.fault = refuse
    events = [EVENT, msgspec.structs.replace(EVENT, metadata=ObjectMeta(name="q.17a9", namespace="default"))]
    async with Client(Access(server=api.url), fast_writes=fast) as kube:
        for event in events:
            await kube.create_event(event)
    assert [each["Content-Type"] for each in api.headers] == [PROTOBUF, "application/json", "application/json"]
    assert [json.loads(body) for body in api.bodies[1:]] == [json.loads(encode_json(event)) for event in events]


@pytest.mark.parametrize("fast", [True, False])
async def test_an_event_exists_already(api: Api, fast: bool) -> None:
    async with Client(Access(server=api.url), fast_writes=fast) as kube:
        await kube.create_event(EVENT)
        with pytest.raises(AlreadyExists):
            await kube.create_event(EVENT)
    assert [each["Content-Type"] for each in api.headers] == [PROTOBUF] * 2
    assert [each["Accept"] for each in api.headers] == [f"{PROTOBUF}, application/json"] * 2


async def test_events_of_the_core_group_are_in_json(api: Api) -> None:
    event = CoreEvent(metadata=ObjectMeta(name="p", namespace="default"), message="hello")
    async with Client(Access(server=api.url)) as kube:
        await kube.create_event(event)
    assert [each["Content-Type"] for each in api.headers] == ["application/json"]
    assert api.objects["/api/v1/namespaces/default/events/p"]["message"] == "hello"
