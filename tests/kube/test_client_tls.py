"""Trust: whose certificates are accepted, and which are shown."""

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mooring.api import Node, ObjectMeta, Pod
from mooring.certificates import make_certificate
from mooring.kube import Access, AccessError, Client, ConnectionFailed, Unauthorized, User
from mooring.kube.client_tls import TlsContexts, client_context
from mooring.kube.identity import Identity
from tests.kube import http2_server as h2
from tests.kube.http2_server import Http2Server, replying
from tests.kube.server import CERTS, Api

CA = (CERTS / "ca.pem").read_bytes()
PAIR = Identity("", (CERTS / "client.pem").read_bytes(), (CERTS / "client.key").read_bytes())
POD = Pod(metadata=ObjectMeta(name="p", namespace="default"))


async def both_ways(access: Access, api: Api) -> None:
    """A read by aiohttp and a bind on the fast writer."""
    api.put("/api/v1/nodes/n", {})
    api.put("/api/v1/namespaces/default/pods/p", {})
    async with Client(access) as client:
        assert (await client.get(Node, "n")).name == "n"
        await client.bind(POD, "n")


@pytest.mark.parametrize(
    "changed",
    [
        lambda access: access,
        lambda access: replace(access, ca=None, insecure=True),
        lambda access: replace(access, tls_server_name="kube.test"),
        # A bundle with comments and strangers, as people keep them.
        lambda access: replace(access, ca="# a commént\n".encode() + (CERTS / "other-ca.pem").read_bytes() + CA),
        # Go trusts a certificate that was given even where it is no root.
        lambda access: replace(access, ca=(CERTS / "server.pem").read_bytes()),
    ],
)
async def test_servers_that_are_trusted(tls_api: Api, changed: Callable[[Access], Access]) -> None:
    await both_ways(changed(Access(server=tls_api.url, ca=CA)), tls_api)


