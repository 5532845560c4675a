"""Extenders over HTTP and HTTPS: a real process, asked by the real client."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.config import Extender as ExtenderConfig
from mooring.config import ExtenderTLS
from mooring.config.durations import Nanoseconds
from mooring.live.extenders import ExtenderClient
from mooring.scheduler.cache import Cache
from mooring.scheduler.extenders import Extender, Extenders, Reply
from mooring.testing import make_node, make_pod
from tests.extenders import ExtenderProcess, extender

CERTS = Path(__file__).parents[1] / "kube" / "certs"
SECOND = 1_000_000_000
POD = make_pod("p").obj()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtenderProcess]:
    with extender(tmp_path_factory.mktemp("plain"), {}) as process:
        yield process


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExtenderProcess]:
    folder = tmp_path_factory.mktemp("secure")
    with extender(folder, {}, cert=str(CERTS / "server.pem"), key=str(CERTS / "server.key")) as process:
        yield process


@pytest.fixture
async def client() -> AsyncIterator[ExtenderClient]:
    client = ExtenderClient(env={"HTTP_PROXY": "http://127.0.0.1:1", "HTTPS_PROXY": "http://127.0.0.1:1"})
    yield client
    await client.close()


def described(url: str, *, seconds: float = 60, **more: Any) -> Extender:
    timeout = Nanoseconds(int(seconds * SECOND))
    return Extender(ExtenderConfig(url_prefix=url, bind_verb="bind", http_timeout=timeout, **more))


async def ask(client: ExtenderClient, url: str, **more: Any) -> Reply:
    (request,) = next(described(url, **more).bind(POD, "n"))
    return await client.send(request)


@pytest.mark.parametrize("slash", ["", "/", "//"])
async def test_a_question_is_posted_as_json(plain: ExtenderProcess, client: ExtenderClient, slash: str) -> None:
    plain.obey({})
    plain.forget()
    reply = await ask(client, plain.url + slash)
    assert reply == Reply(body=b"{}")
    (request,) = plain.requests()
    assert request["path"] == "/scheduler/bind"
    assert request["type"] == "application/json"
    assert request["body"] == {"PodName": "p", "PodNamespace": "default", "PodUID": POD.uid, "Node": "n"}


async def test_all_verbs_are_understood_by_a_process(plain: ExtenderProcess, client: ExtenderClient) -> None:
    plain.obey({"filter": {"reject": {"a": "no"}}, "prioritize": {"scores": {"b": 3}}})
    config = ExtenderConfig(
        url_prefix=plain.url,
        filter_verb="filter",
        prioritize_verb="prioritize",
        weight=1,
        http_timeout=Nanoseconds(60 * SECOND),
    )
    cache = Cache()
    for name in "ab":
        cache.put(make_node(name).obj())
    each = Extender(config)
    rows, rejected = await Extenders([config], client.send).run(each.filter(POD, cache.table.nodes))
    assert [cache.table.nodes[row].name for row in rows] == ["b"]
    assert {name: status.message for name, status in rejected.items()} == {"a": "no"}
    reply = await client.send(each.prioritize(POD, cache.table.nodes))
    assert json.loads(reply.body) == [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 3}]


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"status": 500}, "failed bind with extender at URL {url}/bind, code 500"),
        ({"status": 204, "text": ""}, "failed bind with extender at URL {url}/bind, code 204"),
        ({"cut": True}, 'Post "{url}/bind": EOF'),
        (
            {"delay": 2},
            'Post "{url}/bind": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
        ),
    ],
)
async def test_what_goes_wrong(
    plain: ExtenderProcess, client: ExtenderClient, rule: dict[str, Any], error: str
) -> None:
    plain.obey({"bind": rule})
    reply = await ask(client, plain.url, seconds=0.3 if "delay" in rule else 60)
    assert reply == Reply(error=error.format(url=plain.url))


async def test_nobody_listens(client: ExtenderClient) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        reply = await ask(client, url)
    assert reply.error == f'Post "{url}/bind": dial tcp {url.removeprefix("http://")}: connect: connection refused'


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://no.such.host.invalid", "dial tcp: lookup no.such.host.invalid: no such host"),
        ("ftp://127.0.0.1", 'unsupported protocol scheme "ftp"'),
    ],
)
async def test_addresses_that_lead_nowhere(url: str, error: str) -> None:
    client = ExtenderClient(env={})
    reply = await ask(client, url)
    await client.close()
    assert reply.error == f'Post "{url}/bind": {error}'


CA = (CERTS / "ca.pem").read_bytes()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"enable_https": True}, ""),
        ({"tls_config": ExtenderTLS(insecure=True)}, ""),
        ({"tls_config": ExtenderTLS(ca_data=CA)}, ""),
        ({"tls_config": ExtenderTLS(ca_file=str(CERTS / "ca.pem"), server_name="localhost")}, ""),
        ({"tls_config": ExtenderTLS(ca_file=str(CERTS / "ca.pem"), server_name="elsewhere")}, "x509: "),
        ({}, "x509: certificate signed by unknown authority"),
        ({"tls_config": ExtenderTLS(ca_file=str(CERTS / "other-ca.pem"))}, "x509: certificate signed by unknown auth"),
    ],
    ids=["enableHTTPS", "insecure", "caData", "serverName", "other name", "system", "other CA"],
)
async def test_certificates(
    secure: ExtenderProcess, client: ExtenderClient, settings: dict[str, Any], error: str
) -> None:
    secure.obey({})
    reply = await ask(client, secure.url, **settings)
    if not error:
        assert reply == Reply(body=b"{}")
    else:
        assert reply.error.startswith(f'Post "{secure.url}/bind": tls: failed to verify certificate: {error}')


async def test_a_client_certificate_is_shown(client: ExtenderClient, tmp_path: Path) -> None:
    server = {"cert": str(CERTS / "server.pem"), "key": str(CERTS / "server.key"), "client_ca": str(CERTS / "ca.pem")}
    with extender(tmp_path, {}, **server) as process:
        files = ExtenderTLS(ca_data=CA, cert_file=str(CERTS / "client.pem"), key_file=str(CERTS / "client.key"))
        assert await ask(client, process.url, tls_config=files) == Reply(body=b"{}")
        anonymous = await ask(client, process.url, tls_config=ExtenderTLS(ca_data=CA))
        assert anonymous.error.startswith(f'Post "{process.url}/bind": ')


async def test_https_where_there_is_none(plain: ExtenderProcess, client: ExtenderClient) -> None:
    url = plain.url.replace("http:", "https:")
    reply = await ask(client, url, enable_https=True)
    assert reply.error == f'Post "{url}/bind": http: server gave HTTP response to HTTPS client'
