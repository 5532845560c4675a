"""Endpoint authentication and authorization by the API server."""

from __future__ import annotations

import ssl

import aiohttp
import msgspec
import pytest

from mooring.live.endpoints.endpoint_auth import AuthSettings, EndpointAuth, HttpError
from mooring.live.endpoints.endpoint_server import EndpointServer, ServerSettings
from tests.live.endpoints.serving import CERTS, GIVEN, GUARDED, OPEN, Cluster, get, serving, sources


async def test_health_needs_no_authorization_and_other_paths_do():
    cluster = Cluster(admin=GUARDED, viewer=("/metrics",))
    async with serving(auth=EndpointAuth(cluster.call)) as (_, session):
        for path in OPEN:
            assert await get(session, path) == (200, "ok"), path
        for path in GUARDED:
            assert (await get(session, path))[0] == 403, path
            assert (await get(session, path, "stranger"))[0] == 401, path
            assert (await get(session, path, "admin"))[0] == 200, path
            assert (await get(session, path, "viewer"))[0] == (200 if path == "/metrics" else 403), path
        assert (await get(session, "/nothing", "admin"))[0] == 404


async def test_decisions_are_cached_for_ten_seconds():
    cluster, now = Cluster(admin=("/metrics",)), [0.0]
    auth = EndpointAuth(cluster.call, clock=lambda: now[0])
    for moment, calls in ((0.0, 2), (9.0, 2), (10.5, 4)):
        now[0] = moment
        await auth.check("Bearer admin", "/metrics")
        assert len(cluster.calls) == calls


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "Bearer  "])
async def test_without_a_token_a_client_is_anonymous(header):
    cluster = Cluster()
    with pytest.raises(HttpError) as refused:
        await EndpointAuth(cluster.call).check(header, "/metrics")
    assert (refused.value.status, cluster.calls) == (403, ["SubjectAccessReview"])
    assert 'user "system:anonymous" cannot get path "/metrics"; send a token' in refused.value.text
    await EndpointAuth(Cluster(**{"system:anonymous": ("/metrics",)}).call).check(header, "/metrics")


async def test_requests_are_refused_while_the_api_server_is_unreachable():
    cluster = Cluster(admin=GUARDED)
    cluster.down = True
    with pytest.raises(HttpError, match="connection refused") as refused:
        await EndpointAuth(cluster.call).check("Bearer admin", "/metrics")
    assert refused.value.status == 503


async def test_a_client_certificate_authenticates():
    certified = Cluster(alice=("/metrics",))
    settings = ServerSettings(port=0, tls=msgspec.structs.replace(GIVEN, client_ca_file=str(CERTS / "ca.pem")))
    server = EndpointServer(settings, sources(), EndpointAuth(certified.call))
    await server.start()
    try:
        context = ssl.create_default_context(cafile=str(CERTS / "ca.pem"))
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{server.url}/metrics", ssl=context) as answer:
                assert answer.status == 403
            context.load_cert_chain(CERTS / "client.pem", CERTS / "client.key")
            async with aiohttp.ClientSession() as other, other.get(f"{server.url}/metrics", ssl=context) as answer:
                assert answer.status == 200
        assert certified.calls == ["SubjectAccessReview", "SubjectAccessReview"]
    finally:
        await server.stop()


@pytest.mark.parametrize(
    ("paths", "path", "is_open"),
    [
        (("/healthz", "/livez", "/readyz"), "/healthz/ping", True),
        (("/healthz",), "/readyz", False),
        (("/metrics*",), "/metrics/resources", True),
        (("/metrics",), "/metrics/resources", False),
        ((), "/healthz", False),
    ],
)
def test_open_paths(paths, path, is_open):
    assert EndpointAuth(Cluster().call, settings=AuthSettings(open_paths=paths)).is_open(path) is is_open