@pytest.mark.parametrize(
    "changed",
    [
        lambda access: replace(access, ca=(CERTS / "other-ca.pem").read_bytes()),
        lambda access: replace(access, ca=None),
        lambda access: replace(access, tls_server_name="kube.other"),
    ],
)
async def test_servers_that_are_not(
    tls_api: Api, changed: Callable[[Access], Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.kube.rest._TRIES", 0)
    async with Client(changed(Access(server=tls_api.url, ca=CA))) as client:
        with pytest.raises(ConnectionFailed, match=r"untrusted certificate.*give its certificate-authority"):
            await client.get(Node, "n")
        with pytest.raises(ConnectionFailed, match="certificate"):
            await client.bind(POD, "n")
    assert tls_api.requests == []


def test_the_ca_of_a_cluster_is_not_held_to_strict_rules() -> None:
    context = client_context(Access(server="https://k", ca=CA), PAIR)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


async def test_a_client_certificate_is_shown(tls_api: Api) -> None:
    user = User(certificate=PAIR.certificate, key=PAIR.key)
    shown = []
    tls_api.fault = lambda request: shown.append(request.get_extra_info("peercert"))  # type: ignore[func-returns-value]
    await both_ways(Access(server=tls_api.url, ca=CA, user=user), tls_api)
    assert len(shown) == 2
    assert all(dict(pair[0] for pair in each["subject"])["commonName"] == "alice" for each in shown)


@pytest.mark.parametrize(
    ("access", "identity", "said"),
    [
        (
            Access(server="https://k", ca=b"nonsense", origin="cfg"),
            Identity(),
            "cfg: certificate-authority: no PEM certif",
        ),
        (Access(server="https://k", origin="cfg"), Identity("", b"x", b"y"), "cfg: client-certificate and client-key"),
        (
            Access(server="https://k", origin="cfg"),
            replace(PAIR, key=(CERTS / "server.key").read_bytes()),
            "not a valid PEM pair: key values mismatch",
        ),
    ],
)
def test_what_cannot_be_read(access: Access, identity: Identity, said: str) -> None:
    with pytest.raises(AccessError) as caught:
        client_context(access, identity)
    assert said in str(caught.value)


def test_a_context_is_made_once_for_a_certificate() -> None:
    contexts = TlsContexts(Access(server="https://k", ca=CA))
    first = contexts.context(PAIR)
    assert contexts.context(Identity("Bearer new token", PAIR.certificate, PAIR.key)) is first
    assert contexts.context(Identity()) is not first
    assert TlsContexts(Access(server="http://k")).context(PAIR) is None


def test_a_certificate_without_its_key_yet_does_not_replace_the_old_one() -> None:
    contexts = TlsContexts(Access(server="https://k", ca=CA))
    torn = replace(PAIR, certificate=(CERTS / "server.pem").read_bytes())
    with pytest.raises(AccessError, match="not a valid PEM pair"):
        contexts.context(torn)
    first = contexts.context(PAIR)
    assert contexts.context(torn) is first
    pair = Identity("", torn.certificate, (CERTS / "server.key").read_bytes())
    assert contexts.context(pair) is not first


@pytest.mark.parametrize("broken", [b"", b"half of a certif", None])
async def test_an_authority_in_a_file_is_read_again(tls_api: Api, tmp_path: Path, broken: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes((CERTS / "other-ca.pem").read_bytes())
    now = 0.0
    access = Access(server=tls_api.url, ca=file.read_bytes(), ca_file=str(file))
    tls_api.put("/api/v1/nodes/n", {})
    async with Client(access, clock=lambda: now) as client:

        async def trusted() -> bool:
            try:
                return (await client.get(Node, "n")).name == "n"
            except ConnectionFailed:
                return False

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mooring.kube.rest._TRIES", 0)
            assert not await trusted()
            file.write_bytes(CA)
            assert not await trusted()
        now = 60.0
        assert await trusted()
        file.unlink() if broken is None else file.write_bytes(broken)
        now = 120.0
        assert await trusted()


async def test_a_proxy_is_used(tls_api: Api) -> None:
    """Through a proxy that only knows CONNECT, the server is reached and still must prove itself."""
    seen: list[bytes] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        port = int(head.split()[1].rpartition(b":")[2])
        onward = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(relay(reader, onward[1]), relay(onward[0], writer))

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    user = User(token="sesame")
    access = Access(server=tls_api.url, ca=CA, proxy=f"http://127.0.0.1:{port}", user=user)
    await both_ways(access, tls_api)
    proxy.close()
    await asyncio.sleep(0.05)
    assert seen
    assert all(head.startswith(b"CONNECT 127.0.0.1:") and b"sesame" not in head for head in seen)


async def test_an_expired_server_certificate_is_called_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.rest._TRIES", 0)
    made = make_certificate(days=0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(made.certificate + made.key)
        file.flush()
        context.load_cert_chain(file.name)
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(Access(server=url, ca=made.authority.encode())) as client:
            expected = f"^the certificate of {url}, or of its CA, has expired; renew it on the server"
            with pytest.raises(ConnectionFailed, match=expected):
                await client.get(Node, "n")
            with pytest.raises(ConnectionFailed, match=expected):
                await client.bind(POD, "n")


async def test_an_expired_client_certificate_is_called_expired() -> None:
    """An API server answers 401, without the reason."""
    made = make_certificate(days=0)
    user = User(certificate=made.certificate.encode(), key=made.key.encode())
    async with Api(tokens=("other",)) as api:
        async with Client(Access(server=api.url, user=user, origin="my.kubeconfig")) as client:
            expected = r"^my.kubeconfig: the client certificate expired on \d{4}-\d\d-\d\d at \d\d:\d\d UTC; get a new"
            with pytest.raises(Unauthorized, match=expected):
                await client.get(Node, "n")
            with pytest.raises(Unauthorized, match=expected):
                await client.list(Node)
        async with Client(Access(server=api.url, user=User(certificate=PAIR.certificate, key=PAIR.key))) as client:
            with pytest.raises(Unauthorized) as valid:
                await client.get(Node, "n")
            assert "expired" not in str(valid.value)


# HTTP/2


async def test_the_certificates_of_the_system_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[ssl.SSLContext] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda self, *_: loaded.append(self))
    contexts = TlsContexts(Access(server="https://k"))
    first = contexts.http2_context(Identity())
    assert first is contexts.http2_context(Identity("Bearer x"))
    assert contexts.context(Identity()) is not first
    assert len(loaded) == 1
    assert isinstance(first, ssl.SSLContext)
    assert TlsContexts(Access(server="http://k")).http2_context(Identity()) is None


def test_a_failed_offer_does_not_change_the_other_context() -> None:
    contexts = TlsContexts(Access(server="https://k", ca=CA))
    context = contexts.http2_context(Identity())
    assert context is not None
    offers: list[list[str]] = []
    base = contexts.context(Identity())
    assert base is not None

    class Recording(ssl.SSLContext):
        def set_alpn_protocols(self, alpn_protocols: Any) -> None:
            offers.append(list(alpn_protocols))

    base.__class__ = Recording  # type: ignore[assignment]  # the same layout
    with pytest.raises(TypeError):
        context.wrap_bio()
    assert offers == [["h2", "http/1.1"], ["http/1.1"]]


@pytest.mark.parametrize(
    "access",
    [
        Access(server="", ca=CA, tls_server_name="kube.test"),
        Access(server="", insecure=True),
        Access(server="", ca=(CERTS / "server.pem").read_bytes()),
    ],
)
async def test_http2_servers_that_are_trusted(access: Access) -> None:
    async with Http2Server(replying(lambda n: [h2.ok(n, b'{"kind":"Status","status":"Success"}')])) as server:
        async with Client(replace(access, server=server.url)) as client:
            await client.bind(POD, "n")
        assert server.selected == ["h2"]


@pytest.mark.parametrize("ca", [None, (CERTS / "other-ca.pem").read_bytes()])
async def test_http2_servers_that_are_not_trusted(ca: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.rest._TRIES", 0)
    async with (
        Http2Server(replying(lambda n: [h2.ok(n)])) as server,
        Client(Access(server=server.url, ca=ca)) as client,
    ):
        with pytest.raises(ConnectionFailed, match=r"untrusted certificate.*give its certificate-authority"):
            await client.bind(POD, "n")
        assert server.peers == []
