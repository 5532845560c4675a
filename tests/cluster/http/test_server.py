"""The HTTP server."""

import asyncio
import ssl
import time

import pytest

from mooring.cluster.http.server import HttpServer
from mooring.http_listener import ConnectionLimits
from tests.cluster.conftest import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PODS, STRATEGIC_PATCH, Client
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    "path", ["/api/v1/podz", "/apis/nope/v1/x", "/api/v1/namespaces/default/nodes", f"{PODS}/a/foo"]
)
async def test_paths_that_do_not_exist(client: Client, path: str) -> None:
    """Are told so in Kubernetes' words."""
    answer = await client.ask("GET", path)
    assert (answer.status, answer.message) == (404, "the server could not find the requested resource")


async def test_the_server_listens_on_loopback_only_and_wants_a_token(client: Client) -> None:
    """Health is open to everybody."""
    assert client.cluster.url.startswith("https://127.0.0.1:")
    answer = await client.ask("GET", "/api/v1/pods", token="wrong")
    assert (answer.status, answer.body["reason"]) == (401, "Unauthorized")
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await client.ask("GET", path, token="wrong")).body == "ok"


def _deep(levels: int, start: bytes = b"[", end: bytes = b"]") -> bytes:
    return start * levels + b"1" + end * levels


NAMESPACE = "/api/v1/namespaces/default"
MANIFEST = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"x":%s}'
ANNOTATED = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":%s}}'
YAML = "application/yaml"
MAPS = f"{NAMESPACE}/configmaps"
DIGITS = "9" * 4400


@pytest.mark.parametrize(
    ("method", "target", "content", "body", "header"),
    [
        pytest.param("GET", PODS, "", b"", b"Authorization: Bearer \xff\xfe", id="token"),
        pytest.param("GET", PODS, "", b"", b"Impersonate-User: \xff\xfe", id="impersonated user"),
        pytest.param("GET", f"{PODS}?limit={DIGITS}", "", b"", b"", id="limit"),
        pytest.param("GET", f"{PODS}?limit=%D9%A1", "", b"", b"", id="limit in other digits"),
        pytest.param("GET", f"{PODS}?continue={DIGITS}", "", b"", b"", id="continue"),
        pytest.param("GET", f"{PODS}?resourceVersion={DIGITS}", "", b"", b"", id="version"),
        pytest.param("GET", f"{PODS}?watch=1&resourceVersion={DIGITS}", "", b"", b"", id="version of a watch"),
        pytest.param("GET", f"{PODS}?watch=1&timeoutSeconds={DIGITS}", "", b"", b"", id="timeout"),
        pytest.param("DELETE", f"{PODS}/x?gracePeriodSeconds={DIGITS}", "", b"", b"", id="grace period"),
        pytest.param("GET", f"{PODS}?labelSelector={'a,' * 3000}", "", b"", b"", id="label selector"),
        pytest.param("GET", f"{PODS}?fieldSelector={'a=b,' * 1500}", "", b"", b"", id="field selector"),
        pytest.param("POST", MAPS, "", MANIFEST % _deep(150), b"", id="150 levels"),
        pytest.param("POST", MAPS, "", MANIFEST % _deep(900), b"", id="900 levels"),
        pytest.param("POST", MAPS, "", MANIFEST % _deep(100_000), b"", id="100,000 levels"),
        pytest.param("POST", f"{MAPS}?fieldValidation=Strict", "", MANIFEST % _deep(500), b"", id="strict"),
        pytest.param("POST", MAPS, YAML, _deep(5000), b"", id="yaml in flow style"),
        pytest.param("POST", MAPS, YAML, b"".join(b" " * i + b"a:\n" for i in range(1000)), b"", id="yaml in blocks"),
        pytest.param("PATCH", NAMESPACE, STRATEGIC_PATCH, b'{"a":%s}' % _deep(800), b"", id="strategic patch"),
        pytest.param("PATCH", NAMESPACE, MERGE_PATCH, ANNOTATED % _deep(450, b'{"a":', b"}"), b"", id="merge patch"),
        pytest.param("PATCH", f"{NAMESPACE}?fieldManager=x", APPLY_PATCH, ANNOTATED % _deep(450, b'{"a":', b"}"), b"",
                     id="apply"),
        pytest.param("PATCH", NAMESPACE, JSON_PATCH, b'[{"op":"add","path":"/x","value":%s}]' % _deep(900), b"",
                     id="json patch"),
        pytest.param("PATCH", NAMESPACE, JSON_PATCH,
                     b'[{"op":"add","path":"/metadata/finalizers/%s","value":1}]' % DIGITS.encode(), b"",
                     id="pointer"),
        pytest.param("POST", PODS, "", b'{"metadata":{"generation":%s}}' % DIGITS.encode(), b"", id="integer"),
        pytest.param("POST", PODS, "", b'{"spec":{"priority":1e999}}', b"", id="float"),
        pytest.param("POST", PODS, "", b'{"metadata":{"name":"\xff"}}', b"", id="not UTF-8"),
        pytest.param("POST", PODS, "", b'{"metadata":{"name":"\\ud800"}}', b"", id="half a surrogate pair"),
    ],
)  # fmt: skip
async def test_hostile_requests_are_refused_at_once(
    client: Client, method: str, target: str, content: str, body: bytes, header: bytes
) -> None:
    token = b"" if header.startswith(b"Authorization") else f"Authorization: Bearer {client.cluster.token}\r\n".encode()
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {content or 'application/json'}\r\n".encode()
    head += token + (header + b"\r\n" if header else b"") + b"Content-Length: %d\r\n\r\n" % len(body)
    context = ssl.create_default_context(cadata=client.cluster.authority)
    port = int(client.cluster.url.rpartition(":")[2])
    with capture_logs() as logs:
        started = time.process_time()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(head + body)
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 4"), answer
    assert time.process_time() - started < 5.0
    assert [each for each in logs if each["log_level"] != "debug"] == []


async def test_connections_without_requests_end_and_watches_stay(client: Client) -> None:
    limits = ConnectionLimits(connections=4, header_seconds=1.5, idle_seconds=1.5, check_seconds=0.02)
    server = HttpServer(client.cluster.api, tls=None, limits=limits)
    await server.start(0)
    try:
        reader, watch = await asyncio.open_connection("127.0.0.1", server.port)
        token = f"Authorization: Bearer {client.cluster.token}\r\n".encode()
        watch.write(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: x\r\n" + token + b"\r\n")
        await reader.readuntil(b'"ADDED"')
        others = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(6)]
        assert server.listener is not None
        async with asyncio.timeout(PATIENCE):
            for each, writer in others:
                assert await each.read() == b""
                writer.close()
            while len(server.listener) != 1:
                await asyncio.sleep(0.01)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}}
            assert (await client.ask("POST", "/api/v1/namespaces", namespace)).status == 201
            await reader.readuntil(b'"later"')
        watch.close()
    finally:
        await server.stop()


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_a_body_of_more_than_3_mib_is_refused(client: Client) -> None:
    document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"x": "y" * (3 << 20)}}
    answer = await client.ask("POST", MAPS, document)
    assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.message == "Request entity too large: limit is 3145728"
