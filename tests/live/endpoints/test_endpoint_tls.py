"""TLS of the endpoints: certificates, versions, cipher suites and client CAs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import aiohttp
import pytest

from mooring.certificates import make_certificate
from mooring.live.endpoints import endpoint_server as server_module
from mooring.live.endpoints import endpoint_tls as tls_module
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from mooring.live.endpoints.endpoint_server import EndpointServer, ServerSettings
from mooring.live.endpoints.endpoint_tls import CertificateError, ServerTls, TlsSettings
from tests.live.endpoints.serving import CERTS, GIVEN, Cluster, sources, statuses, trusting_context
from tests.waiting import PATIENCE


async def test_a_self_signed_certificate_is_created_by_default(tmp_path):
    settings = ServerSettings(port=0, tls=TlsSettings(cert_dir=str(tmp_path / "certs")))
    server = EndpointServer(settings, sources(), None)
    await server.start()
    try:
        context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "mooring.crt"))
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/healthz", ssl=context) as answer:
            assert (answer.status, server.url.startswith("https://127.0.0.1:")) == (200, True)
    finally:
        await server.stop()
    assert (tmp_path / "certs" / "mooring.key").stat().st_mode & 0o077 == 0


async def test_given_certificates_are_served():
    settings = ServerSettings(port=0, tls=GIVEN)
    server = EndpointServer(settings, sources(), None)
    await server.start()
    try:
        context = trusting_context()
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/healthz", ssl=context) as answer:
            assert answer.status == 200
    finally:
        await server.stop()


async def test_the_client_ca_can_change_while_listening():
    server = EndpointServer(
        ServerSettings(port=0, tls=GIVEN), sources(), EndpointAuth(Cluster(alice=("/metrics",)).call)
    )
    theirs, others = ((CERTS / name).read_text() for name in ("ca.pem", "other-ca.pem"))
    await server.start()
    try:
        assert await statuses(server) == (403, 403)
        server.trust_clients(theirs)
        assert await statuses(server) == (200, 403)
        server.trust_clients(others)
        assert await statuses(server) == (None, 403)
        server.trust_clients(others + theirs)
        assert await statuses(server) == (200, 403)
        with pytest.raises(CertificateError, match="the cluster's client-ca-file: contains no PEM certificates"):
            server.trust_clients("nonsense")
        assert await statuses(server) == (200, 403)
    finally:
        await server.stop()


async def test_changed_certificate_files_are_reloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "_RENEW_SECONDS", 0.001)
    names = {"cert_file": "server.pem", "key_file": "server.key", "client_ca_file": "other-ca.pem"}
    paths = {field: tmp_path / field for field in names}
    for field, name in names.items():
        paths[field].write_bytes((CERTS / name).read_bytes())
    settings = TlsSettings(**{field: str(path) for field, path in paths.items()})
    server = EndpointServer(
        ServerSettings(port=0, tls=settings), sources(), EndpointAuth(Cluster(alice=("/metrics",)).call)
    )
    await server.start()

    async def eventually(expected: tuple[int | None, int | None]) -> None:
        async with asyncio.timeout(PATIENCE):
            while await statuses(server) != expected:
                pass

    try:
        assert await statuses(server) == (None, 403)
        paths["client_ca_file"].write_bytes((CERTS / "ca.pem").read_bytes())
        await eventually((200, 403))
        # A certificate whose key is not there yet changes nothing; with its key it is served, and not trusted here.
        made = make_certificate()
        paths["cert_file"].write_text(made.certificate)
        with pytest.raises(CertificateError, match="not a PEM certificate and its private key"):
            ServerTls(settings)
        assert await statuses(server) == (200, 403)
        paths["key_file"].write_text(made.key)
        await eventually((None, None))
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (TlsSettings(min_version="VersionTLS11"), "no longer secure; use VersionTLS12"),
        (TlsSettings(min_version="1.2"), "unknown version '1.2'"),
        (TlsSettings(cipher_suites=("TLS_NULL",)), "'TLS_NULL' is unknown"),
        (TlsSettings(client_ca_file="nothing.pem"), "--client-ca-file nothing.pem: No such file"),
        (TlsSettings(client_ca_file=__file__), "contains no PEM certificates"),
    ],
)
def test_unsupported_tls_settings_are_rejected(settings, problem):
    with pytest.raises(CertificateError, match=problem):
        ServerTls(settings)


def test_tls_version_and_cipher_suites_are_applied():
    suites = ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    context = ServerTls(TlsSettings(min_version="VersionTLS13", cipher_suites=suites)).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    old = [each["name"] for each in context.get_ciphers() if not each["name"].startswith("TLS_")]
    assert old == ["ECDHE-RSA-AES256-GCM-SHA384"]


@pytest.mark.parametrize(
    ("cert", "key", "problem"),
    [
        ("server.pem", "", "--tls-private-key-file is missing"),
        ("", "server.key", "--tls-cert-file is missing"),
        ("nothing.pem", "server.key", "nothing.pem: no such file"),
        ("server.pem", "client.key", "not a PEM certificate and its private key"),
        ("README.md", "server.key", "not a PEM certificate and its private key"),
    ],
)
def test_invalid_certificates_are_rejected(cert, key, problem):
    with pytest.raises(CertificateError, match=problem):
        ServerTls(TlsSettings(cert_file=str(CERTS / cert) if cert else "", key_file=str(CERTS / key) if key else ""))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["localhost", None])
def test_a_self_signed_certificate_is_created_for_the_first_client(monkeypatch, version, name):
    made = []
    monkeypatch.setattr(
        tls_module, "make_certificate", lambda *a, **k: made.append(make_certificate(*a, **k)) or made[-1]
    )
    tls = ServerTls(TlsSettings())
    tls.trust_clients((CERTS / "ca.pem").read_text())
    assert not made
    first = _served(tls.context, version, name)
    tls.trust_clients((CERTS / "other-ca.pem").read_text())
    assert _served(tls.context, version, name) == first
    assert [ssl.PEM_cert_to_DER_cert(each.certificate) for each in made] == [first]


def _served(context: ssl.SSLContext, version: ssl.TLSVersion, name: str | None) -> bytes | None:
    """Return the certificate that a client receives."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    trusting.minimum_version = trusting.maximum_version = version
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=name)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True)
