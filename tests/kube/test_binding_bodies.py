"""Binds in protobuf: the same bytes as the general encoder's, the same checks and errors as with JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from mooring.api import ObjectMeta, Pod
from mooring.api.protobuf import decode_object
from mooring.api.protobuf.encode import encode_message, tagged
from mooring.kube import Access, BadAnswer, Client, KubeError, User
from mooring.kube.binding_bodies import PROTOBUF, encode_json_binding, encode_protobuf_binding, to_json
from mooring.kube.client_errors import error_from_answer
from mooring.kube.decoding import Expected, check_object
from tests.kube.server import PODS, Api, Fault

POD = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u-1"))
BOUND = Expected("Status")
TEXTS = st.one_of(
    st.text("abc-.0", max_size=300), st.text(max_size=20), st.integers(0, 300).map(lambda size: "n" * size)
)


def envelope(kind: str, raw: bytes, version: str = "v1") -> bytes:
    """An object as an API server sends it."""
    names = tagged(1, version.encode()) + tagged(2, kind.encode())
    return b"k8s\x00" + tagged(1, names) + tagged(2, raw) + b'\x1a\x00"\x00'


def status(**fields: Any) -> bytes:
    return envelope("Status", encode_message("meta.Status", fields))


SUCCESS = status(metadata={}, status="Success", code=201)


@given(TEXTS, TEXTS, TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), TEXTS, TEXTS)
def test_all_encodings_are_the_same_binding(
    name: str, namespace: str, uid: str, annotations: dict[str, str], version: str, node: str
) -> None:
    for chosen in (annotations, {}):
        body = encode_protobuf_binding(name, namespace, uid, chosen, version, node)
        document = json.loads(encode_json_binding(name, namespace, uid, chosen, version, node))
        start = b"k8s\x00" + tagged(1, tagged(1, b"v1") + tagged(2, b"Binding"))
        assert body == start + tagged(2, encode_message("core.Binding", document))
        # The decoder leaves out what is empty.
        parts = {
            part: {key: value for key, value in document[part].items() if value} for part in ("metadata", "target")
        }
        expected = {key: value for key, value in parts.items() if value}
        assert decode_object(body) == {"apiVersion": "v1", "kind": "Binding", **expected}


DAMAGED = [
    SUCCESS[:-8],
    SUCCESS[:20],
    b"k8s\x00",
    b"k8s\x00hello",
    envelope("Status", b""),
    envelope("Status", b"\x12"),
    status(status="Failure", code=409),
    status(status="", code=201),
    envelope("Pod", encode_message("core.Pod", {"metadata": {"name": "p"}})),
    envelope("Binding", b""),
    envelope("Login", b"\x0a\x01a"),
    envelope("", b""),
]


@pytest.mark.parametrize("body", DAMAGED)
def test_a_response_of_success_must_be_one(body: bytes) -> None:
    """Twice: a failure is not remembered as a success."""
    for _ in range(2):
        with pytest.raises(BadAnswer):
            check_object(body, BOUND)
        check_object(SUCCESS, BOUND)


def test_a_response_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check_object(SUCCESS, BOUND)
    monkeypatch.setattr("mooring.kube.decoding.to_json", lambda body: pytest.fail("decoded again"))
    check_object(SUCCESS, BOUND)


def test_large_responses_are_not_kept() -> None:
    from mooring.kube.decoding import _check_protobuf

    before = _check_protobuf.cache_info()
    check_object(status(metadata={}, status="Success", message="x" * 1000), BOUND)
    assert _check_protobuf.cache_info() == before


@given(
    st.integers(300, 599),
    st.text(max_size=30),
    st.sampled_from(["", "Conflict", "AlreadyExists", "Expired", "NotFound"]),
    st.lists(st.fixed_dictionaries({"reason": st.text(max_size=9), "message": st.text(max_size=9)}), max_size=2),
    st.integers(0, 9),
)
def test_failures_are_the_same_as_with_json(
    code: int, message: str, reason: str, causes: list[dict[str, str]], seconds: int
) -> None:
    details = {"name": "p", "kind": "pods", "causes": causes, "retryAfterSeconds": seconds}
    document = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "details": details}
    document["code"] = code  # type: ignore[assignment]  # other values are texts
    expected = error_from_answer(code, {}, msgspec.json.encode({"kind": "Status", "apiVersion": "v1", **document}))
    got = error_from_answer(code, {}, status(**document))
    assert (type(got), str(got), vars(got)) == (type(expected), str(expected), vars(expected))


@given(st.binary(max_size=60))
def test_damaged_failures_are_failures(rest: bytes) -> None:
    for start in (b"k8s\x00", SUCCESS[:20]):
        assert error_from_answer(409, {}, start + rest).status == 409
        assert to_json(start + rest)[:1] in {b"", b"{"}


# The client


def answer(request: web.Request) -> str:
    return str(request.headers["Content-Type"])


@pytest.mark.parametrize("code", [406, 415])
@pytest.mark.parametrize("fast", [True, False])
async def test_a_server_that_refuses_protobuf_gets_json(api: Api, code: int, fast: bool) -> None:
    """It is asked once."""
    api.fault = lambda request: Fault(status=code, body={"kind": "Status"}) if answer(request) == PROTOBUF else None
    async with Client(Access(server=api.url), fast_writes=fast) as kube:
        for name in ("p", "q"):
            api.put(f"{PODS}/{name}", {})
            await kube.bind(Pod(metadata=ObjectMeta(name=name, namespace="default")), "n", {"a": "b"})
            assert api.objects[f"{PODS}/{name}"]["spec"]["nodeName"] == "n"
    assert [each["Content-Type"] for each in api.headers] == [PROTOBUF, "application/json", "application/json"]
    assert [each["Accept"] for each in api.headers] == [
        f"{PROTOBUF}, application/json",
        "application/json",
        "application/json",
    ]
    assert json.loads(api.bodies[-1])["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize("code", [400, 403, 404, 409, 422])
async def test_other_refusals_are_those_of_the_bind(api: Api, code: int) -> None:
    api.fault = lambda request: Fault(status=code, body={"kind": "Status", "message": "no"})
    async with Client(Access(server=api.url)) as kube:
        for _ in range(2):
            with pytest.raises(KubeError, match="no"):
                await kube.bind(POD, "n")
    assert [each["Content-Type"] for each in api.headers] == [PROTOBUF] * 2


@pytest.mark.parametrize("fast", [True, False])
async def test_protobuf_responses(fast: bool) -> None:
    """Of successes and of failures; credentials in a page are hidden, whatever it looks like."""
    answers = [(201, SUCCESS), (409, status(message="bound", reason="Conflict")), (200, b"k8s\x00 sesame"), (201, b"")]

    async def serve(request: web.Request) -> web.Response:
        await request.read()
        code, body = answers.pop(0)
        return web.Response(status=code, body=body, content_type=PROTOBUF)

    from aiohttp.test_utils import TestServer

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", serve)
    async with TestServer(app) as server:
        access = Access(server=f"http://127.0.0.1:{server.port}", user=User(token="sesame"))
        async with Client(access, fast_writes=fast) as kube:
            await kube.bind(POD, "n")
            with pytest.raises(KubeError, match=r"^bound \(409 Conflict\)$"):
                await kube.bind(POD, "n")
            for _ in range(2):
                with pytest.raises(BadAnswer) as caught:
                    await kube.bind(POD, "n")
                assert "sesame" not in str(caught.value)
