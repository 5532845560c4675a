"""Endpoint authentication and authorization by the API server."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import pytest

from mooring.live.endpoints.endpoint_auth import AuthSettings, EndpointAuth, HttpError
from mooring.live.endpoints.endpoint_server import EndpointServer, ServerSettings
from tests.live.endpoints.serving import CERTS, GIVEN, GUARDED, OPEN, Cluster, get, serving, sources, trusting_context
from tests.waiting import PATIENCE


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
        context = trusting_context()
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


async def _checked(auth: EndpointAuth, token: str, path: str = "/metrics") -> int:
    try:
        await auth.check(f"Bearer {token}", path)
    except HttpError as error:
        return error.status
    return 200


async def test_a_flood_of_tokens_causes_few_reviews_and_leaves_room_for_known_clients():
    cluster, now = Cluster(admin=GUARDED), [0.0]
    auth = EndpointAuth(cluster.call, clock=lambda: now[0])
    assert await _checked(auth, "admin") == 200
    now[0] = 20.0  # the decision has expired
    cluster.calls.clear()
    cluster.gate = asyncio.Event()
    flood = [asyncio.create_task(_checked(auth, f"invented-{number}")) for number in range(600)]
    known = asyncio.create_task(_checked(auth, "admin"))
    async with asyncio.timeout(PATIENCE):
        while sum(each.done() for each in flood) < 594 or len(cluster.calls) < 7:
            await asyncio.sleep(0)
    assert sum(each.done() for each in flood) == 594
    assert cluster.calls == ["TokenReview"] * 7
    cluster.gate.set()
    assert await known == 200
    assert sorted(await asyncio.gather(*flood)) == [401] * 6 + [429] * 594
    # The places are free again, and invented tokens are remembered.
    assert await _checked(auth, "invented-0") == 401
    assert len(cluster.calls) == 8
    assert await _checked(auth, "invented-600") == 401


async def test_rejected_tokens_do_not_displace_cached_decisions():
    cluster = Cluster(admin=GUARDED)
    auth = EndpointAuth(cluster.call, clock=lambda: 0.0)
    assert await _checked(auth, "admin") == 200
    for number in range(3000):
        assert await _checked(auth, f"invented-{number}") == 401
    calls = len(cluster.calls)
    assert await _checked(auth, "admin") == 200
    assert await _checked(auth, "invented-2999") == 401
    assert len(cluster.calls) == calls
    assert max(len(auth._rejected), len(auth._users)) <= 1024


async def test_identical_reviews_are_combined():
    cluster = Cluster(admin=GUARDED)
    cluster.gate = asyncio.Event()
    auth = EndpointAuth(cluster.call)
    waiting = [asyncio.create_task(_checked(auth, "admin")) for _ in range(50)]
    while not cluster.calls:
        await asyncio.sleep(0)
    waiting.pop().cancel()  # a client that leaves does not take the review from the others
    cluster.gate.set()
    assert await asyncio.gather(*waiting) == [200] * 49
    assert cluster.calls == ["TokenReview", "SubjectAccessReview"]


async def test_a_request_too_many_says_when_to_try_again():
    cluster = Cluster()
    cluster.gate = asyncio.Event()
    async with serving(auth=EndpointAuth(cluster.call)) as (_, session):
        flood = [asyncio.create_task(get(session, "/metrics", f"invented-{number}")) for number in range(6)]
        async with asyncio.timeout(PATIENCE):
            while len(cluster.calls) < 6:
                await asyncio.sleep(0.001)
        async with session.get("/metrics", headers={"Authorization": "Bearer another"}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
            assert (await answer.text()).startswith("Too many requests: ")
        assert await get(session, "/healthz") == (200, "ok")
        cluster.gate.set()
        assert {status for status, _ in await asyncio.gather(*flood)} == {401}
